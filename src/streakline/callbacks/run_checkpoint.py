"""Checkpoints while training, and one at its very end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.types import STEP_OUTPUT
from typing_extensions import override


@final
class RunCheckpoint(ModelCheckpoint):
    """Lightning's `ModelCheckpoint`, in the run's folder, which also saves when training ends between two of its steps.

    Without a `dirpath` the files go to `checkpoints/` under the trainer's folder, whatever the logger is. With
    `every_n_train_steps: 5` a run of 12 steps would otherwise end with the weights of step 10 in `last.ckpt`.
    """

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Choose the folder."""
        if self.dirpath is None:
            self.dirpath = str(Path(trainer.default_root_dir).resolve() / "checkpoints")
        super().setup(trainer, pl_module, stage)

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over which files are the best, unless they are another run's."""
        if state_dict["dirpath"] == self.dirpath:
            super().load_state_dict(state_dict)

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: Any, batch_idx: int
    ) -> None:
        """Save, also where training stops here: afterwards Lightning counts the epoch as done, however much is left."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if trainer.should_stop or trainer.global_step == trainer.max_steps:
            self._save_end(trainer)

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save, if the last step isn't saved yet."""
        super().on_train_end(trainer, pl_module)
        self._save_end(trainer)

    def save_broken_step(self, trainer: Trainer) -> None:
        """Save after the last step, where the one under way can't be finished."""
        batches = trainer.fit_loop.epoch_loop.batch_progress
        if batches.current.ready > batches.current.completed:
            # The batch under way will be met again, so that the epoch is not at its end.
            batches.is_last_batch = False
        self._save_end(trainer)

    def _save_end(self, trainer: Trainer) -> None:
        if self.save_last and not self._should_skip_saving_checkpoint(trainer):
            self._save_last_checkpoint(trainer, self._monitor_candidates(trainer))
