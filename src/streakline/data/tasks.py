"""Tasks to be attempted: for the rollouts of a training step, and held out for measuring."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

from lightning.pytorch import Trainer

from streakline.data.base import AgentDataModule, TaskLoader, collect_tasks, require_positive
from streakline.data.loader import ResumableLoader, Shard
from streakline.environment.base import EnvironmentFactory
from streakline.environment.cached import CachedTools
from streakline.environment.live import LiveEnvironment
from streakline.errors import ConfigError
from streakline.tasks.base import TaskSet
from streakline.tasks.sampler import WHOLE_EPOCH, EpochPlan, TaskSampler
from streakline.types import Task

_CACHE_KEY = "cache"


@runtime_checkable
class ReusesRollouts(Protocol):
    """A module that takes several optimiser steps on the rollouts of one batch of tasks."""

    updates_per_rollout: int
    """Steps that each batch of tasks serves."""


@runtime_checkable
class PlansEpochs(Protocol):
    """A callback that knows, when an epoch begins, which tasks need not be attempted in it."""

    def plan_epoch(self, trainer: Trainer, tasks: Sequence[Task]) -> EpochPlan:
        """Choose among all tasks. Asked on every process, and again after a resume inside the epoch: answer alike."""


@final
class TaskDataModule(AgentDataModule):
    """Yields lists of tasks. The rollouts happen in the module, so that none is older than the weights it trains.

    When the module uses a batch of tasks for several optimiser steps, the batch is followed by empty lists: train again
    on what you have. So no task is drawn in vain, and one step of the loader stays one `training_step`.

    Callbacks are asked which tasks an epoch can do without (`PlansEpochs`), each time the loader is built.

    Position and epoch are checkpoint state: after a kill at any step the same tasks follow as without it.

    Args:
        train: Tasks to train on; None = nothing can be fitted.
        validation: Held-out tasks for `validate` and for validation while fitting; None = none.
        test: Held-out tasks for `test`.
        predict: Tasks whose trajectories `predict` writes; None = those of `test`.
        environment: Makes the world of a trajectory.
        tools: Cache that answers the calls of training rollouts; held-out tasks are attempted in `environment` all the
            same. None = `environment` for both.
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
        tools: CachedTools | None = None,
        batch_size: int = 16,
        eval_batch_size: int = 64,
        limit: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(environment, validation, test, predict, eval_batch_size=eval_batch_size, limit=limit)
        require_positive(batch_size=batch_size)
        self._tools = tools
        if tools is not None:
            self.training_environment = tools
        self._train = train
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._seed = seed

    def setup(self, stage: str) -> None:
        """Collect the tasks that the stage needs; the run's logger gets to know the cache, under `cache.`."""
        super().setup(stage)
        if stage == "fit" and stage not in self._tasks:
            self._tasks[stage] = collect_tasks(self._train)
            if self._tools is not None:
                statistics = self._tools.statistics()
                for logger in self.trainer.loggers if self.trainer else ():
                    logger.log_hyperparams({"cache": statistics})
        if stage == "validate":
            self._require(stage)

    def train_dataloader(self) -> ResumableLoader[list[Task]]:
        """Lists of `batch_size` tasks, each followed by the empty lists that reuse it."""
        tasks, shard = self._require("fit"), Shard.of_trainer(self.trainer)
        if self._batch_size % shard.world_size:
            raise ConfigError(
                f"Expected `data.batch_size` to be a multiple of the {shard.world_size} processes, "
                f"but got {self._batch_size}"
            )
        module: object = self.trainer.lightning_module if self.trainer else None
        repeats = module.updates_per_rollout if isinstance(module, ReusesRollouts) else 1
        sampler = TaskSampler(len(tasks), seed=self._seed, batch_size=self._batch_size, shuffle=self._shuffle)
        epoch_plan = plan_epoch(self.trainer, tasks)

        def plan(epoch: int) -> list[list[int]]:
            order = sampler.order(epoch, epoch_plan)
            batches = [order[start : start + self._batch_size] for start in range(0, len(order), self._batch_size)]
            return [part for batch in batches for part in [batch, *([[]] * (repeats - 1))]]

        return self._training(plan, lambda indices: [tasks[index] for index in indices], shard=shard)

    def state_dict(self) -> dict[str, Any]:
        """Epoch and position of the training batches, and which cache answers."""
        return super().state_dict() | ({} if self._tools is None else {_CACHE_KEY: self._tools.state_dict()})

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved position; raises `DataError` where a frozen cache is another than it was."""
        state = dict(state_dict)
        cache = state.pop(_CACHE_KEY, None)
        super().load_state_dict(state)
        if self._tools is not None and cache is not None:
            self._tools.load_state_dict(cache)

    def val_dataloader(self) -> list[TaskLoader]:
        """Lists of held-out tasks; no loader where no validation set is given, so that fitting works without one."""
        return [self._held_out("validate")] if self._tasks["validate"] else []


def plan_epoch(trainer: Trainer | None, tasks: Sequence[Task]) -> EpochPlan:
    """Ask every callback that plans epochs: what one of them skips is skipped."""
    if trainer is None:
        return WHOLE_EPOCH
    callbacks: Sequence[object] = trainer.callbacks  # type: ignore[attr-defined]
    plans = [callback.plan_epoch(trainer, tasks) for callback in callbacks if isinstance(callback, PlansEpochs)]
    return EpochPlan(
        skipped=frozenset().union(*(plan.skipped for plan in plans)),
        once=frozenset().union(*(plan.once for plan in plans)),
        refill=any(plan.refill for plan in plans),
    )
