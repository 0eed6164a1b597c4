"""Tells early in a run what its filter, down-sampling and trees will be worth, and at the end what they were."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, cast, final

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_only
from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel
from typing_extensions import override

from streakline.algorithms.forecast import share_spared, speed_ups
from streakline.errors import ConfigError
from streakline.modules.distributed import sum_over_ranks
from streakline.modules.grpo import GRPOModule
from streakline.types import Group

_ROLLOUT = ("time/rollout", "time/tool", "time/reward")
_UPDATE = ("time/reference", "time/update")
_OF_ROLLOUTS = (
    *("train/tokens", "train/sampled_tokens", "train/trajectories"),
    *("down_sample/kept", "down_sample/groups"),
)
_TREE = "train/distinct_token_share"
_SPARED = "filter/rollouts_saved"
_MANY_EPOCHS = 100
"""Taken where only a time limits a run."""


@final
class Forecast(Callback):
    """Profiles the first steps of a GRPO run and prints the expected speed-ups; at the end it prints those that came.

    Both compare with the same work on all tasks, all trajectories and padded rows, which nobody runs:
    `algorithms/forecast.py` derives it from what was measured. The forecast takes it that tasks which are all right now
    stay so; what came has the seconds and the spared rollouts of the steps behind the profile. A resumed run is
    profiled anew.

    Args:
        steps: Batches of rollouts that are profiled; 0 = there is no forecast.
        k: That of the streak filter, as all that follow.
        threshold: Reward from which a trajectory is right.
        reentry: When a skipped task comes back.
        cooldown: After how many epochs.
        probe_fraction: Share of the skipped tasks that is attempted.

    Raises:
        ConfigError: If `steps` is negative.
    """

    def __init__(
        self,
        steps: int = 0,
        k: int | None = None,
        threshold: float = 1.0,
        reentry: Literal["next_epoch", "cooldown", "never"] = "next_epoch",
        cooldown: int = 2,
        probe_fraction: float = 0.05,
    ) -> None:
        if steps < 0:
            raise ConfigError(f"Expected `forecast.steps` to be at least 0, but got {steps}")
        self._steps, self._threshold = steps, threshold
        rest = {"next_epoch": 1, "cooldown": cooldown, "never": None}[reentry]
        self._share_spared = partial(share_spared, k=k, rest=rest, probe_fraction=probe_fraction)
        self._is_profile = steps > 0
        self._spared_before = 0.0
        self._sums: defaultdict[str, float] = defaultdict(float)

    @override
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Print the forecast, once the profile is complete."""
        if self._is_profile and self._sums["batches"] == self._steps and batch and isinstance(pl_module, GRPOModule):
            right, total = sum_over_ranks(self._sums["right"], self._sums["groups"], device=pl_module.device)
            spared = self._share_spared(all_correct=right / max(total, 1.0), epochs=_num_epochs(trainer))
            self._print(pl_module, "forecast", spared=spared)
            self._is_profile, self._spared_before, self._sums = False, _value(trainer, _SPARED), defaultdict(float)

    def observe_groups(self, module: LightningModule, groups: Sequence[Group]) -> None:
        """Count the groups that the filter takes for solved."""
        self._sums["groups"] += len(groups)
        self._sums["right"] += sum(
            all(score is not None and score >= self._threshold for score in group.success_scores) for group in groups
        )

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Add up what the step logged; values of rollouts once, however many updates they serve."""
        if not self._steps or not isinstance(pl_module, GRPOModule):
            return
        for name in (*_ROLLOUT, *_UPDATE, _TREE, *(_OF_ROLLOUTS if batch else ())):
            self._sums[name] += _value(trainer, name)
        self._sums["updates"] += _value(trainer, _TREE) > 0
        self._sums["batches"] += bool(batch)

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print what came, if anything did behind the profile."""
        if not self._is_profile and self._sums["train/trajectories"] and isinstance(pl_module, GRPOModule):
            spared = _value(trainer, _SPARED) - self._spared_before
            self._print(pl_module, "what came", spared=spared / (spared + self._sums["train/trajectories"]))

    @rank_zero_only
    def _print(self, module: GRPOModule, head: str, *, spared: float) -> None:
        sums, batches, size = self._sums, self._sums["batches"], module.grpo.group_size
        kept, groups = sums["down_sample/kept"], sums["down_sample/groups"]
        rollout, update = sum(sums[name] for name in _ROLLOUT), sum(sums[name] for name in _UPDATE)
        found = speed_ups(
            rollout_s=rollout if self._is_profile else rollout / (1 - spared),
            update_s=update,
            spared=spared,
            row_tokens=self._ratio("train/tokens", "train/sampled_tokens"),
            computed_share=self._ratio(_TREE, "updates"),
            kept=kept / groups if groups else size,
            sampled=size,
            head_tokens=_head_tokens(module.policy),
        )
        print(
            f"{head} ({batches:.0f} batches): rollout {rollout / batches:.2f} s, update {update / batches:.2f} s, "
            f"{spared:.0%} of the rollouts spared; speed-up by "
            + ", ".join(f"{name} {value:.2f}x" for name, value in found.items()),
            flush=True,
        )

    def _ratio(self, name: str, other: str) -> float:
        return self._sums[name] / self._sums[other] if self._sums[other] else 1.0


def _value(trainer: Trainer, name: str) -> float:
    """The last value logged; 0 where there is none."""
    value = float(trainer.callback_metrics.get(name, 0.0))
    return 0.0 if math.isnan(value) else value


def _head_tokens(policy: PreTrainedModel | PeftModel) -> float:
    """Weights of the output head over those that every token passes through."""
    network = cast(PreTrainedModel, policy.get_base_model() if isinstance(policy, PeftModel) else policy)
    head = cast(nn.Linear, network.get_output_embeddings()).weight  # type: ignore[no-untyped-call]
    table = cast(nn.Embedding, network.get_input_embeddings()).weight
    tables = head.numel() if head is table else head.numel() + table.numel()
    return head.numel() / (sum(parameter.numel() for parameter in network.parameters()) - tables)


def _num_epochs(trainer: Trainer) -> int:
    """Epochs of a run: a number of steps or of epochs ends it, or neither."""
    steps, batches = trainer.max_steps, trainer.num_training_batches
    by_steps = math.ceil(steps / batches) if steps >= 0 and 0 < batches < math.inf else _MANY_EPOCHS
    by_epochs = trainer.max_epochs if trainer.max_epochs is not None and trainer.max_epochs >= 0 else _MANY_EPOCHS
    return max(min(by_steps, by_epochs), 1)
