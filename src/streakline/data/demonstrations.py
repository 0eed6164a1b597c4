"""Demonstrations to be imitated, and held-out tasks to see what came of it."""

import warnings
from collections.abc import Sequence
from typing import Protocol, TypeAlias, final, runtime_checkable

from streakline.data.base import AgentDataModule, TaskLoader, require_positive
from streakline.data.conversations import Conversation
from streakline.data.loader import ResumableLoader, SequentialLoader, Shard
from streakline.data.rows import TrainingRow, bucketed_batches, collate_rows, rows_of
from streakline.data.sources import DemonstrationSource
from streakline.environment.base import EnvironmentFactory
from streakline.environment.live import LiveEnvironment
from streakline.errors import ConfigError, DataError
from streakline.rendering.encode import encode_conversation
from streakline.rendering.renderer import Renderer
from streakline.tasks.base import TaskSet
from streakline.types import TrainingBatch

_HeldOutLoader: TypeAlias = SequentialLoader[TrainingRow, TrainingBatch] | TaskLoader


@runtime_checkable
class RendersConversations(Protocol):
    """A module that says how conversations become tokens, so that it is said once."""

    pad_id: int
    """Token that fills rows up."""

    def renderer(self) -> Renderer:
        """The renderer of the policy that is trained."""


def encode_demonstrations(
    conversations: Sequence[Conversation], *, renderer: Renderer, max_tokens: int | None = None
) -> tuple[TrainingRow, ...]:
    """Encode conversations to rows of tokens; those longer than `max_tokens` are left out, with a warning.

    Raises:
        DataError: If nothing is left to train on, or a conversation can't be rendered.
    """
    trajectories = [
        encode_conversation(
            renderer,
            conversation.messages,
            tools=conversation.tools,
            task_id=conversation.task_id,
            num_given=conversation.num_given,
            revealed_tools=conversation.revealed_tools,
        )
        for conversation in conversations
    ]
    rows = rows_of(trajectories, [0.0] * len(trajectories))
    kept = tuple(row for row in rows if max_tokens is None or len(row.sample.token_ids) <= max_tokens)
    if not kept:
        raise DataError(f"Expected demonstrations of at most {max_tokens} tokens, but got none among {len(rows)}")
    if len(kept) < len(rows):
        warnings.warn(
            f"Left out {len(rows) - len(kept)} of {len(rows)} rows longer than {max_tokens} tokens", stacklevel=2
        )
    return kept


@final
class DemonstrationDataModule(AgentDataModule):
    """Yields padded batches of demonstrations for training and validation, and lists of held-out tasks for rollouts.

    Demonstrations are encoded once, by the renderer of the module that is trained. Batches hold rows of similar length
    and come in an order that follows from seed and epoch. Epoch and position are checkpoint state.

    Args:
        train: Demonstrations to train on; None = nothing can be fitted.
        validation: Held-out demonstrations whose loss is measured; None = none.
        validation_tasks: Held-out tasks that are attempted at each validation; None = none.
        test: Held-out tasks for `test`.
        predict: Tasks whose trajectories `predict` writes; None = those of `test`.
        environment: Makes the world of a trajectory.
        batch_size: Rows of a training batch, over all processes.
        eval_batch_size: Held-out tasks, or rows, that are worked on side by side, over all processes.
        max_tokens: Demonstrations that are longer are left out, with a warning; None = none is.
        limit: The first demonstrations that are used, and the first tasks of each held-out set; None = all.
        pool: Batches that are sorted by length together; 1 = no sorting.
        seed: Of the shuffles.

    Raises:
        ConfigError: If a size isn't positive.
    """

    def __init__(
        self,
        train: DemonstrationSource | None = None,
        validation: DemonstrationSource | None = None,
        validation_tasks: TaskSet | Sequence[TaskSet] | None = None,
        test: TaskSet | Sequence[TaskSet] | None = None,
        predict: TaskSet | Sequence[TaskSet] | None = None,
        environment: EnvironmentFactory = LiveEnvironment,
        batch_size: int = 16,
        eval_batch_size: int = 64,
        max_tokens: int | None = None,
        limit: int | None = None,
        pool: int = 32,
        seed: int = 0,
    ) -> None:
        super().__init__(environment, validation_tasks, test, predict, eval_batch_size=eval_batch_size, limit=limit)
        require_positive(batch_size=batch_size, max_tokens=max_tokens, pool=pool)
        self._sources = {"train": train, "validation": validation}
        self._batch_size = batch_size
        self._max_tokens = max_tokens
        self._pool = pool
        self._seed = seed
        self._rows: dict[str, tuple[TrainingRow, ...]] = {}

    def setup(self, stage: str) -> None:
        """Encode the demonstrations, and collect the tasks, that the stage needs."""
        if stage == "fit":
            self._encode("train")
        if stage in {"fit", "validate"}:
            self._encode("validation")
        super().setup(stage)
        if stage == "validate" and not self._tasks[stage] and not self._rows.get("validation"):
            raise ConfigError("Expected `data.validation` or `data.validation_tasks` to be given, but got neither")

    def train_dataloader(self) -> ResumableLoader[TrainingBatch]:
        """Padded batches of demonstrations; raises `ConfigError` where there are none."""
        rows = self._rows.get("train", ())
        if not rows:
            raise ConfigError("Expected `data.train` to give demonstrations, but got none")

        def plan(epoch: int) -> list[list[int]]:
            return bucketed_batches(rows, batch_size=self._batch_size, seed=self._seed, epoch=epoch, pool=self._pool)

        fill = Shard.of_trainer(self.trainer, fill=True)
        return self._training(plan, lambda indices: self._batch([rows[index] for index in indices]), shard=fill)

    def val_dataloader(self) -> list[_HeldOutLoader]:
        """Padded batches of held-out demonstrations, then lists of held-out tasks; whichever there are."""
        loaders: list[_HeldOutLoader] = []
        if rows := self._rows.get("validation"):
            fill = Shard.of_trainer(self.trainer, fill=True)
            loaders.append(SequentialLoader(rows, batch_size=self._eval_batch_size, fetch=self._batch, shard=fill))
        if self._tasks["validate"]:
            loaders.append(self._held_out("validate"))
        return loaders

    def _module(self) -> RendersConversations:
        module: object = self.trainer.lightning_module if self.trainer else None
        if not isinstance(module, RendersConversations):
            raise ConfigError(f"Expected a module with a renderer for demonstrations, but got {type(module).__name__}")
        return module

    def _encode(self, name: str) -> None:
        source = self._sources[name]
        if source is not None and name not in self._rows:
            self._rows[name] = encode_demonstrations(
                source.conversations(limit=self._limit), renderer=self._module().renderer(), max_tokens=self._max_tokens
            )

    def _batch(self, rows: Sequence[TrainingRow]) -> TrainingBatch:
        return collate_rows(rows, pad_id=self._module().pad_id)
