"""Demonstrations to be imitated, and held-out tasks to see what came of it."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, final, runtime_checkable

import torch
from lightning.pytorch import LightningDataModule

from streakline.data.buckets import bucketed_batches
from streakline.data.collate import collate_rows, to_device
from streakline.data.conversations import Conversation
from streakline.data.loader import Cursor, ResumableLoader, SequentialLoader, Shard, TrainerProgress, trainer_of
from streakline.data.rows import TrainingRow, rows_of
from streakline.data.sources import DemonstrationSource
from streakline.data.tasks import collect_tasks
from streakline.environment.base import EnvironmentFactory
from streakline.environment.live import LiveEnvironment
from streakline.errors import ConfigError, DataError
from streakline.rendering.encode import encode_conversation
from streakline.rendering.renderer import Renderer
from streakline.tasks.base import TaskSet
from streakline.types import Task, TrainingBatch

__all__ = ["DemonstrationDataModule", "RendersConversations", "encode_demonstrations"]

_HeldOutLoader: TypeAlias = SequentialLoader[TrainingRow, TrainingBatch] | SequentialLoader[Task, list[Task]]


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
    """Encode conversations to rows of tokens.

    Args:
        conversations: What to imitate.
        renderer: Turns messages into tokens.
        max_tokens: Rows that are longer are left out, with a warning that counts them; None = none is.

    Returns:
        Rows in order.

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
class DemonstrationDataModule(LightningDataModule):
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
        super().__init__()
        sizes = {"batch_size": batch_size, "eval_batch_size": eval_batch_size, "max_tokens": max_tokens, "limit": limit}
        for name, value in (sizes | {"pool": pool}).items():
            if value is not None and value < 1:
                raise ConfigError(f"Expected `data.{name}` to be at least 1, but got {value}")
        self.environment = environment
        self._sources = {"train": train, "validation": validation}
        self._sets = {"validate": validation_tasks, "test": test, "predict": test if predict is None else predict}
        self._batch_size = batch_size
        self._eval_batch_size = eval_batch_size
        self._max_tokens = max_tokens
        self._limit = limit
        self._pool = pool
        self._seed = seed
        self._rows: dict[str, tuple[TrainingRow, ...]] = {}
        self._tasks: dict[str, tuple[Task, ...]] = {}
        self._cursor = Cursor()

    def setup(self, stage: str) -> None:
        """Encode the demonstrations, and collect the tasks, that the stage needs."""
        if stage == "fit":
            self._encode("train")
        if stage in {"fit", "validate"}:
            self._encode("validation")
        name = "validate" if stage == "fit" else stage
        if name not in self._tasks:
            self._tasks[name] = collect_tasks(self._sets[name], limit=self._limit)
        if stage == "validate" and not self._tasks[name] and not self._rows.get("validation"):
            raise ConfigError("Expected `data.validation` or `data.validation_tasks` to be given, but got neither")

    def train_dataloader(self) -> ResumableLoader[TrainingBatch]:
        """Padded batches of demonstrations.

        Raises:
            ConfigError: If there are none.
        """
        rows = self._rows.get("train", ())
        if not rows:
            raise ConfigError("Expected `data.train` to give demonstrations, but got none")
        lengths = [len(row.sample.token_ids) for row in rows]
        trainer = trainer_of(self)

        def plan(epoch: int) -> list[list[int]]:
            return bucketed_batches(lengths, batch_size=self._batch_size, seed=self._seed, epoch=epoch, pool=self._pool)

        return ResumableLoader(
            plan,
            fetch=lambda indices: self._batch([rows[index] for index in indices]),
            cursor=self._cursor,
            progress=TrainerProgress(trainer) if trainer else None,
            shard=Shard.of_trainer(trainer_of(self), fill=True),
        )

    def val_dataloader(self) -> list[_HeldOutLoader]:
        """Padded batches of held-out demonstrations, then lists of held-out tasks; whichever there are."""
        loaders: list[_HeldOutLoader] = []
        if self._rows.get("validation"):
            loaders.append(
                SequentialLoader(
                    self._rows["validation"],
                    batch_size=self._eval_batch_size,
                    fetch=self._batch,
                    shard=Shard.of_trainer(trainer_of(self), fill=True),
                )
            )
        return [*loaders, *([self._held_out("validate")] if self._tasks["validate"] else [])]

    def test_dataloader(self) -> _HeldOutLoader:
        """Lists of held-out tasks."""
        return self._held_out("test")

    def predict_dataloader(self) -> _HeldOutLoader:
        """Lists of tasks whose trajectories are written."""
        return self._held_out("predict")

    def transfer_batch_to_device(
        self, batch: TrainingBatch | list[Task], device: torch.device, dataloader_idx: int
    ) -> TrainingBatch | list[Task]:
        """Move demonstrations; leave tasks where they are."""
        return to_device(batch, device) if isinstance(batch, TrainingBatch) else batch

    def state_dict(self) -> dict[str, int]:
        """Epoch and position of the training batches, as plain integers."""
        return self._cursor.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Go on from a saved position."""
        self._cursor.load_state_dict(state_dict)

    def _module(self) -> RendersConversations:
        trainer = trainer_of(self)
        module: object = trainer.lightning_module if trainer else None
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

    def _held_out(self, name: str) -> _HeldOutLoader:
        if not self._tasks.get(name):
            raise ConfigError(f"Expected `data.{name}` to hold at least one task, but got none")
        return SequentialLoader(
            self._tasks[name], batch_size=self._eval_batch_size, fetch=list, shard=Shard.of_trainer(trainer_of(self))
        )
