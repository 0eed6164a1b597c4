"""What a comparison of two arms can tell, before it is paid for.

Both arms run the same tasks. What is known of the variance comes from a pilot (`split_variance`,
`correlation_between_arms`) or is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy import special

from streakline.errors import ConfigError, DataError
from streakline.evaluation.clustered import blended_quantile, shared_cells
from streakline.evaluation.score_table import ScoreTable
from streakline.evaluation.variance_split import VarianceSplit, split_variance


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How two arms are to be compared."""

    num_seeds: int
    """Trainings of each arm."""
    num_tasks: int
    """Tasks, the same for both arms."""
    num_episodes: int = 1
    """Episodes of a task under a seed."""
    variance: VarianceSplit
    """Variance of a single score of either arm, by source. nan counts 0: a pilot of one seed hides what seeds move."""
    arm_correlation: float
    """Correlation over tasks of what the two arms would score with endless seeds and episodes, in [-1, 1]. 1 = one arm
    is better by the same on each task."""
    over_seeds: bool = True
    """True: a claim about methods, for which seeds are drawn too. False: about the trained models at hand."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ConfigError: If one is too small, or the correlation can't be.
        """
        smallest = {"num_seeds": 1 + self.over_seeds, "num_tasks": 2, "num_episodes": 1}
        actual = {"num_seeds": self.num_seeds, "num_tasks": self.num_tasks, "num_episodes": self.num_episodes}
        for name, least in smallest.items():
            if actual[name] < least:
                raise ConfigError(f"Expected `{name}` to be at least {least}, but got {actual[name]}")
        if not -1 <= self.arm_correlation <= 1:
            raise ConfigError(f"Expected `arm_correlation` to be within [-1, 1], but got {self.arm_correlation}")

    @property
    def error(self) -> float:
        """Standard error of the difference of the arms' means.

        Its square is 2 (task (1 - correlation) + seed_task / S + episode / (S E)) / P, plus 2 seed / S for a claim
        about methods. For one model of each arm it is that of the sample-size formula of Miller (arXiv 2411.00640).
        """
        over_seeds, over_tasks, both = self._parts
        return math.sqrt(over_seeds + over_tasks - both)

    def critical(self, error_rate: float) -> float:
        """Difference from which the test calls it significant, in standard errors: that of `method_difference`.

        Student's t with P - 1 degrees of freedom for a claim about trained models. Welch's, over seeds, are below
        2 (S - 1) by as much as two estimated variances differ: one less is what simulated experiments ask for.
        """
        over_seeds, over_tasks, _ = self._parts
        df = 2.0 * self.num_seeds - 3 if self.over_seeds else math.inf
        tasks = self.num_tasks - 1
        return blended_quantile(over_seeds, df=df, other=over_tasks, other_df=tasks, level=1 - error_rate)

    @property
    def degrees_of_freedom(self) -> float:
        """Of the error as it will be estimated (Satterthwaite, 1946)."""
        tasks, seeds = self.num_tasks - 1.0, 2.0 * (self.num_seeds - 1)
        freedoms = (seeds, tasks, seeds * tasks) if self.over_seeds else (math.inf, tasks, math.inf)
        spread = sum(part**2 / freedom for part, freedom in zip(self._parts, freedoms, strict=True))
        return self.error**4 / spread if spread else tasks

    @property
    def _parts(self) -> tuple[float, float, float]:
        """Squared error over seeds, over tasks, and what stands in both."""
        variance, tasks, seeds = self.variance.known, self.num_tasks, self.num_seeds
        both = 2 * (variance.seed_task + variance.episode / self.num_episodes) / (seeds * tasks)
        over_tasks = 2 * variance.task * (1 - self.arm_correlation) / tasks + both
        return (2 * variance.seed / seeds + both, over_tasks, both) if self.over_seeds else (0.0, over_tasks, 0.0)


def power(design: Design, *, difference: float, error_rate: float = 0.05) -> float:
    """Chance that a two-sided t test finds a true difference; noncentral t (Cohen, 1988, chapter 2).

    Raises:
        ConfigError: If the error rate can't be.
    """
    _require_share(error_rate, name="error_rate")
    if design.error == 0:
        return float(difference != 0)
    df, shift, critical = design.degrees_of_freedom, abs(difference) / design.error, design.critical(error_rate)
    return float(1 - special.nctdtr(df, shift, critical) + special.nctdtr(df, shift, -critical))


def detectable_difference(design: Design, *, wanted_power: float = 0.8, error_rate: float = 0.05) -> float:
    """Smallest true difference that is found with the wanted power, in units of the score.

    Simulated experiments of 3 to 10 seeds found it in .77 to .81 where .8 was wanted. The chance to find it with the
    wrong sign is left out; it is below 1e-3 at powers of .5 and more.

    Raises:
        ConfigError: If a rate can't be.
    """
    _require_share(error_rate, name="error_rate")
    _require_share(wanted_power, name="wanted_power")
    shift = special.nctdtrinc(design.degrees_of_freedom, 1 - wanted_power, design.critical(error_rate))
    return design.error * float(shift)


def seeds_needed(
    design: Design, *, difference: float, wanted_power: float = 0.8, error_rate: float = 0.05, most: int = 1_000
) -> int | None:
    """Fewest seeds of each arm that find a true difference with the wanted power; `design.num_seeds` does not count.

    None where `most` are too few. Often no number is enough: seeds do not make up for too few tasks.

    Raises:
        ConfigError: If a rate can't be.
    """
    _require_share(wanted_power, name="wanted_power")
    for num_seeds in range(1 + design.over_seeds, most + 1):
        if power(replace(design, num_seeds=num_seeds), difference=difference, error_rate=error_rate) >= wanted_power:
            return num_seeds
    return None


def correlation_between_arms(before: ScoreTable, after: ScoreTable) -> float:
    """`arm_correlation` from a pilot: covariance of per-task means over the root of the `task` variances.

    Noise of seeds and episodes is independent between arms, so it biases the variances alone, and `split_variance`
    takes it out of those. Cut off to [-1, 1]; 1 where no task differs from another.

    Raises:
        DataError: If the arms differ in their tasks, or fewer than two were scored by every seed of both.
    """
    cells = shared_cells(before, after)
    if cells[0].shape[1] < 2:
        raise DataError(f"Expected at least two tasks that every seed scored, but got {cells[0].shape[1]}")
    complete = before.complete & after.complete
    tasks = tuple(task for task, kept in zip(before.tasks, complete, strict=True) if kept)
    first, second = (
        split_variance(ScoreTable(values=arm.values[:, complete], tasks=tasks)).known.task for arm in (before, after)
    )
    covariance = float(np.cov(cells[0].mean(axis=0), cells[1].mean(axis=0))[0, 1])
    return float(np.clip(covariance / math.sqrt(first * second), -1, 1)) if first * second > 0 else 1.0


def _require_share(value: float, *, name: str) -> None:
    if not 0 < value < 1:
        raise ConfigError(f"Expected `{name}` to be between 0 and 1, but got {value}")
