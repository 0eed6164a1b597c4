"""The command line: `fit`, `validate`, `test` and `predict`, all from configuration files.

What decides a run is `--config`; several compose from left to right, and any option can follow by its dotted name. A
value may name a file (`model: ../model/smollm2.yaml`), relative to the file in which it stands. What no file says comes
from `configs/base.yaml`, then from the code.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers.logger import DummyLogger
from transformers.utils.logging import disable_progress_bar
from typing_extensions import override

from streakline.callbacks.checkpoint_io import AtomicCheckpointIO
from streakline.callbacks.config_snapshot import ConfigSnapshot
from streakline.callbacks.down_sample import DownSampleRollouts
from streakline.callbacks.export import Export
from streakline.callbacks.forecast import Forecast
from streakline.callbacks.metric_line import MetricLine
from streakline.callbacks.rollout_log import RolloutLog
from streakline.callbacks.run_checkpoint import RunCheckpoint
from streakline.callbacks.run_identity import RunIdentity
from streakline.callbacks.streak_filter import StreakFilter
from streakline.error_line import error_line, own_error
from streakline.errors import ConfigError, DataError
from streakline.strict_parser import StrictParser

_COMMANDS = ("fit", "validate", "test", "predict")


class StreaklineCLI(LightningCLI):
    """Lightning's command line with a run identity, standing callbacks under their own keys, and safe checkpoints.

    Args:
        args: Arguments without the program's name; None = those of the process.
        run: False = only build model, data and trainer.
    """

    def __init__(self, args: ArgsType = None, *, run: bool = True) -> None:
        base = _base_config()
        options: dict[str, Any] = {"default_config_files": [] if base is None else [str(base)]}
        super().__init__(
            LightningModule,
            LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            save_config_callback=ConfigSnapshot,
            parser_kwargs={name: dict(options) for name in _COMMANDS} if run else options,
            parser_class=StrictParser,
            auto_configure_optimizers=False,
            # Hyper-parameters in a checkpoint would silently override files and command line.
            load_from_checkpoint_support=False,
            args=args,
            run=run,
        )

    @override
    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the run identity and the standing callbacks."""
        parser.add_class_arguments(RunIdentity, "run")
        parser.link_arguments("run.seed", "seed_everything")
        parser.add_lightning_class_args(RunCheckpoint, "checkpoint")
        parser.add_lightning_class_args(MetricLine, "metric_line")
        parser.add_lightning_class_args(RolloutLog, "rollout_log")
        parser.add_lightning_class_args(Export, "export")
        parser.add_lightning_class_args(StreakFilter, "streak_filter")
        parser.add_lightning_class_args(DownSampleRollouts, "down_sample")
        parser.add_lightning_class_args(Forecast, "forecast")
        for key in ("k", "threshold", "reentry", "cooldown", "probe_fraction"):
            parser.link_arguments(f"streak_filter.{key}", f"forecast.{key}")
        for key in ("model.init_args", "data.init_args", "streak_filter", "down_sample"):
            parser.link_arguments("run.seed", f"{key}.seed")

    @staticmethod
    @override
    def subcommands() -> dict[str, set[str]]:
        """Commands, and the options of the trainer's methods that they do not have."""
        # `weights_only` isn't a choice here.
        return {name: skipped | {"weights_only"} for name, skipped in LightningCLI.subcommands().items()}

    @override
    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Parse the arguments into `self.config`."""
        parsed = parser.parse_object(args) if isinstance(args, dict | Namespace) else parser.parse_args(args)
        self.config = parsed

    @override
    def before_instantiate_classes(self) -> None:
        """Find out which run this is."""
        self.identity = RunIdentity(**self._command_config["run"].as_dict())
        if self.subcommand is not None:
            self.save_config_kwargs = {"folder": self.identity.folder, "command": self.subcommand}

    @override
    def after_instantiate_classes(self) -> None:
        """Find out which file `--ckpt_path last` means."""
        if self.subcommand is not None:
            command = self.config_init[self.subcommand]
            command["ckpt_path"] = self._resolve_checkpoint(command["ckpt_path"])

    @property
    def _command_config(self) -> Namespace:
        config: Namespace = self.config if self.subcommand is None else self.config[self.subcommand]
        return config

    def _resolve_checkpoint(self, asked: str | None) -> str | None:
        if asked is None or asked in {"best", "hpc"}:
            return asked
        if asked != "last":
            if not Path(asked).is_file():
                raise DataError(f"Expected `ckpt_path` to be `last` or an existing file, but got {asked!r}")
            return asked
        found = self.identity.last_checkpoint()
        if found is None and self.subcommand != "fit":
            raise DataError(f"Expected a checkpoint in {self.identity.checkpoints}, but there is none")
        if found is None:
            print(f"no checkpoint in {self.identity.checkpoints} yet: starting fresh", flush=True)
        return None if found is None else str(found)

    @override
    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Build the trainer, with checkpoints that are written atomically."""
        configured = self._get(self.config_init, "trainer")
        if configured["default_root_dir"] is not None:
            raise ConfigError(
                "Expected `trainer.default_root_dir` to be left to `run.root`, `run.experiment` and `run.name`, "
                f"but got {configured['default_root_dir']!r}"
            )
        given = configured["plugins"]
        plugins = list(given) if isinstance(given, list) else [] if given is None else [given]
        if not any(isinstance(plugin, CheckpointIO) for plugin in plugins):
            plugins.append(AtomicCheckpointIO())
        # The MLflow run is opened when a command starts, not when a trainer is built.
        self._tracks = configured["logger"] in (None, True) and not configured["fast_dev_run"]
        logger = False if configured["logger"] in (None, True) else configured["logger"]
        return super().instantiate_trainer(
            plugins=plugins, logger=logger, default_root_dir=str(self.identity.folder), **kwargs
        )

    def _parse_ckpt_path(self) -> None:
        """Read nothing from a checkpoint before it is loaded: options come from files and the command line alone."""

    def before_fit(self) -> None:
        """Keep an earlier run of the same identity apart, unless it is resumed, and open the MLflow run."""
        resumed = self._get(self.config_init, "ckpt_path")
        # Validation while fitting is optional; `validate` and `test` say so when they find no task.
        warnings.filterwarnings("ignore", message="Total length of .* across ranks is zero")
        owned = resumed is not None and self.identity.owns(Path(resumed))
        if self.trainer.is_global_zero and not self._get(self.config_init, "trainer")["fast_dev_run"]:
            self.identity.lock()
            if self._tracks:
                from streakline.callbacks.mlflow_logger import probe_store

                # Before an earlier run is moved: what can't be tracked leaves everything where it is.
                probe_store(self.identity.store)
            kept = None if owned else self.identity.set_aside()
            if kept is not None:
                print(f"earlier run of the same name kept as {kept}", flush=True)
        self._start_tracking()

    def before_validate(self) -> None:
        """Open the MLflow run."""
        self._start_tracking()

    def before_test(self) -> None:
        """Open the MLflow run."""
        self._start_tracking()

    def before_predict(self) -> None:
        """Open the MLflow run."""
        self._start_tracking()

    def _start_tracking(self) -> None:
        if not self._tracks:
            return
        if not self.trainer.is_global_zero:
            self.trainer.logger = DummyLogger()
            return
        # MLflow takes seconds to import, which `--help` and a misspelt option need not wait for.
        from streakline.callbacks.mlflow_logger import RunLogger

        self.trainer.logger = RunLogger(self.identity)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command.

    With STREAKLINE_DEBUG=1 every error shows its traceback.

    Args:
        args: Arguments without the program's name; None = those of the process.

    Returns:
        Exit status: 0 = it worked, 1 = it failed, 2 = the options are wrong.
    """
    _quieten()
    try:
        StreaklineCLI(None if args is None else list(args))
    except Exception as error:
        line = error_line(error)
        if line is None or os.environ.get("STREAKLINE_DEBUG"):
            raise
        print(f"streakline: {line}", file=sys.stderr)
        return 2 if isinstance(own_error(error) or error, ConfigError | argparse.ArgumentError) else 1
    return 0


def _quieten() -> None:
    """Leave out what is no news to a user of this program."""
    for message in (
        # Tasks are cheap to yield, and worker processes would each hold a copy of what the parent holds.
        ".*does not have many workers",
        # Lightning 2.6 asks torch 2.13 in a way that torch is about to drop.
        r"`isinstance\(treespec, LeafSpec\)` is deprecated",
        # A resumed run; a fresh one never meets the files of another.
        "Checkpoint directory .* exists and is not empty",
    ):
        warnings.filterwarnings("ignore", message=message)
    if not sys.stderr.isatty():
        disable_progress_bar()  # type: ignore[no-untyped-call]
    # Where in the code a warning was raised is no help to who reads the log of a run.
    warnings.formatwarning = lambda message, *_: f"warning: {message}\n"
    logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(_is_no_advertisement)
    # "`weights_only` was not set", about what it saves: everything.
    logging.getLogger("lightning.pytorch.trainer.connectors.checkpoint_connector").setLevel(logging.WARNING)


def _is_no_advertisement(record: logging.LogRecord) -> bool:
    return "Tip:" not in record.getMessage()


def _base_config() -> Path | None:
    """`configs/base.yaml` of the folder that we are in, else that of the checkout that this file lies in."""
    for folder in (Path.cwd(), Path(__file__).resolve().parents[2]):
        if (path := folder / "configs" / "base.yaml").is_file():
            return path
    return None
