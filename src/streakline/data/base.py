"""What both DataModules share: held-out tasks, and the place in the training batches as checkpoint state."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from lightning.pytorch import LightningDataModule

from streakline.data.loader import Cursor, ResumableLoader, SequentialLoader, Shard, TrainerProgress
from streakline.data.rows import to_device
from streakline.environment.base import EnvironmentFactory
from streakline.errors import ConfigError
from streakline.tasks.base import ListTaskSet, TaskSet
from streakline.types import Task, TrainingBatch

BatchT = TypeVar("BatchT")
TaskSets: TypeAlias = TaskSet | Sequence[TaskSet] | None
"""One set or several; None = no tasks."""
TaskLoader: TypeAlias = SequentialLoader[Task, list[Task]]

_OPTIONS = {"fit": "train", "validate": "validation"}


def collect_tasks(sets: TaskSets, *, limit: int | None = None) -> tuple[Task, ...]:
    """Put the first `limit` tasks of each set in one line; raises `DataError` where two tasks have the same id."""
    chosen = () if sets is None else (sets,) if isinstance(sets, TaskSet) else tuple(sets)
    return ListTaskSet([task for one in chosen for task in islice(one, limit)]).tasks()


def require_positive(**sizes: int | None) -> None:
    """Raise `ConfigError` where an option of `data` that counts something isn't positive; None = not given."""
    for name, value in sizes.items():
        if value is not None and value < 1:
            raise ConfigError(f"Expected `data.{name}` to be at least 1, but got {value}")


@runtime_checkable
class ProvidesEnvironment(Protocol):
    """A DataModule that knows the worlds of its tasks: all that the modules ask of one."""

    environment: EnvironmentFactory
    """Makes the world of a held-out trajectory."""
    training_environment: EnvironmentFactory
    """Makes the world of a trajectory that is trained on."""


class AgentDataModule(LightningDataModule, ABC):
    """Base of the DataModules."""

    def __init__(
        self,
        environment: EnvironmentFactory,
        validation: TaskSets,
        test: TaskSets,
        predict: TaskSets,
        *,
        eval_batch_size: int,
        limit: int | None,
    ) -> None:
        super().__init__()
        require_positive(eval_batch_size=eval_batch_size, limit=limit)
        self.environment = environment
        self.training_environment = environment
        self._sets = {"validate": validation, "test": test, "predict": test if predict is None else predict}
        self._eval_batch_size = eval_batch_size
        self._limit = limit
        self._tasks: dict[str, tuple[Task, ...]] = {}
        self._cursor = Cursor()

    def setup(self, stage: str) -> None:
        """Collect the held-out tasks that the stage needs."""
        needed = "validate" if stage == "fit" else stage
        if needed not in self._tasks:
            self._tasks[needed] = collect_tasks(self._sets[needed], limit=self._limit)

    @abstractmethod
    def train_dataloader(self) -> object:
        """Batches to train on."""

    def test_dataloader(self) -> TaskLoader:
        """Lists of held-out tasks."""
        return self._held_out("test")

    def predict_dataloader(self) -> TaskLoader:
        """Lists of tasks whose trajectories are written."""
        return self._held_out("predict")

    def transfer_batch_to_device(
        self, batch: TrainingBatch | list[Task], device: torch.device, dataloader_idx: int
    ) -> TrainingBatch | list[Task]:
        """Move rows; leave tasks, which hold no tensors. Lightning refuses to walk through frozen records."""
        return to_device(batch, device) if isinstance(batch, TrainingBatch) else batch

    def state_dict(self) -> dict[str, int]:
        """Epoch and position of the training batches, as plain integers."""
        return self._cursor.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Go on from a saved position."""
        self._cursor.load_state_dict(state_dict)

    def _training(
        self, plan: Callable[[int], Sequence[Sequence[int]]], fetch: Callable[[Sequence[int]], BatchT], *, shard: Shard
    ) -> ResumableLoader[BatchT]:
        progress = TrainerProgress(self.trainer) if self.trainer else None
        if progress is not None:
            progress.close_epoch()
        return ResumableLoader(plan, fetch=fetch, cursor=self._cursor, progress=progress, shard=shard)

    def _held_out(self, stage: str) -> TaskLoader:
        tasks, shard = self._require(stage), Shard.of_trainer(self.trainer)
        return SequentialLoader(tasks, batch_size=self._eval_batch_size, fetch=list, shard=shard)

    def _require(self, stage: str) -> tuple[Task, ...]:
        if not self._tasks.get(stage):
            option = _OPTIONS.get(stage, stage)
            raise ConfigError(f"Expected `data.{option}` to hold at least one task, but got none")
        return self._tasks[stage]
