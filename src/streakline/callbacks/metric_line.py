"""One readable line a step, in place of a progress bar that is unreadable in a log file."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, final

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from streakline.errors import ConfigError

_DEFAULT_SHOWN = (
    "train/loss",
    "train/reward",
    "train/success",
    "train/zero_variance",
    "train/token_accuracy",
    "train/grad_norm",
    "time/rollout",
    "time/update",
    "validate/loss",
    "validate/success_sampled",
    "validate/success_greedy",
)


@final
class MetricLine(Callback):
    """Prints a line such as `step 12/240  loss 0.4210  reward 0.5310  (34 s)`, and one after each validation.

    A batch that moved no weight, such as rollouts without contrast, says so in place of counting the step once more.

    Args:
        show: Metrics to print, as names or patterns (`train/*`), in this order; None = the usual few.
        min_seconds: A step is not printed sooner than this after the last line, unless it is the first or the last one.

    Raises:
        ConfigError: If `min_seconds` is negative.
    """

    def __init__(self, show: list[str] | None = None, min_seconds: float = 5.0) -> None:
        if min_seconds < 0:
            raise ConfigError(f"Expected `metric_line.min_seconds` to be at least 0, but got {min_seconds}")
        self._show = _DEFAULT_SHOWN if show is None else tuple(show)
        self._min_seconds = min_seconds
        self._start = 0.0
        self._step = 0
        self._last_line = float("-inf")

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock, and say where training starts from."""
        self._start = time.monotonic()
        self._step = trainer.global_step
        self._last_line = float("-inf")
        if trainer.global_step and trainer.is_global_zero:
            print(f"resumed at step {trainer.global_step}", flush=True)

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Print the step, if it is time; also one in which a module of its own accord took none."""
        is_skipped, self._step = trainer.global_step == self._step, trainer.global_step
        if is_skipped and pl_module.automatic_optimization:
            return  # gradients add up: the step is yet to come
        total = trainer.estimated_stepping_batches
        now = time.monotonic()
        if now - self._last_line < self._min_seconds and trainer.global_step != total:
            return
        self._last_line = now
        bound = f"/{total}" if total != float("inf") else ""
        head = "nothing to learn from, still at step" if is_skipped else "step"
        self._print(trainer, f"{head} {trainer.global_step}{bound}", leave_out="validate/")

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print what validation found while fitting; the other commands print Lightning's table."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._print(trainer, f"validation at step {trainer.global_step}", leave_out=("train/", "time/"))

    def _print(self, trainer: Trainer, head: str, *, leave_out: str | tuple[str, ...]) -> None:
        if not trainer.is_global_zero:
            return
        shown = {name: value for name, value in trainer.logged_metrics.items() if not name.startswith(leave_out)}
        text = format_metrics(shown, self._show)
        print("  ".join([head, *([text] if text else []), f"({time.monotonic() - self._start:.0f} s)"]), flush=True)


def format_metrics(metrics: Mapping[str, torch.Tensor | float], show: Sequence[str]) -> str:
    """Write metrics side by side, in the order of names or patterns and without the first part of their names.

    What was not measured (nan) is left out.

    Example::

        >>> format_metrics({"train/loss": 0.42104, "train/reward": 0.5, "epoch": 3.0}, ["train/reward", "train/*"])
        'reward 0.5000  loss 0.4210'
    """
    names = dict.fromkeys(name for pattern in show for name in metrics if fnmatchcase(name, pattern))
    values = {name.split("/", 1)[-1]: float(metrics[name]) for name in names}
    return "  ".join(f"{name} {value:.4f}" for name, value in values.items() if not math.isnan(value))
