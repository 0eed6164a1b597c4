"""Two evaluations of the same held-out tasks, compared task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streakline.errors import DataError
from streakline.evaluation.by_kind import KindChange, changes_by_kind
from streakline.evaluation.intervals import Interval, mean_interval, paired_difference
from streakline.evaluation.scores import greedy_by_task, kind_by_task, sampled_by_task
from streakline.metrics.held_out import HeldOutScore


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One way of decoding, before and after, with 95% intervals over tasks."""

    before: Interval
    """Mean success before."""
    after: Interval
    """Mean success after."""
    difference: Interval
    """Paired difference, after minus before."""
    kinds: tuple[KindChange, ...]
    """The same by request kind, sorted by name."""

    @property
    def kinds_fallen(self) -> tuple[str, ...]:
        """Kinds whose success fell significantly after correction for the number of kinds."""
        return tuple(change.kind for change in self.kinds if change.fell)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreComparison:
    """What changed between two evaluations of the same tasks."""

    sampled: Change
    """Episodes sampled at the training temperature."""
    greedy: Change
    """Episodes that always take the likeliest token."""

    @property
    def kinds_fallen(self) -> tuple[str, ...]:
        """Kinds that fell significantly in either way of decoding, sorted."""
        return tuple(sorted({*self.sampled.kinds_fallen, *self.greedy.kinds_fallen}))


def compare_scores(before: Sequence[HeldOutScore], after: Sequence[HeldOutScore], *, seed: int = 0) -> ScoreComparison:
    """Compare two score files of the same tasks.

    Raises:
        DataError: If the tasks or their kinds differ.
    """
    kinds = kind_by_task(before)
    changed = sorted(task for task, kind in kind_by_task(after).items() if kinds.get(task, kind) != kind)
    if changed:
        raise DataError(f"Expected the same kind of {changed[0]!r} before and after, but got two")
    return ScoreComparison(
        sampled=_change(sampled_by_task(before), sampled_by_task(after), kinds=kinds, seed=seed),
        greedy=_change(greedy_by_task(before), greedy_by_task(after), kinds=kinds, seed=seed),
    )


def _change(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], *, kinds: Mapping[str, str], seed: int
) -> Change:
    difference = paired_difference(before, after, seed=seed)
    return Change(
        before=mean_interval(before),
        after=mean_interval(after),
        difference=difference,
        kinds=changes_by_kind(before, after, kinds=kinds, seed=seed),
    )
