"""Mean score of one arm, or of the difference of two, with the interval that fits the question.

| question | drawn at random | function |
|---|---|---|
| how good are these trained models on tasks of this kind? | tasks | `interval_given_seeds` |
| how much does the seed move the result on these tasks? | seeds | `spread_over_seeds` |
| how good is the method, trained again, on other tasks? | tasks and seeds | `method_interval`, `method_difference` |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy import stats

from streakline.errors import ConfigError, DataError
from streakline.evaluation.intervals import Interval, clustered_mean, interval_over_tasks
from streakline.evaluation.score_table import FloatArray, ScoreTable


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSpread:
    """How one arm's mean differs between seeds, on the tasks that every seed scored."""

    mean: float
    """Mean over seeds."""
    deviation: float
    """Standard deviation between seeds (S - 1), the noise of tasks and episodes in it; nan for one seed."""
    lowest: float
    """Mean of the worst seed."""
    highest: float
    """Mean of the best seed."""
    num_seeds: int
    """Seeds."""


def clustered_error(values: FloatArray, *, clusters: npt.ArrayLike) -> float:
    """Standard error of the plain mean of [N] values in [N] clusters, such as tasks; see `clustered_mean`.

    nan for one cluster, whose spread can't be seen.

    Raises:
        DataError: If there is no value, or not one cluster for each.
    """
    index: npt.NDArray[np.intp] = np.unique(np.asarray(clusters), return_inverse=True)[1]
    if not len(values) or index.shape != values.shape:
        raise DataError(
            f"Expected `clusters` to name one for each of `values`, but got {index.shape} of {values.shape}"
        )
    sums, counts = (np.asarray(np.bincount(index, weights=each), np.float64) for each in (values, np.ones(len(values))))
    _, variance = clustered_mean(sums, counts=counts)
    return math.sqrt(variance)


def interval_given_seeds(table: ScoreTable, *, level: float = 0.95) -> Interval:
    """Mean over tasks, with an interval over draws of tasks, for the models that these seeds gave.

    All episodes of a task, of every seed, are one cluster. Which interval: see `interval_over_tasks`. Tasks that no
    seed scored are left out.

    Raises:
        DataError: If no task was scored, or only one whose mean is outside [0, 1].
    """
    counts = table.counts.sum(axis=0)
    return interval_over_tasks(table.task_means[counts > 0], counts=counts[counts > 0], level=level)


def spread_over_seeds(table: ScoreTable) -> SeedSpread:
    """Mean, standard deviation and range of the seeds' means.

    Raises:
        DataError: If no task was scored under every seed.
    """
    means = table.seed_means
    if np.isnan(means).any():
        raise DataError("Expected a task that every seed scored, but got none")
    return SeedSpread(
        mean=float(means.mean()),
        deviation=float(means.std(ddof=1)) if len(means) > 1 else math.nan,
        lowest=float(means.min()),
        highest=float(means.max()),
        num_seeds=len(means),
    )


def method_interval(table: ScoreTable, *, level: float = 0.95) -> Interval:
    """Mean of one arm over draws of seeds and of tasks at once; see `method_difference`. It counts seeds.

    Raises:
        DataError: If there are fewer than two seeds, or two tasks that every seed scored.
    """
    cells = table.means[:, table.complete]
    if cells.size and np.ptp(cells) == 0:
        return interval_given_seeds(table, level=level)  # no spread is seen, which doesn't mean that there is none
    return _crossed_interval([cells], signs=[1.0], level=level)


