"""Success by request kind before and after training, and which kinds really moved.

A mean can rise while one kind of request is un-learned. With a dozen kinds some move by luck, so the p values are
corrected for their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streakline.errors import ConfigError, DataError
from streakline.evaluation.intervals import paired_values
from streakline.evaluation.paired_tests import corrected_p_values, sign_flip_p_value
from streakline.evaluation.score_table import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class KindChange:
    """Success of one kind of request, before and after, on the same tasks."""

    kind: str
    """Request kind or category."""
    num_tasks: int
    """Tasks of the kind with a score on both sides."""
    before: float
    """Mean over tasks before."""
    after: float
    """Mean over tasks after."""
    p_value: float
    """Two-sided p value of the paired difference, uncorrected."""
    p_corrected: float
    """The same after Holm's correction for the number of kinds."""
    is_significant: bool
    """Whether `p_corrected` is at most the chosen error rate."""

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def fell(self) -> bool:
        """Whether success fell significantly."""
        return self.is_significant and self.difference < 0

    @property
    def rose(self) -> bool:
        """Whether success rose significantly."""
        return self.is_significant and self.difference > 0


def changes_by_kind(
    before: Mapping[str, Sequence[float]],
    after: Mapping[str, Sequence[float]],
    *,
    kinds: Mapping[str, str],
    error_rate: float = 0.05,
    seed: int = 0,
) -> tuple[KindChange, ...]:
    """Compare before and after kind by kind, with Holm's correction (1979) over the kinds; one record a kind, by name.

    `before` and `after` map a task's id to one value an episode; kinds without a scored task are left out. `error_rate`
    is the chance that any kind is called moved though none did.

    Raises:
        ConfigError: If the error rate can't be.
        DataError: If the tasks differ, or one has no kind.
    """
    if not 0 < error_rate < 1:
        raise ConfigError(f"Expected `error_rate` to be between 0 and 1, but got {error_rate}")
    pairs = _pairs_by_kind(before, after, kinds)
    if not pairs:
        return ()
    p_values = [sign_flip_p_value(second - first, seed=seed) for first, second in pairs.values()]
    corrected = corrected_p_values(p_values, correction="holm")
    return tuple(
        KindChange(
            kind=kind,
            num_tasks=len(first),
            before=float(first.mean()),
            after=float(second.mean()),
            p_value=p_value,
            p_corrected=p_corrected,
            is_significant=p_corrected <= error_rate,
        )
        for (kind, (first, second)), p_value, p_corrected in zip(pairs.items(), p_values, corrected, strict=True)
    )


def _pairs_by_kind(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], kinds: Mapping[str, str]
) -> dict[str, tuple[FloatArray, FloatArray]]:
    unknown = sorted((before.keys() | after.keys()) - kinds.keys())
    if unknown:
        raise DataError(f"Expected a kind for every task, but got none for {unknown[0]!r}")
    pairs: dict[str, tuple[FloatArray, FloatArray]] = {}
    for kind in sorted(set(kinds.values())):
        first, second = paired_values(
            {task: values for task, values in before.items() if kinds[task] == kind},
            {task: values for task, values in after.items() if kinds[task] == kind},
        )
        if len(first):
            pairs[kind] = (first, second)
    return pairs
