"""How likely it is that training again with other seeds would rank arms differently.

The tasks stay. A seed's mean over them is taken as normal, with a spread of its own for each arm, so that what is
predicted from S seeds has Student's t (Geisser, 1993, "Predictive Inference"). Few seeds tell little about the spread,
and the heavy tails of t say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import stats

from streakline.errors import ConfigError, DataError
from streakline.evaluation.clustered import require_same_tasks, shared_cells
from streakline.evaluation.score_table import FloatArray, ScoreTable


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RankingStability:
    """What would become of a ranking if every arm was trained with new seeds."""

    order: tuple[str, ...]
    """Arms by their mean over seeds, the best first; equal ones by name."""
    means: tuple[float, ...]
    """Their means, in that order."""
    best_changes: float
    """Probability that another arm would be the best."""
    any_change: float
    """Probability that any two arms would change places."""


def flip_probability(first: ScoreTable, second: ScoreTable, *, num_seeds: int = 1, paired: bool = False) -> float:
    """Probability that two arms of `num_seeds` new seeds each would rank the other way round; 0.5 where they tie.

    With the difference D of the arms' means, D' of the new ones is D + t * sqrt(sum over arms of v (1 / m + 1 / S)): v
    is the variance between seeds, m = `num_seeds`, t has Welch's degrees of freedom. The result is P(D D' < 0).
    `paired`: seed s of one arm shares something with seed s of the other, and v is that of the seeds' differences.

    Raises:
        ConfigError: If there is no new seed.
        DataError: If an arm has fewer than two seeds, the arms share no scored task, or paired arms differ in their
            number of seeds.
    """
    _require_new_seeds(num_seeds)
    ours, theirs = (_seed_means(cells) for cells in shared_cells(first, second))
    if paired and len(ours) != len(theirs):
        raise DataError(f"Expected paired arms of equally many seeds, but got {len(ours)} and {len(theirs)}")
    sides = [ours - theirs] if paired else [ours, theirs]
    distance = abs(float(ours.mean() - theirs.mean()))
    parts = [float(side.var(ddof=1)) * (1 / num_seeds + 1 / len(side)) for side in sides]
    if not sum(parts):
        return 0.5 if distance == 0 else 0.0
    df = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    return float(stats.t.sf(distance / math.sqrt(sum(parts)), df=df))


def ranking_stability(
    arms: Mapping[str, ScoreTable], *, num_seeds: int = 1, num_draws: int = 20_000, seed: int = 0
) -> RankingStability:
    """Rank arms by their means, and draw what new seeds would make of the ranking.

    Each draw gives each arm mean + t * sqrt(v (1 / m + 1 / S)), t with S - 1 degrees of freedom. Only tasks that every
    seed of every arm scored count.

    Raises:
        ConfigError: If there is no new seed, or fewer than two arms.
        DataError: If an arm has fewer than two seeds, or the arms share no scored task.
    """
    _require_new_seeds(num_seeds)
    if len(arms) < 2:
        raise ConfigError(f"Expected `arms` to be at least two, but got {len(arms)}")
    seeds_by_arm = _shared_seed_means(arms)
    order = sorted(seeds_by_arm, key=lambda name: (-seeds_by_arm[name].mean(), name))
    rng = np.random.default_rng(seed)
    drawn = np.stack(
        [_predict(seeds_by_arm[name], num_seeds=num_seeds, num_draws=num_draws, rng=rng) for name in order]
    )
    return RankingStability(
        order=tuple(order),
        means=tuple(float(seeds_by_arm[name].mean()) for name in order),
        best_changes=float((drawn[0] < drawn[1:].max(axis=0)).mean()),
        any_change=float((np.diff(drawn, axis=0) > 0).any(axis=0).mean()),
    )


def _predict(means: FloatArray, *, num_seeds: int, num_draws: int, rng: np.random.Generator) -> FloatArray:
    scale = math.sqrt(float(means.var(ddof=1)) * (1 / num_seeds + 1 / len(means)))
    return np.asarray(means.mean() + scale * rng.standard_t(len(means) - 1, size=num_draws))


def _shared_seed_means(arms: Mapping[str, ScoreTable]) -> dict[str, FloatArray]:
    first = next(iter(arms.values()))
    for table in arms.values():
        require_same_tasks(first, table)
    complete = np.logical_and.reduce([table.complete for table in arms.values()])
    return {name: _seed_means(table.means[:, complete]) for name, table in arms.items()}


def _seed_means(cells: FloatArray) -> FloatArray:
    """[S] means of [S, P] cells."""
    if cells.shape[0] < 2 or not cells.shape[1]:
        raise DataError(
            "Expected every arm to have at least two seeds and a task that all of them scored, but got "
            f"{cells.shape[0]} seeds and {cells.shape[1]} tasks"
        )
    return np.asarray(cells.mean(axis=1))


def _require_new_seeds(num_seeds: int) -> None:
    if num_seeds < 1:
        raise ConfigError(f"Expected `num_seeds` to be at least 1, but got {num_seeds}")
