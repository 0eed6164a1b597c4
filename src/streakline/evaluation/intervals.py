"""Confidence intervals for success rates, with the task as the unit that is drawn at random.

Several episodes of one task are not independent: a task is easy or hard for all of them. Every interval over
episodes is therefore taken over per-task means, so that rolling a task out more often narrows nothing but the noise
within it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from streakline.errors import ConfigError, DataError
from streakline.evaluation.score_table import FloatArray

DifferenceMethod: TypeAlias = Literal["by_size", "adjusted", "bootstrap", "t"]
"""How the interval of a paired difference is taken."""

ENOUGH_TASKS = 30
"""Tasks' worth of success and of failure from which t covers as well as Wilson's interval; see docs/statistics.md."""
BOOTSTRAP_TASKS = 100
"""Fewer tasks are too few to draw from: the bootstrap's interval is too short."""
T_TASKS = 10_000
"""More paired tasks have a mean that is normal; BCa would take time and memory that grow with their square."""
_BATCH_NUMBERS = 10_000_000
"""Resampled numbers held at once: 80 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate and the range that covers the true value with probability `level` over repetitions."""

    estimate: float
    """Point estimate."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""
    count: int
    """Independent units that it rests on: trials, tasks or seeds."""
    level: float = 0.95
    """Nominal coverage."""

    @property
    def is_above_zero(self) -> bool:
        """Whether the whole interval is greater than 0."""
        return self.low > 0

    @property
    def half_width(self) -> float:
        """Half of the interval's length."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        """Format as `0.50 [0.40, 0.60]`, three decimals."""
        return f"{self.estimate:.3f} [{self.low:.3f}, {self.high:.3f}]"


