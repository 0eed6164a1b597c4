"""The order in which tasks are drawn, which survives a kill at any step."""

from __future__ import annotations

import random
from typing import final

from streakline.errors import ConfigError


@final
class TaskSampler:
    """Indices of one epoch after the other, each epoch in an order that follows from (seed, epoch) alone.

    An epoch holds whole batches only (drop last), so that its length does not change and each step has the same number
    of tasks. With `shuffle` the tasks left out differ by epoch; without it they are always the last ones.

    Raises:
        ConfigError: There is not one whole batch.
    """

    def __init__(self, num_tasks: int, *, seed: int = 0, batch_size: int = 1, shuffle: bool = True) -> None:
        if batch_size < 1:
            raise ConfigError(f"Expected `batch_size` to be at least 1, but got {batch_size}")
        if num_tasks < batch_size:
            raise ConfigError(f"Expected `num_tasks` to hold at least one batch of {batch_size}, but got {num_tasks}")
        self._num_tasks = num_tasks
        self._seed = seed
        self._batch_size = batch_size
        self._shuffle = shuffle

    def order(self, epoch: int) -> list[int]:
        """Indices of a 0-based epoch, `num_tasks - num_tasks % batch_size` of them."""
        indices = list(range(self._num_tasks))
        if self._shuffle:
            # A string seed goes through SHA-512, so neighbouring seeds and epochs don't resemble each other.
            random.Random(f"{self._seed}/{epoch}").shuffle(indices)
        return indices[: self._num_tasks - self._num_tasks % self._batch_size]
