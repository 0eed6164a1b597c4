"""Keeps the composed configuration of a run: in its folder, as an MLflow artifact, and as parameters to compare."""

from __future__ import annotations

from pathlib import Path
from typing import final

import yaml
from jsonargparse import Namespace
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, SaveConfigCallback
from typing_extensions import override

from streakline.callbacks.mlflow_logger import artifact_stores
from streakline.evaluation.config_digest import config_digest


@final
class ConfigSnapshot(SaveConfigCallback):
    """Saves what the command line, the files and the defaults composed to, so that one file repeats the run.

    Lightning's own callback asks the logger for a folder, which a database has not.

    A fit leaves `config.yaml`, another command `config-<command>.yaml`; where the same command ran before with another
    configuration (a resumed run), that one is renamed to `config.1.yaml` and so on.
    """

    def __init__(
        self, parser: LightningArgumentParser, config: Namespace, folder: Path | None = None, command: str = "fit"
    ) -> None:
        super().__init__(parser, config, save_to_log_dir=False)
        self._folder = folder
        self._command = command

    @override
    def save_config(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write the configuration; Lightning calls this once, on the first process."""
        # What links fill in is left out, so that the file can be given as `--config` again.
        text = self.parser.dump(self.config, skip_none=False)
        composed = yaml.safe_load(text)
        digest = config_digest(composed)
        folder = self._folder or Path(trainer.default_root_dir)
        name = _write(folder, "config" if self._command == "fit" else f"config-{self._command}", text)
        for store in artifact_stores(trainer):
            store.log_text(text, f"config/{name}")
            store.set_tag(f"config_sha256.{self._command}", digest)
        for logger in trainer.loggers:
            logger.log_hyperparams({"config_sha256": digest, **composed})


def _write(folder: Path, stem: str, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.yaml"
    if path.is_file() and path.read_text(encoding="utf-8") != text:
        number = 1
        while (earlier := folder / f"{stem}.{number}.yaml").exists():
            number += 1
        path.rename(earlier)
    path.write_text(text, encoding="utf-8")
    return path.name
