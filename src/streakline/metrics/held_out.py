"""Success on held-out tasks, over all of them and by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchmetrics import MeanMetric

from streakline.types import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutScore:
    """Scores of the episodes of one task."""

    task_id: str
    """Task that was attempted."""
    kind: str
    """Its kind."""
    sampled: tuple[float | None, ...]
    """Score of each sampled episode; None = unscored; empty = none was sampled."""
    greedy: float | None
    """Score of the greedy episode; None = unscored, or not run."""

    def to_json(self) -> dict[str, JSON]:
        """The row of a score file."""
        return {"task_id": self.task_id, "kind": self.kind, "sampled": list(self.sampled), "greedy": self.greedy}


def held_out_means(scores: Sequence[HeldOutScore], *, success_threshold: float = 1.0) -> dict[str, float]:
    """Means over tasks, unscored episodes left out.

    A task's sampled episodes are averaged first, so that each task weighs the same. Names: `success_sampled`,
    `success_greedy` (shares of episodes), `score_sampled`, `score_greedy` (mean scores), `success_sampled/<kind>`,
    `success_greedy/<kind>`, and the share `unscored` of sampled episodes. What no episode was scored for is left out.

    Example:
        >>> scores = [HeldOutScore(task_id="a", kind="x", sampled=(1.0, 0.0), greedy=1.0)]
        >>> held_out_means(scores)["success_sampled"]
        0.5
    """
    means: dict[str, MeanMetric] = {}

    def add(name: str, values: Sequence[float]) -> None:
        if values:
            # Every process holds all scores already.
            metric = means.setdefault(name, MeanMetric(sync_on_compute=False))
            metric.update(sum(values) / len(values))

    for score in scores:
        for decoding, values in (("sampled", score.sampled), ("greedy", (score.greedy,))):
            known = [value for value in values if value is not None]
            success = [float(value >= success_threshold) for value in known]
            add(f"success_{decoding}", success)
            add(f"success_{decoding}/{score.kind}", success)
            add(f"score_{decoding}", known)
        add("unscored", [float(value is None) for value in score.sampled])
    return {name: float(metric.compute()) for name, metric in sorted(means.items())}
