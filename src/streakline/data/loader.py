"""Loaders of plain Python batches that go on exactly where training stopped.

Lightning restarts a loader from its first batch when it resumes inside an epoch, and trains only as many batches as are
left of it: without help, the first part of the epoch is trained twice and the last never. Here the position is asked
of Lightning's own progress, at the moment it matters: what was trained counts, not what was read ahead.

The loaders are no `DataLoader`s, so Lightning leaves their order alone under distributed training; each batch is
split over the ranks instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast, final

from lightning.pytorch import Trainer
from lightning.pytorch.loops.progress import _ProcessedTracker

from streakline.errors import DataError

BatchT = TypeVar("BatchT")
ItemT = TypeVar("ItemT")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """This process among those that share the batches."""

    rank: int = 0
    """0-based index of this process."""
    world_size: int = 1
    """Number of processes."""
    fill: bool = False
    """Whether a process for which nothing is left gets the first item too: a batch of rows can't be empty."""

    def of(self, items: Sequence[ItemT]) -> list[ItemT]:
        """The part of a batch that is this process's."""
        part = list(items[self.rank :: self.world_size])
        return part or list(items[:1]) if self.fill else part

    @classmethod
    def of_trainer(cls, trainer: Trainer | None, *, fill: bool = False) -> Shard:
        """The place of this process under a trainer; the only process without one."""
        if trainer is None:
            return cls(fill=fill)
        return cls(rank=trainer.global_rank, world_size=trainer.world_size, fill=fill)


@final
class TrainerProgress:
    """How far an epoch has been trained, as Lightning's loops count and restore it."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def next_batch(self) -> int:
        """Index within the epoch of the batch that is trained next. Asked when the first batch is fetched."""
        return int(self._trainer.fit_loop.epoch_loop.batch_progress.current.ready)

    def trained_batches(self) -> int:
        """Batches of the epoch that were trained completely."""
        # Lightning declares the base type of its counters, which has no `processed`.
        counters = cast(_ProcessedTracker, self._trainer.fit_loop.epoch_loop.batch_progress.current)
        return int(counters.processed)

    def close_epoch(self) -> None:
        """Have an epoch whose last batch was trained count as finished, however long the next one is.

        Lightning asks that when it resumes, and then compares with the length of the loader that is built by now.
        """
        progress = self._trainer.fit_loop.epoch_loop.batch_progress
        if progress.is_last_batch:
            progress.current.completed = sys.maxsize


@final
class Cursor:
    """Which epoch's order is under way, and how much of it; outlives the loaders that are rebuilt each epoch."""

    def __init__(self) -> None:
        self._epoch = 0
        # Batches of the epoch that were handed out, or after a load those that had been trained.
        self._position = 0
        # Length of the epoch under way, which the next one need not have; not known after a load.
        self._num_batches = sys.maxsize
        self._progress: TrainerProgress | None = None

    def begin(self, progress: TrainerProgress | None, *, num_batches: int) -> tuple[int, int]:
        """The epoch whose order is due, and the index of its batch to begin with: inside it, or the first of the next.

        Without `progress` every batch that is handed out counts as trained.
        """
        self._progress = progress
        if progress is not None:
            start = progress.next_batch()
        else:
            start = self._position if self._position < min(self._num_batches, num_batches) else 0
        self._num_batches = num_batches
        if start == 0 and self._position > 0:
            self._epoch += 1
        self._position = start
        return self._epoch, start

    def advance(self) -> None:
        """Note that a batch has been handed out."""
        self._position += 1

    def state_dict(self) -> dict[str, int]:
        """Epoch and trained batches of it, as plain integers."""
        trained = self._position if self._progress is None else self._progress.trained_batches()
        return {"epoch": self._epoch, "position": min(trained, self._position)}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from a saved state; raises `DataError` where it isn't one."""
        if state.keys() != {"epoch", "position"}:
            raise DataError(f"Expected a loader state with `epoch` and `position`, but got {sorted(state)}")
        self._epoch, self._position = int(state["epoch"]), int(state["position"])
        self._num_batches, self._progress = sys.maxsize, None


@final
class ResumableLoader(Generic[BatchT]):
    """Iterates the batches of one epoch.

    `plan` gives the row indices of each batch of an epoch: always the same for the same epoch, and of one length for
    all. `fetch` makes a batch of the row indices of this process.
    """

    def __init__(
        self,
        plan: Callable[[int], Sequence[Sequence[int]]],
        *,
        fetch: Callable[[Sequence[int]], BatchT],
        cursor: Cursor,
        progress: TrainerProgress | None = None,
        shard: Shard | None = None,
    ) -> None:
        self._plan = plan
        self._fetch = fetch
        self._cursor = cursor
        self._progress = progress
        self._shard = shard or Shard()
        self._num_batches = len(plan(0))

    def __len__(self) -> int:
        return self._num_batches

    def __iter__(self) -> Iterator[BatchT]:
        # A generator, so that nothing happens until the first batch is asked for: Lightning makes iterators that it
        # never uses.
        if not self._num_batches:
            return
        epoch, start = self._cursor.begin(self._progress, num_batches=self._num_batches)
        for indices in self._plan(epoch)[start:]:
            self._cursor.advance()
            yield self._fetch(self._shard.of(indices))

    def state_dict(self) -> dict[str, int]:
        """The cursor's; having it tells Lightning that resuming inside an epoch is safe."""
        return self._cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from a saved state. See `Cursor.load_state_dict`."""
        self._cursor.load_state_dict(state)


@final
class SequentialLoader(Generic[ItemT, BatchT]):
    """The same items in the same order each time: for what is held out. `batch_size` is over all processes."""

    def __init__(
        self,
        items: Sequence[ItemT],
        *,
        batch_size: int,
        fetch: Callable[[list[ItemT]], BatchT],
        shard: Shard | None = None,
    ) -> None:
        self._items = items
        self._batch_size = batch_size
        self._fetch = fetch
        self._shard = shard or Shard()

    def __len__(self) -> int:
        return -(-len(self._items) // self._batch_size)

    def __iter__(self) -> Iterator[BatchT]:
        for start in range(0, len(self._items), self._batch_size):
            yield self._fetch(self._shard.of(self._items[start : start + self._batch_size]))
