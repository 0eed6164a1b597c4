"""Tasks to be attempted: for the rollouts of a training step, and held out for measuring."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Protocol, final, runtime_checkable

import torch
from lightning.pytorch import LightningDataModule

from streakline.data.loader import Cursor, ResumableLoader, SequentialLoader, Shard, TrainerProgress, trainer_of
from streakline.environment.base import EnvironmentFactory
from streakline.environment.live import LiveEnvironment
from streakline.errors import ConfigError
from streakline.tasks.base import ListTaskSet, TaskSet
from streakline.tasks.sampler import TaskSampler
from streakline.types import Task

__all__ = ["ReusesRollouts", "TaskDataModule", "collect_tasks"]


@runtime_checkable
class ReusesRollouts(Protocol):
    """A module that takes several optimiser steps on the rollouts of one batch of tasks."""

    updates_per_rollout: int
    """Steps that each batch of tasks serves."""


def collect_tasks(sets: TaskSet | Sequence[TaskSet] | None, *, limit: int | None = None) -> tuple[Task, ...]:
    """Put the tasks of several sets in one line.

    Args:
        sets: One set or several; None = no tasks.
        limit: The first tasks of each set that are taken; None = all.

    Returns:
        The tasks, set by set.

    Raises:
        DataError: If two tasks have the same id.
    """
    chosen = () if sets is None else (sets,) if isinstance(sets, TaskSet) else tuple(sets)
    return ListTaskSet([task for one in chosen for task in islice(one, limit)]).tasks()


@final
class TaskDataModule(LightningDataModule):
    """Yields lists of tasks. The rollouts happen in the module, so that none is older than the weights it trains.

    When the module uses a batch of tasks for several optimiser steps, the batch is followed by empty lists: train again
    on what you have. So no task is drawn in vain, and one step of the loader stays one `training_step`.

    Position and epoch are checkpoint state: after a kill at any step the same tasks follow as without it.

    Args:
        train: Tasks to train on; None = nothing can be fitted.
        validation: Held-out tasks for `validate` and for validation while fitting; None = none.
        test: Held-out tasks for `test`.
        predict: Tasks whose trajectories `predict` writes; None = those of `test`.
        environment: Makes the world of a trajectory.
        batch_size: Training tasks of a step, over all processes.
        eval_batch_size: Held-out tasks whose episodes run side by side, over all processes.
        limit: The first tasks of each held-out set that are used; None = all.
        shuffle: Whether to shuffle the training tasks anew each epoch.
        seed: Of the shuffles.

    Raises:
        ConfigError: If a size isn't positive.
    """

    def __init__(
        self,
        train: TaskSet | Sequence[TaskSet] | None = None,
        validation: TaskSet | Sequence[TaskSet] | None = None,
        test: TaskSet | Sequence[TaskSet] | None = None,
        predict: TaskSet | Sequence[TaskSet] | None = None,
        environment: EnvironmentFactory = LiveEnvironment,
        batch_size: int = 16,
        eval_batch_size: int = 64,
        limit: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, value in (("batch_size", batch_size), ("eval_batch_size", eval_batch_size), ("limit", limit)):
            if value is not None and value < 1:
                raise ConfigError(f"Expected `{name}` to be at least 1, but got {value}")
        self.environment = environment
        self._sets = {
            "fit": train,
            "validate": validation,
            "test": test,
            "predict": test if predict is None else predict,
        }
        self._batch_size = batch_size
        self._eval_batch_size = eval_batch_size
        self._limit = limit
        self._shuffle = shuffle
        self._seed = seed
        self._tasks: dict[str, tuple[Task, ...]] = {}
        self._cursor = Cursor()

    def setup(self, stage: str) -> None:
        """Collect the tasks that the stage needs."""
        for needed in ("fit", "validate") if stage == "fit" else (stage,):
            if needed not in self._tasks:
                self._tasks[needed] = collect_tasks(self._sets[needed], limit=None if needed == "fit" else self._limit)
        if stage == "validate":
            self._require("validate", option="validation")

    def train_dataloader(self) -> ResumableLoader[list[Task]]:
        """Lists of `batch_size` tasks, each followed by the empty lists that reuse it."""
        tasks = self._require("fit", option="train")
        shard = Shard.of_trainer(trainer_of(self))
        if self._batch_size % shard.world_size:
            raise ConfigError(
                f"Expected `data.batch_size` to be a multiple of the {shard.world_size} processes, "
                f"but got {self._batch_size}"
            )
        trainer = trainer_of(self)
        module: object = trainer.lightning_module if trainer else None
        repeats = module.updates_per_rollout if isinstance(module, ReusesRollouts) else 1
        sampler = TaskSampler(len(tasks), seed=self._seed, batch_size=self._batch_size, shuffle=self._shuffle)

        def plan(epoch: int) -> list[list[int]]:
            order = sampler.order(epoch)
            batches = [order[start : start + self._batch_size] for start in range(0, len(order), self._batch_size)]
            return [part for batch in batches for part in [batch, *([[]] * (repeats - 1))]]

        return ResumableLoader(
            plan,
            fetch=lambda indices: [tasks[index] for index in indices],
            cursor=self._cursor,
            progress=TrainerProgress(trainer) if trainer else None,
            shard=shard,
        )

    def val_dataloader(self) -> list[SequentialLoader[Task, list[Task]]]:
        """Lists of held-out tasks; no loader where no validation set is given, so that fitting works without one."""
        return [self._held_out(self._tasks["validate"])] if self._tasks["validate"] else []

    def test_dataloader(self) -> SequentialLoader[Task, list[Task]]:
        """Lists of held-out tasks."""
        return self._held_out(self._require("test", option="test"))

    def predict_dataloader(self) -> SequentialLoader[Task, list[Task]]:
        """Lists of tasks whose trajectories are written."""
        return self._held_out(self._require("predict", option="predict"))

    def transfer_batch_to_device(self, batch: list[Task], device: torch.device, dataloader_idx: int) -> list[Task]:
        """Leave tasks where they are: they hold no tensors, and Lightning refuses to walk through frozen records."""
        return batch

    def state_dict(self) -> dict[str, int]:
        """Epoch and position of the training tasks, as plain integers."""
        return self._cursor.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Go on from a saved position."""
        self._cursor.load_state_dict(state_dict)

    def _held_out(self, tasks: Sequence[Task]) -> SequentialLoader[Task, list[Task]]:
        return SequentialLoader(
            tasks, batch_size=self._eval_batch_size, fetch=list, shard=Shard.of_trainer(trainer_of(self))
        )

    def _require(self, stage: str, *, option: str) -> tuple[Task, ...]:
        if not self._tasks.get(stage):
            raise ConfigError(f"Expected `data.{option}` to hold at least one task, but got none")
        return self._tasks[stage]
