"""What the sum of token losses is divided by: a number of the whole optimiser step, never of a micro-batch.

A loss that is averaged inside each micro-batch weighs a token by the company it happens to be in. Here every trained
token gets its weight before the step is split, so the gradient is the same for any split of the same samples over
micro-batches, accumulation and ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

LossName: TypeAlias = Literal["dapo", "grpo", "dr_grpo"]
"""Loss by what it divides by. `dapo` (arXiv 2503.14476): trained tokens. `grpo` (arXiv 2402.03300): the tokens of the
token's own trajectory, then the number of trajectories. `dr_grpo` (arXiv 2503.20783): a constant number of tokens for
each trajectory, however long it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTotals:
    """Counts over all samples of an optimiser step, on all ranks, that are in the loss."""

    tokens: float
    """Trained tokens."""
    trajectories: float
    """Trajectories with at least one trained token."""


def token_weights(
    tokens_of_trajectory: Sequence[int], *, loss: LossName, totals: StepTotals, token_budget: int
) -> torch.Tensor:
    """[B] float64 weights; that of a row holds for every trained token in it.

    `tokens_of_trajectory` has [B] trained tokens of the trajectory that the row belongs to, over all its rows.

    Example:
        Two trajectories of 1 and 3 tokens::

            >>> totals = StepTotals(tokens=4, trajectories=2)
            >>> token_weights([1, 3], loss="dapo", totals=totals, token_budget=8).tolist()
            [0.25, 0.25]
            >>> token_weights([1, 3], loss="grpo", totals=totals, token_budget=8).mul(6).tolist()
            [3.0, 1.0]
            >>> token_weights([1, 3], loss="dr_grpo", totals=totals, token_budget=8).tolist()
            [0.0625, 0.0625]
    """
    counts = torch.tensor(tokens_of_trajectory, dtype=torch.float64)
    match loss:
        case "dapo":
            divisor = torch.full_like(counts, totals.tokens)
        case "grpo":
            divisor = counts * totals.trajectories
        case "dr_grpo":
            divisor = torch.full_like(counts, totals.trajectories * token_budget)
    return 1.0 / divisor
