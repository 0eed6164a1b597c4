"""The scores that statistics are made of: every seed of one arm on the same tasks, some episodes each.

An arm is one way of doing it (a method, a model, a setting) that is compared with others. Axes: [S] seeds, [P] tasks,
[E] episodes of a task under a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from streakline.errors import DataError

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""Numbers in double precision."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreTable:
    """Scores of one arm. Cells (a task under a seed) may differ in their number of episodes, and may be empty."""

    values: FloatArray
    """[S, P, E] score of each episode; nan = unscored, or no such episode."""
    tasks: tuple[str, ...]
    """[P] ids of the tasks."""
    num_unscored: int = 0
    """Episodes that were run and could not be scored. They are left out, never counted as failures."""

    def __post_init__(self) -> None:
        """Check the shape and the numbers.

        Raises:
            DataError: If the axes don't fit, a task stands twice, or a score is infinite.
        """
        if self.values.ndim != 3 or 0 in self.values.shape[:2] or self.values.dtype != np.float64:
            raise DataError(
                "Expected `values` to be float64 of [seeds, tasks, episodes] with a seed and a task at least, "
                f"but got {self.values.dtype} of {self.values.shape}"
            )
        if len(self.tasks) != self.values.shape[1] or len(set(self.tasks)) != len(self.tasks):
            raise DataError(
                f"Expected `tasks` to be {self.values.shape[1]} different ids, but got {len(self.tasks)} "
                f"({len(set(self.tasks))} different)"
            )
        if np.isinf(self.values).any():
            raise DataError("Expected `values` to be finite or nan, but got an infinite score")

    @classmethod
    def from_runs(cls, runs: Sequence[Mapping[str, Sequence[float | None]]]) -> ScoreTable:
        """Build from one mapping a seed, task id -> scores of its episodes; None or nan = unscored.

        Raises:
            DataError: If there is no run or task, runs differ in their tasks, or a score is no number.
        """
        if not runs or not runs[0]:
            raise DataError(f"Expected `runs` to hold a run with a task at least, but got {len(runs)} without")
        tasks = tuple(sorted(runs[0]))
        for number, run in enumerate(runs):
            if strangers := sorted(run.keys() ^ runs[0].keys()):
                raise DataError(
                    f"Expected `runs` to be of the same tasks, but got {strangers[0]!r} not in 0 and {number}"
                )
        cells = [run[task] for run in runs for task in tasks]
        return cls(
            values=_padded(cells).reshape(len(runs), len(tasks), -1),
            tasks=tasks,
            num_unscored=sum(score is None or score != score for score in chain.from_iterable(cells)),
        )

    @property
    def counts(self) -> FloatArray:
        """[S, P] scored episodes."""
        return np.asarray(np.isfinite(self.values).sum(axis=2), dtype=np.float64)

    @property
    def means(self) -> FloatArray:
        """[S, P] mean of a cell's episodes; nan where none was scored."""
        return _ratio(np.nansum(self.values, axis=2), self.counts)

    @property
    def task_means(self) -> FloatArray:
        """[P] mean over the seeds that scored it, each seed weighing the same; nan where none did."""
        means = self.means
        return _ratio(np.nansum(means, axis=0), np.isfinite(means).sum(axis=0, dtype=np.float64))

    @property
    def complete(self) -> npt.NDArray[np.bool_]:
        """[P] whether every seed scored the task."""
        return np.asarray((self.counts > 0).all(axis=0))

    @property
    def seed_means(self) -> FloatArray:
        """[S] mean over the tasks that every seed scored, so that seeds are compared on the same; nan without any."""
        means = self.means[:, self.complete]
        return _ratio(means.sum(axis=1), np.full(len(means), means.shape[1], dtype=np.float64))


def _padded(cells: Sequence[Sequence[float | None]]) -> FloatArray:
    """[cells, E] with nan behind the shorter ones."""
    lengths = np.asarray([len(cell) for cell in cells])
    padded = np.full((len(cells), int(lengths.max())), np.nan)
    try:
        flat = np.asarray(list(chain.from_iterable(cells)), dtype=np.float64)  # None becomes nan
    except (TypeError, ValueError) as error:
        raise DataError(f"Expected `runs` to hold numbers or None, but got other scores: {error}") from error
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = flat
    return padded


def _ratio(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Elementwise quotient; nan where nothing was counted."""
    quotients = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=quotients, where=counts > 0)
    return quotients
