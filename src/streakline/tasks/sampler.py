"""The order in which tasks are drawn, which survives a kill at any step."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import final

from torch.utils.data import Sampler

from streakline.errors import ConfigError, DataError

__all__ = ["TaskSampler"]


@final
class TaskSampler(Sampler[int]):
    """Indices of one epoch after the other, each epoch in an order that follows from (seed, epoch) alone.

    Iterating yields what is left of the current epoch; when that is used up, the next epoch begins at the next
    `iter()`. The position counts the indices handed out. A loader that reads ahead was handed more than has been
    trained on: say how many when the state is stored (`state_dict(unused=...)`), or they are lost on resume.

    An epoch holds whole batches only (drop last): `num_tasks - num_tasks % batch_size` indices, so that its length does
    not change and each step has the same number of tasks. With `shuffle` the tasks left out differ by epoch, so none is
    left out for good; without it they are always the last ones.

    Args:
        num_tasks: Size of the task set.
        seed: Of the shuffles.
        batch_size: Tasks a step.
        shuffle: Whether to shuffle each epoch; False = order of the index.

    Raises:
        ConfigError: There is not one whole batch.
    """

    def __init__(self, num_tasks: int, *, seed: int = 0, batch_size: int = 1, shuffle: bool = True) -> None:
        if batch_size < 1:
            raise ConfigError(f"Expected `batch_size` to be at least 1, but got {batch_size}")
        if num_tasks < batch_size:
            raise ConfigError(f"Expected `num_tasks` to hold at least one batch of {batch_size}, but got {num_tasks}")
        self.num_tasks = num_tasks
        self.seed = seed
        self.batch_size = batch_size
        self.shuffle = shuffle
        self._epoch = 0
        self._position = 0

    @property
    def epoch(self) -> int:
        """0-based epoch that the next index belongs to."""
        return self._epoch + 1 if self._position == len(self) else self._epoch

    def __len__(self) -> int:
        """Indices of a whole epoch, whatever the position."""
        return self.num_tasks - self.num_tasks % self.batch_size

    def order(self, epoch: int) -> list[int]:
        """Indices of an epoch, from its start."""
        indices = list(range(self.num_tasks))
        if self.shuffle:
            # A string seed goes through SHA-512, so neighbouring seeds and epochs don't resemble each other.
            random.Random(f"{self.seed}/{epoch}").shuffle(indices)
        return indices[: len(self)]

    def __iter__(self) -> Iterator[int]:
        if self._position == len(self):
            self._epoch, self._position = self._epoch + 1, 0
        order = self.order(self._epoch)
        while self._position < len(order):
            self._position += 1
            yield order[self._position - 1]

    def state_dict(self, *, unused: int = 0) -> dict[str, int]:
        """Where it stands, as plain integers: `epoch`, and `position` = indices of it that were used.

        Args:
            unused: Indices that were handed out but not used yet, as by a loader that reads ahead.
        """
        return {"epoch": self._epoch, "position": self._position - unused}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from a stored state.

        Raises:
            DataError: Fields are missing or unknown, or the position is not inside an epoch of this sampler.
        """
        if set(state) != {"epoch", "position"}:
            raise DataError(f"Expected sampler state with `epoch` and `position`, but got {sorted(state)}")
        epoch, position = int(state["epoch"]), int(state["position"])
        if epoch < 0 or not 0 <= position <= len(self) or position % self.batch_size:
            raise DataError(
                f"Expected `position` to be a multiple of {self.batch_size} up to {len(self)} in an epoch from 0 on, "
                f"but got {position} in epoch {epoch}: was the task set or the batch size changed?"
            )
        self._epoch, self._position = epoch, position
