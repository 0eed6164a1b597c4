"""Weights for tokens that were sampled by an engine whose probabilities are not quite the policy's.

Another kernel, precision or batch shape gives the engine other log-probabilities than training computes for the same
weights, so that an update on its samples is slightly off-policy. Importance weights policy / engine mend that, with a
cap, since the weight of a single token has no bound.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch

EngineCorrection: TypeAlias = Literal["none", "truncated", "geometric"]
"""`truncated`: each token weighs min(policy / engine, cap), as in V-trace (arXiv 1802.01561, section 4.1). `geometric`:
the tokens of a sample all weigh the geometric mean of these ratios, and 0 where it is above the cap. Their product, the
sample's true ratio, grows with its length: 3e-4 nats a token make 3.3 over 4,000 tokens, beyond a cap of 3, where the
mean is 1.0003 over any number of tokens."""

LENGTH_EDGES = (512, 2048)
"""Trained tokens of a sample at which a class of length ends and the next begins."""


def engine_weights(
    logprobs_old: torch.Tensor,
    *,
    logprobs_engine: torch.Tensor,
    loss_mask: torch.Tensor,
    correction: EngineCorrection,
    cap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """[B, T] weights of tokens, and [B, T] whether a trained token kept its ratio, neither cut nor dropped; detached.

    Log-probabilities and mask are [B, T]. `logprobs_old` are the policy's before the update, so that this ratio and
    that of the loss multiply to policy / engine.
    """
    if correction == "none":
        return torch.ones_like(logprobs_old), loss_mask
    log_ratio = ((logprobs_old - logprobs_engine) * loss_mask).detach()
    if correction == "geometric":
        log_ratio = sample_mean(log_ratio, loss_mask=loss_mask)
    ratio = log_ratio.exp()
    kept = ratio <= cap
    weights = torch.where(kept, ratio, 0.0) if correction == "geometric" else ratio.clamp(max=cap)
    return weights, kept & loss_mask


def sample_mean(values: torch.Tensor, *, loss_mask: torch.Tensor) -> torch.Tensor:
    """[B, T] that holds the mean over the trained tokens of a row in all its columns; `values` are 0 elsewhere."""
    return (values.sum(1, keepdim=True) / loss_mask.sum(1, keepdim=True).clamp(min=1)).expand_as(values)


def count_by_length(kept: torch.Tensor, *, loss_mask: torch.Tensor) -> torch.Tensor:
    """[classes, 2] numbers of kept and of all trained tokens in samples of each class of length (`LENGTH_EDGES`)."""
    lengths = loss_mask.sum(1)  # [B]
    edges = torch.tensor(LENGTH_EDGES, device=lengths.device)
    classes = torch.bucketize(lengths, edges, right=True)
    counts = torch.stack([kept.sum(1), lengths], dim=1).float()
    return counts.new_zeros(len(LENGTH_EDGES) + 1, 2).index_add(0, classes, counts)
