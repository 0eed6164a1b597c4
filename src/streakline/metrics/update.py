"""What an optimiser step did to the trained tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import torch
from torchmetrics import Metric

from streakline.algorithms.engine_correction import LENGTH_EDGES
from streakline.algorithms.policy_loss import PolicyLossSums

_LENGTHS = (*(f"below_{edge}" for edge in LENGTH_EDGES), f"from_{LENGTH_EDGES[-1]}")
_KEPT = ("engine_kept", *(f"engine_kept/{name}" for name in _LENGTHS))

NO_UPDATE: Mapping[str, float] = {
    "loss": 0.0,
    "trained_tokens": 0.0,
    **dict.fromkeys(("ratio", "clipped", "kl", "entropy", "engine_gap", "engine_gap_max", *_KEPT), math.nan),
}
"""What `UpdateMetrics` would compute for a step that trained nothing: a mean over no token is nan."""

_SUMS = ("loss", "tokens", "ratio", "clipped", "kl", "entropy", "engine_gap")


@final
class UpdateMetrics(Metric):
    """Means over the trained tokens of a step.

    Values after `compute`: `loss` (sum over micro-batches and ranks), `trained_tokens`, and per token `ratio`,
    `clipped` share, `kl` to the reference, `entropy` in nats, `engine_gap` = mean |policy - engine| log-probability,
    and the largest of it, `engine_gap_max`. A gap at the second update on the same rollouts holds the first update.
    `engine_kept` is the share of tokens that kept their ratio to the engine, neither cut nor dropped; beside it that of
    the samples of each class of length (trained tokens; nan where there is none).
    """

    full_state_update = False

    sums: torch.Tensor
    engine_gap_max: torch.Tensor
    kept_by_length: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        # float64: a float32 sum of tokens stops counting at 16 million.
        self.add_state("sums", torch.zeros(len(_SUMS), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("engine_gap_max", torch.zeros((), dtype=torch.float64), dist_reduce_fx="max")
        self.add_state("kept_by_length", torch.zeros(len(_LENGTHS), 2, dtype=torch.float64), dist_reduce_fx="sum")

    def update(
        self,
        *,
        loss: torch.Tensor,
        sums: PolicyLossSums,
        entropy: torch.Tensor,
        logprobs: torch.Tensor,
        logprobs_engine: torch.Tensor,
    ) -> None:
        """Add one micro-batch: its [] part of the loss, sums, and [B, T] values, 0 where no token is trained."""
        gap = (logprobs.detach() - logprobs_engine).abs()
        parts = (loss.detach(), sums.tokens, sums.ratio, sums.clipped, sums.kl, entropy.sum(), gap.sum())
        self.sums += torch.stack([part.double() for part in parts])
        self.engine_gap_max = torch.maximum(self.engine_gap_max, gap.max().double())
        self.kept_by_length += sums.kept_by_length

    def skip(self) -> None:
        """Note that this process has no tokens in the step: others may, and `compute` adds up all."""
        zero, row = torch.zeros((), device=self.device), torch.zeros(1, 1, device=self.device)
        kept = torch.zeros_like(self.kept_by_length)
        sums = PolicyLossSums(tokens=zero, ratio=zero, clipped=zero, kl=zero, kept_by_length=kept)
        self.update(loss=zero, sums=sums, entropy=row, logprobs=row, logprobs_engine=row)

    def compute(self) -> dict[str, float]:
        """Means by name. See the class."""
        sums = dict(zip(_SUMS, self.sums.tolist(), strict=True))
        tokens = max(sums["tokens"], 1.0)
        counts = [self.kept_by_length.sum(0).tolist(), *self.kept_by_length.tolist()]
        per_token = {name: sums[name] / tokens for name in ("ratio", "clipped", "kl", "entropy", "engine_gap")}
        return {
            "loss": sums["loss"],
            "trained_tokens": sums["tokens"],
            **per_token,
            "engine_gap_max": float(self.engine_gap_max),
            **{name: kept / of if of else math.nan for name, (kept, of) in zip(_KEPT, counts, strict=True)},
        }
