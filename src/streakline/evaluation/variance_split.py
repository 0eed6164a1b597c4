"""Where the variance of one arm's scores comes from: seeds, tasks, both together, or sampling.

The model is y = mean + seed + task + (seed x task) + episode, all drawn independently: a crossed two-way layout with
random effects. The estimates are those of the analysis of variance, which equate mean squares with their expectations
(Searle, Casella and McCulloch, 1992, "Variance Components", chapter 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from streakline.errors import DataError
from streakline.evaluation.clustered import interaction_square
from streakline.evaluation.score_table import FloatArray, ScoreTable


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceSplit:
    """Variance of a single score, by source, in squared units of the score.

    Estimates have no bias, so one may come out below 0 where its source is small; read it as 0.
    """

    seed: float
    """What a new seed moves for all tasks alike; nan for one seed."""
    task: float
    """What a new task moves for all seeds alike; with one seed, `seed_task` is in it."""
    seed_task: float
    """What a new seed moves for one task; nan for one seed. With one episode a cell, `episode` is in it."""
    episode: float
    """What sampling once more moves; nan where no cell has two episodes."""
    num_tasks: int = 0
    """Tasks that it was estimated from: those that every seed scored. 0 = assumed, not estimated."""

    @property
    def total(self) -> float:
        """Variance of a single score; what is nan or below 0 counts 0."""
        known = self.known
        return known.seed + known.task + known.seed_task + known.episode

    @property
    def task_correlation(self) -> float:
        """Intraclass correlation: of two episodes of one task under different seeds; nan where nothing varies."""
        return self.known.task / self.total if self.total else math.nan

    @property
    def known(self) -> VarianceSplit:
        """The same with 0 for what is nan or below 0, as it enters sums."""
        seed, task, seed_task, episode = (
            max(value, 0.0) if math.isfinite(value) else 0.0
            for value in (self.seed, self.task, self.seed_task, self.episode)
        )
        return replace(self, seed=seed, task=task, seed_task=seed_task, episode=episode)


def split_variance(table: ScoreTable) -> VarianceSplit:
    """Estimate the split from the tasks that every seed scored.

    Unequal numbers of episodes are handled by unweighted means (Yates, 1934): cell means are taken as a balanced layout
    whose residual variance is `episode` / harmonic mean of the numbers. Without bias if numbers don't depend on scores.

    Raises:
        DataError: If there are fewer than two tasks that every seed scored.
    """
    cells, counts = table.means[:, table.complete], table.counts[:, table.complete]
    num_seeds, num_tasks = cells.shape
    if num_tasks < 2:
        raise DataError(f"Expected at least two tasks that every seed scored, but got {num_tasks}")
    episode = _within_cells(table.values[:, table.complete], means=cells, counts=counts)
    noise = 0.0 if math.isnan(episode) else episode * float((1 / counts).mean())
    if num_seeds == 1:
        task = float(cells.var(ddof=1)) - noise
        return VarianceSplit(seed=math.nan, task=task, seed_task=math.nan, episode=episode, num_tasks=num_tasks)
    interaction = interaction_square(cells)
    return VarianceSplit(
        seed=float(cells.mean(axis=1).var(ddof=1)) - interaction / num_tasks,
        task=float(cells.mean(axis=0).var(ddof=1)) - interaction / num_seeds,
        seed_task=interaction - noise,
        episode=episode,
        num_tasks=num_tasks,
    )


def _within_cells(values: FloatArray, *, means: FloatArray, counts: FloatArray) -> float:
    """Pooled variance of episodes about their cell's mean; nan where no cell has two."""
    freedoms = float((counts - 1).sum())
    return float(np.nansum(np.square(values - means[..., None]))) / freedoms if freedoms else math.nan
