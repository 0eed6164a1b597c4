"""The order in which tasks are drawn, which survives a kill at any step."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import final

from streakline.errors import ConfigError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """Which tasks an epoch can do without."""

    skipped: frozenset[int] = frozenset()
    """Indices of tasks that are left out."""
    once: frozenset[int] = frozenset()
    """Indices of others that come no second time in an epoch that is refilled."""
    refill: bool = False
    """Whether the remaining tasks come again until the epoch is as long as it was; False = it gets shorter."""


WHOLE_EPOCH = EpochPlan()


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

    def order(self, epoch: int, plan: EpochPlan = WHOLE_EPOCH) -> list[int]:
        """Indices of a 0-based epoch, whole batches of them and at least one; no index comes twice in a batch.

        Where fewer tasks than a batch are left, skipped ones fill it up.
        """
        length = self._num_tasks - self._num_tasks % self._batch_size
        # A string seed goes through SHA-512, so neighbouring seeds and epochs don't resemble each other.
        order = self._pass(f"{self._seed}/{epoch}", skipped=plan.skipped)
        passes = 1
        absent = plan.skipped | plan.once
        while plan.refill and len(order) < length and len(absent) < self._num_tasks:
            order += self._pass(f"{self._seed}/{epoch}/{passes}", skipped=absent)
            passes += 1
        return order[:length]

    def _pass(self, seed: str, *, skipped: Collection[int]) -> list[int]:
        """Once through the tasks that are not skipped, as far as they make whole batches."""
        indices = list(range(self._num_tasks))
        if self._shuffle:
            random.Random(seed).shuffle(indices)
        indices.sort(key=lambda index: index in skipped)  # stable
        num_left = self._num_tasks - len(skipped)
        return indices[: max(num_left - num_left % self._batch_size, self._batch_size)]
