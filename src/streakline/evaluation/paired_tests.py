"""Tests whether arms differ on the same tasks, and the correction for making many comparisons.

They speak of the trained models at hand: tasks are drawn at random, seeds are given. For methods, whose seeds are drawn
too, see `method_difference`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from streakline.errors import ConfigError, DataError
from streakline.evaluation.clustered import require_same_tasks
from streakline.evaluation.intervals import Interval, interval_of_differences
from streakline.evaluation.score_table import FloatArray, ScoreTable

Correction: TypeAlias = Literal["holm", "fdr_bh"]
"""`holm` bounds the chance of any false alarm (Holm, 1979), `fdr_bh` the share of false ones among the alarms
(Benjamini and Hochberg, 1995)."""

MANY_PAIRS = 1_000
"""Effective number of pairs from which the sum of random signs is taken as normal."""
_BATCH_NUMBERS = 2_000_000
"""Flipped numbers held at once: 16 MB, and some copies of them."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """Whether one arm differs from another on the same tasks."""

    test: Literal["mcnemar", "sign_flip"]
    """The test that suits the scores."""
    difference: Interval
    """Mean over tasks of the second arm minus the first, with an interval over tasks."""
    p_value: float
    """Two-sided p value, uncorrected."""
    p_corrected: float
    """The same, corrected for the number of comparisons that it was made with."""
    num_left_out: int
    """Tasks that one of the arms has no score for."""


def compare_arms(
    arms: Mapping[str, ScoreTable],
    *,
    baseline: str,
    level: float = 0.95,
    correction: Correction = "holm",
    seed: int = 0,
) -> dict[str, PairedTest]:
    """Compare each other arm with the baseline, by name; the p values are corrected for their number.

    Raises:
        ConfigError: If the baseline is no arm.
        DataError: If arms differ in their tasks, or fewer than two tasks are scored in both.
    """
    if baseline not in arms:
        raise ConfigError(f"Expected `baseline` to be one of {sorted(arms)}, but got {baseline!r}")
    tests = {
        name: paired_test(arms[baseline], after=arm, level=level, seed=seed)
        for name, arm in arms.items()
        if name != baseline
    }
    corrected = corrected_p_values([test.p_value for test in tests.values()], correction=correction)
    return {name: replace(test, p_corrected=p) for (name, test), p in zip(tests.items(), corrected, strict=True)}


def paired_test(before: ScoreTable, *, after: ScoreTable, level: float = 0.95, seed: int = 0) -> PairedTest:
    """Test two arms on the same tasks.

    McNemar's exact test where every task has one episode that is right or wrong, else sign flips of the differences of
    per-task means. The interval of the difference is that of `interval_of_differences`.

    Raises:
        DataError: If the arms differ in their tasks, or fewer than two tasks are scored in both.
    """
    require_same_tasks(before, after)
    first, second = before.task_means, after.task_means
    both = np.isfinite(first) & np.isfinite(second)
    first, second = first[both], second[both]
    is_binary = all(_is_one_right_or_wrong(arm) for arm in (before, after))
    p_value = mcnemar_p_value(first, after=second) if is_binary else sign_flip_p_value(second - first, seed=seed)
    return PairedTest(
        test="mcnemar" if is_binary else "sign_flip",
        difference=interval_of_differences(second - first, level=level, seed=seed),
        p_value=p_value,
        p_corrected=p_value,
        num_left_out=int((~both).sum()),
    )


def mcnemar_p_value(before: FloatArray, *, after: FloatArray) -> float:
    """McNemar's exact test of [P] paired outcomes of 0 or 1: a two-sided binomial test of those that differ.

    1 where none differ. It holds for independent pairs alone; several episodes of a task are not, see
    `sign_flip_p_value`.

    Raises:
        DataError: If the lengths differ, or an outcome is neither 0 nor 1.
    """
    if before.shape != after.shape or not np.isin(np.concatenate([before, after]), (0.0, 1.0)).all():
        raise DataError("Expected `before` and `after` to be paired outcomes of 0 or 1, but got others")
    rose, fell = int((after > before).sum()), int((after < before).sum())
    return float(mcnemar([[0, rose], [fell, 0]], exact=True).pvalue) if rose + fell else 1.0


def sign_flip_p_value(differences: Sequence[float] | FloatArray, *, num_resamples: int = 9_999, seed: int = 0) -> float:
    """Two-sided p value of a mean paired difference by flipping the signs of the pairs at random (Fisher, 1935).

    Exact where all 2^P flips of the [P] differences are at most `num_resamples`. For differences in {-1, 0, 1} it is
    then the exact McNemar test. 1 where nothing differs. From `MANY_PAIRS` on, where (sum of squares)^2 / sum of fourth
    powers counts the pairs by their weight, the flipped sum is normal with the sum of squares as its variance.
    """
    moved = np.asarray(differences, dtype=np.float64)
    moved = moved[moved != 0]  # a flip leaves a zero as it is
    if len(moved) < 2:
        return 1.0  # either sign of a single difference is as extreme
    moved = moved / np.abs(moved).max()
    squares = np.square(moved)
    if squares.sum() ** 2 >= MANY_PAIRS * np.square(squares).sum():
        return float(2 * stats.norm.sf(abs(moved.sum()) / np.sqrt(squares.sum())))
    result = stats.permutation_test(
        (moved,),
        _rounded_mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=num_resamples,
        batch=max(1, _BATCH_NUMBERS // len(moved)),
        rng=np.random.default_rng(seed),
    )
    return min(1.0, float(result.pvalue))


def _rounded_mean(values: FloatArray, *, axis: int) -> FloatArray:
    """Mean without the last digits, in which flips that tie (thirds that add up to 1) would differ."""
    return np.asarray(values.mean(axis=axis)).round(12)


def corrected_p_values(p_values: Sequence[float], *, correction: Correction = "holm") -> tuple[float, ...]:
    """P values corrected for their number, in the order given; at most the error rate = significant.

    Raises:
        DataError: If one is not in [0, 1].
    """
    values: npt.NDArray[np.float64] = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError(f"Expected `p_values` to be within [0, 1], but got {p_values}")
    return tuple(multipletests(values, method=correction)[1].tolist()) if len(values) else ()


def _is_one_right_or_wrong(arm: ScoreTable) -> bool:
    """Whether no task has more than one scored episode, and each is 0 or 1."""
    scored = arm.values[np.isfinite(arm.values)]
    return bool((arm.counts.sum(axis=0) <= 1).all() and np.isin(scored, (0.0, 1.0)).all())
