"""Leaves the trained policy in the layout that other tools load."""

from __future__ import annotations

from pathlib import Path
from typing import final

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from streakline.modules.agent import AgentModule
from streakline.policy.export import export_policy


@final
class Export(Callback):
    """Writes the policy to `export/` in the run's folder when training ends, in the Hugging Face layout.

    Args:
        enabled: False = nothing is written.
    """

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled

    @override
    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the folder; an earlier one is replaced when the new one is complete."""
        if not self._enabled or not trainer.is_global_zero or not isinstance(pl_module, AgentModule):
            return
        folder = Path(trainer.default_root_dir) / "export"
        export_policy(pl_module.policy, pl_module.renderer().tokenizer, folder)
        print(f"policy written to {folder}", flush=True)