def wilson(successes: int, *, trials: int, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion of independent trials; sound at small counts and at 0 and 1.

    Raises:
        ConfigError: If the counts or the level can't be.
    """
    _require_level(level)
    if trials < 1 or not 0 <= successes <= trials:
        raise ConfigError(f"Expected 0 <= `successes` <= `trials` and `trials` >= 1, but got {successes} of {trials}")
    low, high = proportion_confint(successes, trials, alpha=1 - level, method="wilson")
    return Interval(estimate=successes / trials, low=float(low), high=float(high), count=trials, level=level)


def clustered_share(values: Mapping[str, Sequence[bool]], *, level: float = 0.95) -> Interval:
    """Share of successes among trials that come in clusters; an interval that is sound at few tasks too.

    `values` maps a task's id to the outcomes of its trials. Wilson's interval is taken at the number of independent
    trials that would give the share the variance which it has over tasks, less for few tasks (Korn and Graubard, 1998).
    Where all trials agree, that variance can't be seen, and each task counts as one trial.

    Raises:
        DataError: If there is no trial.
    """
    _require_level(level)
    counts = np.asarray([(sum(each), len(each)) for each in values.values() if each], dtype=np.float64).reshape(-1, 2)
    if not len(counts):
        raise DataError("Expected at least one trial for an interval, but got none")
    share, variance = clustered_mean(counts[:, 0], counts=counts[:, 1])
    return _wilson_at(share, variance=variance, num_tasks=len(counts), num_trials=counts[:, 1].sum(), level=level)


def clustered_mean(sums: FloatArray, *, counts: FloatArray) -> tuple[float, float]:
    """Plain mean of values that come in clusters, and the variance of that mean over draws of clusters.

    The variance is the sandwich of a regression on a constant, C / (C - 1) * sum over clusters of
    (sum of its residuals)^2 / N^2 (Liang and Zeger, 1986; CR1; Miller, arXiv 2411.00640, appendix A, which leaves out
    C / (C - 1)). `sums` and `counts` are [C]: each cluster's sum of values, and how many. nan variance for one cluster.
    """
    num_clusters, total = len(counts), float(counts.sum())
    mean = float(sums.sum()) / total
    if num_clusters < 2:
        return mean, math.nan
    return mean, num_clusters / (num_clusters - 1) * float(np.square(sums - mean * counts).sum()) / total**2


def mean_interval(values: Mapping[str, Sequence[float]], *, level: float = 0.95) -> Interval:
    """Mean over tasks of the per-task mean, with the interval of `interval_over_tasks`.

    `values` maps a task's id to one value an episode; tasks without a value are left out. With equally many episodes a
    task, t is the cluster-robust interval (CR1) of the plain mean.

    Raises:
        DataError: If no task has a value, or only one whose mean is outside [0, 1].
    """
    scored = [episodes for episodes in values.values() if len(episodes)]
    means = np.asarray([float(np.mean(episodes)) for episodes in scored], dtype=np.float64)
    counts = np.asarray([len(episodes) for episodes in scored], dtype=np.float64)
    return interval_over_tasks(means, counts=counts, level=level)


def interval_over_tasks(means: FloatArray, *, counts: FloatArray, level: float = 0.95) -> Interval:
    """Mean of [P] per-task means, each of [P] `counts` independent episodes, with an interval over draws of tasks.

    Student's t with P - 1 degrees of freedom where the mean and its distance from 1 are worth `ENOUGH_TASKS` tasks, or
    a task's mean is outside [0, 1]. Else, so always below 60 tasks, Wilson's interval at the effective number of tasks,
    as in `clustered_share`: near 0 and 1 and at few tasks t covers too seldom.

    Raises:
        DataError: If there is no task, or only one whose mean is outside [0, 1].
    """
    _require_level(level)
    bounded = len(means) > 0 and means.min() >= 0 and means.max() <= 1
    share = float(means.mean()) if bounded else math.nan
    if not bounded or min(share, 1 - share) * len(means) >= ENOUGH_TASKS:
        return _t_interval(means, level=level, unit="tasks")
    _, variance = clustered_mean(means, counts=np.ones_like(means))
    num_trials = len(means) ** 2 / float((1 / counts).sum())  # their mean has the variance of the mean of task means
    return _wilson_at(share, variance=variance, num_tasks=len(means), num_trials=num_trials, level=level)


def paired_difference(
    before: Mapping[str, Sequence[float]],
    after: Mapping[str, Sequence[float]],
    *,
    level: float = 0.95,
    method: DifferenceMethod = "by_size",
    num_resamples: int = 9_999,
    seed: int = 0,
) -> Interval:
    """Mean over tasks of (mean after - mean before), each task compared with itself; see `interval_of_differences`.

    The number of episodes of a task may differ.

    Raises:
        DataError: If the tasks differ, or fewer than two have values on both sides.
    """
    first, second = paired_values(before, after)
    return interval_of_differences(second - first, level=level, method=method, num_resamples=num_resamples, seed=seed)


def interval_of_differences(
    differences: FloatArray,
    *,
    level: float = 0.95,
    method: DifferenceMethod = "by_size",
    num_resamples: int = 9_999,
    seed: int = 0,
) -> Interval:
    """Mean of [P] paired differences, one a task, with an interval over draws of tasks.

    - `bootstrap` draws whole tasks and corrects for bias and skew (BCa, Efron 1987).
    - `t` assumes that the mean of the differences is normal.
    - `adjusted` is t after two more tasks: half of one rises by 1, half falls by 1, and one stays (Agresti and Min,
      2005, Statistics in Medicine 24:729). Where all differences are equal, whose variance can't be seen, one rises and
      one falls (Bonett and Price, 2012, J. Educational and Behavioral Statistics 37:479). For differences in [-1, 1].
    - `by_size` is `adjusted` below `BOOTSTRAP_TASKS` and where all differences are equal, `bootstrap` up to `T_TASKS`,
      where a skew no longer matters, then `t`. Differences outside [-1, 1] take `t` in place of `adjusted`.

    Raises:
        DataError: If there are fewer than two differences.
    """
    _require_level(level)
    if method == "by_size":
        method = _method_by_size(differences)
    if method == "adjusted":
        return _adjusted_interval(differences, level=level)
    if method == "t" or len(differences) < 2 or np.ptp(differences) == 0:
        return _t_interval(differences, level=level, unit="tasks")
    result = stats.bootstrap(
        (differences,),
        np.mean,
        confidence_level=level,
        n_resamples=num_resamples,
        method="BCa",
        batch=max(1, _BATCH_NUMBERS // len(differences)),
        rng=np.random.default_rng(seed),
    )
    low, high = result.confidence_interval
    return Interval(
        estimate=float(differences.mean()), low=float(low), high=float(high), count=len(differences), level=level
    )


def paired_values(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]
) -> tuple[FloatArray, FloatArray]:
    """[P] per-task means of each side, sorted by task id; tasks that lack a value on either side are left out.

    Raises:
        DataError: If a task stands on one side only.
    """
    strangers = sorted(before.keys() ^ after.keys())
    if strangers:
        raise DataError(
            f"Expected the same tasks before and after, but got {len(strangers)} on one side only, "
            f"such as {strangers[0]!r}"
        )
    shared = [task for task in sorted(before) if len(before[task]) and len(after[task])]
    first = np.asarray([np.mean(before[task]) for task in shared], dtype=np.float64)
    second = np.asarray([np.mean(after[task]) for task in shared], dtype=np.float64)
    return first, second


def t_interval_across_seeds(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """Mean of one figure over runs that differ by their seed only, with a t interval over runs.

    It speaks of the method, where an interval over tasks speaks of one trained model.

    Raises:
        DataError: If there are fewer than two runs.
    """
    return _t_interval(np.asarray(values, dtype=np.float64), level=level, unit="seeds")


def _method_by_size(differences: FloatArray) -> DifferenceMethod:
    """The method that covers at its nominal rate at this number of tasks."""
    few = len(differences) < BOOTSTRAP_TASKS or np.ptp(differences) == 0
    if few and len(differences) > 1 and np.abs(differences).max() <= 1:
        return "adjusted"
    return "t" if few or len(differences) > T_TASKS else "bootstrap"


def _adjusted_interval(differences: FloatArray, *, level: float) -> Interval:
    if len(differences) < 2 or np.abs(differences).max() > 1:
        raise DataError(f"Expected at least two `differences` within [-1, 1], but got {len(differences)}")
    mean, padded = float(differences.mean()), len(differences) + 2
    center = float(differences.sum()) / padded
    added = 2 if np.ptp(differences) == 0 else 1
    variance = (float(np.square(differences).sum()) + added) / padded - center**2
    half = _t_quantile(level, df=len(differences) - 1) * math.sqrt(variance / padded)
    low, high = max(-1.0, min(mean, center - half)), min(1.0, max(mean, center + half))
    return Interval(estimate=mean, low=low, high=high, count=len(differences), level=level)


def _wilson_at(share: float, *, variance: float, num_tasks: int, num_trials: float, level: float) -> Interval:
    """Wilson's interval at the number of independent trials that gives `share` the `variance` (Korn and Graubard)."""
    effective = float(num_tasks)
    if num_tasks > 1 and 0 < share < 1:
        effective = share * (1 - share) / max(variance, share * (1 - share) / num_trials)
        effective *= (float(stats.norm.ppf((1 + level) / 2)) / _t_quantile(level, df=num_tasks - 1)) ** 2
    low, high = proportion_confint(share * effective, effective, alpha=1 - level, method="wilson")
    return Interval(estimate=share, low=float(low), high=float(high), count=num_tasks, level=level)


def _t_interval(values: FloatArray, *, level: float, unit: str) -> Interval:
    _require_level(level)
    if len(values) < 2:
        raise DataError(f"Expected at least two {unit} for an interval, but got {len(values)}")
    mean, error = float(values.mean()), float(stats.sem(values))
    half = error * _t_quantile(level, df=len(values) - 1)
    return Interval(estimate=mean, low=mean - half, high=mean + half, count=len(values), level=level)


def _t_quantile(level: float, *, df: float) -> float:
    """Half-width of the two-sided interval in standard errors."""
    return float(stats.t.ppf((1 + level) / 2, df=df))


def _require_level(level: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"Expected `level` to be between 0 and 1, but got {level}")