def method_difference(before: ScoreTable, *, after: ScoreTable, paired: bool = False, level: float = 0.95) -> Interval:
    """Mean of `after` minus mean of `before` over draws of seeds and of tasks at once. It counts seeds, the fewer.

    Its variance is the sum over arms of (variance over seeds / S), plus the variance over tasks of the difference / P,
    less the sum over arms of (mean square of the interaction / (S P)), which stands in both (two-way clustering;
    Cameron, Gelbach and Miller, 2011), times the quantile of `blended_quantile`. `paired`: seed s of one arm shares
    something with seed s of the other, such as the model that it starts from.

    Raises:
        DataError: If the tasks differ, an arm has fewer than two seeds, there are fewer than two tasks that every seed
            of both scored, or paired arms differ in their number of seeds.
    """
    first, second = shared_cells(before, after)
    if paired and len(first) != len(second):
        raise DataError(f"Expected paired arms of equally many seeds, but got {len(first)} and {len(second)}")
    if paired:
        return _crossed_interval([second - first], signs=[1.0], level=level)
    return _crossed_interval([first, second], signs=[-1.0, 1.0], level=level)


def shared_cells(before: ScoreTable, after: ScoreTable) -> tuple[FloatArray, FloatArray]:
    """[S, P] cell means of both arms, on the tasks that every seed of both scored.

    Raises:
        DataError: If the arms differ in their tasks.
    """
    require_same_tasks(before, after)
    complete = before.complete & after.complete
    return before.means[:, complete], after.means[:, complete]


def require_same_tasks(before: ScoreTable, after: ScoreTable) -> None:
    """Refuse arms that can't be paired.

    Raises:
        DataError: If the arms differ in their tasks or in the order of them.
    """
    if before.tasks != after.tasks:
        strangers = sorted(set(before.tasks) ^ set(after.tasks))
        found = f"{strangers[0]!r} in one only" if strangers else "another order"
        raise DataError(f"Expected both arms to have the same `tasks`, but got {found}")


def _crossed_interval(cells: list[FloatArray], *, signs: list[float], level: float) -> Interval:
    """Interval of the signed sum of the arms' means; each arm is [S, P] cell means without a gap."""
    if not 0 < level < 1:
        raise ConfigError(f"Expected `level` to be between 0 and 1, but got {level}")
    num_seeds, num_tasks = min(len(arm) for arm in cells), cells[0].shape[1]
    if num_seeds < 2 or num_tasks < 2:
        raise DataError(
            f"Expected at least two seeds and two tasks that every seed scored, but got {num_seeds} and {num_tasks}"
        )
    per_task = sum((sign * arm.mean(axis=0) for arm, sign in zip(cells, signs, strict=True)), np.zeros(num_tasks))
    by_arm = [float(arm.mean(axis=1).var(ddof=1)) / len(arm) for arm in cells]
    over_seeds, over_tasks = sum(by_arm), float(per_task.var(ddof=1)) / num_tasks
    both = sum(interaction_square(arm) / arm.size for arm in cells)
    variance = max(over_seeds + over_tasks - both, over_seeds, over_tasks)  # `both` is an estimate too
    spread = sum(part**2 / (len(arm) - 1) for part, arm in zip(by_arm, cells, strict=True))
    df = over_seeds**2 / spread if spread else math.inf
    half = blended_quantile(over_seeds, df=df, other=over_tasks, other_df=num_tasks - 1, level=level)
    half, mean = half * math.sqrt(variance), float(per_task.mean())
    return Interval(estimate=mean, low=mean - half, high=mean + half, count=num_seeds, level=level)


def blended_quantile(variance: float, *, df: float, other: float, other_df: float, level: float) -> float:
    """Half-width in standard errors where the variance is the sum of two estimates of few degrees of freedom.

    Mean of the quantiles of Student's t, weighed by the variances (Cochran and Cox, 1950, "Experimental Designs"). At
    three seeds the degrees of freedom of Satterthwaite (1946) give intervals that are too short.
    """
    quantiles = stats.t.ppf((1 + level) / 2, df=[df, other_df])
    weights = [variance, other] if variance + other > 0 else [0.0, 1.0]
    return float(np.average(quantiles, weights=weights))


def interaction_square(cells: FloatArray) -> float:
    """Mean square of [S, P] cell means about the sum of their row and column effects, (S - 1) (P - 1) freedoms."""
    residuals = cells - cells.mean(axis=1, keepdims=True) - cells.mean(axis=0) + cells.mean()
    return float(np.square(residuals).sum()) / float((cells.shape[0] - 1) * (cells.shape[1] - 1))
