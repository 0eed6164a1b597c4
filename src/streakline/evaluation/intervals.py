"""Confidence intervals for success rates, with the task as the unit that is drawn at random.

Several episodes of one task are not independent: a task is easy or hard for all of them. Every interval over
episodes is therefore taken over per-task means, so that rolling a task out more often narrows nothing but the noise
within it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from streakline.errors import ConfigError, DataError


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
    counts = np.asarray([(sum(each), len(each)) for each in values.values() if each], dtype=np.float64)
    num_tasks, (successes, trials) = len(counts), counts.reshape(-1, 2).sum(axis=0)
    if not num_tasks:
        raise DataError("Expected at least one trial for an interval, but got none")
    share = successes / trials
    effective = float(num_tasks)
    if num_tasks > 1 and 0 < share < 1:
        residuals = counts[:, 0] - share * counts[:, 1]
        variance = num_tasks / (num_tasks - 1) * float(np.square(residuals).sum()) / trials**2
        effective = share * (1 - share) / max(variance, share * (1 - share) / trials)
        effective *= (stats.norm.ppf((1 + level) / 2) / stats.t.ppf((1 + level) / 2, df=num_tasks - 1)) ** 2
    low, high = proportion_confint(share * effective, effective, alpha=1 - level, method="wilson")
    return Interval(estimate=float(share), low=float(low), high=float(high), count=num_tasks, level=level)


def mean_interval(values: Mapping[str, Sequence[float]], *, level: float = 0.95) -> Interval:
    """Mean over tasks of the per-task mean, with a t interval over tasks.

    `values` maps a task's id to one value an episode; tasks without a value are left out. With equally many episodes a
    task, this is the cluster-robust interval (CR1) of the plain mean.

    Raises:
        DataError: If fewer than two tasks have a value.
    """
    means = [float(np.mean(episodes)) for episodes in values.values() if len(episodes)]
    return _t_interval(np.asarray(means, dtype=np.float64), level=level, unit="tasks")


def paired_difference(
    before: Mapping[str, Sequence[float]],
    after: Mapping[str, Sequence[float]],
    *,
    level: float = 0.95,
    method: Literal["bootstrap", "t"] = "bootstrap",
    num_resamples: int = 9_999,
    seed: int = 0,
) -> Interval:
    """Mean over tasks of (mean after - mean before), each task compared with itself.

    The number of episodes of a task may differ. `bootstrap` draws whole tasks and corrects for bias and skew (BCa,
    Efron 1987); `t` assumes that the mean of the differences is normal.

    Raises:
        DataError: If the tasks differ, or fewer than two have values on both sides.
    """
    first, second = paired_values(before, after)
    differences = second - first
    if method == "t" or len(differences) < 2 or np.ptp(differences) == 0:
        return _t_interval(differences, level=level, unit="tasks")
    _require_level(level)
    result = stats.bootstrap(
        (differences,),
        np.mean,
        confidence_level=level,
        n_resamples=num_resamples,
        method="BCa",
        rng=np.random.default_rng(seed),
    )
    low, high = result.confidence_interval
    return Interval(
        estimate=float(differences.mean()), low=float(low), high=float(high), count=len(differences), level=level
    )


def paired_values(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
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


def _t_interval(values: npt.NDArray[np.float64], *, level: float, unit: str) -> Interval:
    _require_level(level)
    if len(values) < 2:
        raise DataError(f"Expected at least two {unit} for an interval, but got {len(values)}")
    mean, error = float(values.mean()), float(stats.sem(values))
    half = error * float(stats.t.ppf((1 + level) / 2, df=len(values) - 1))
    return Interval(estimate=mean, low=mean - half, high=mean + half, count=len(values), level=level)


def _require_level(level: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"Expected `level` to be between 0 and 1, but got {level}")
