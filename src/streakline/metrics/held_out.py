"""Success on held-out tasks, over all of them and by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    terms: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """Reward term -> its score of each sampled episode and then of the greedy one; empty = not kept."""

    @property
    def has_greedy(self) -> bool:
        """Whether a greedy episode is known to have been run."""
        return self.greedy is not None or any(len(scores) > len(self.sampled) for scores in self.terms.values())

    def to_json(self) -> dict[str, JSON]:
        """The row of a score file."""
        return {
            "task_id": self.task_id,
            "kind": self.kind,
            "sampled": list(self.sampled),
            "greedy": self.greedy,
            "terms": {name: list(scores) for name, scores in self.terms.items()},
        }


def held_out_means(scores: Sequence[HeldOutScore], *, success_threshold: float = 1.0) -> dict[str, float]:
    """Means over tasks, unscored episodes left out.

    A task's sampled episodes are averaged first, so that each task weighs the same. Names: `success_sampled`,
    `success_greedy` (shares of episodes), `score_sampled`, `score_greedy` (mean scores), `success_sampled/<kind>`,
    `success_greedy/<kind>`, mean scores of each reward term (`reward_term_sampled/<term>` and
    `reward_term_greedy/<term>`), and the shares of unscored episodes, `unscored` of sampled and `unscored_greedy`. What
    no episode was scored for is left out.

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
        num_sampled = len(score.sampled)
        for decoding, values, place in (
            ("sampled", score.sampled, slice(num_sampled)),
            ("greedy", (score.greedy,), slice(num_sampled, None)),
        ):
            known = [value for value in values if value is not None]
            success = [float(value >= success_threshold) for value in known]
            add(f"success_{decoding}", success)
            add(f"success_{decoding}/{score.kind}", success)
            add(f"score_{decoding}", known)
            for name, of_term in score.terms.items():
                add(f"reward_term_{decoding}/{name}", [value for value in of_term[place] if value is not None])
        add("unscored", [float(value is None) for value in score.sampled])
        add("unscored_greedy", [float(score.greedy is None)] if score.has_greedy else [])
    return {name: float(metric.compute()) for name, metric in sorted(means.items())}
