"""The clipped surrogate loss of GRPO and its relatives, as a sum over tokens that carry their own weight.

PPO's clipped objective (arXiv 1707.06347, equation 7) with the upper bound free of the lower (clip-higher, DAPO, arXiv
2503.14476, equation 10) and an optional penalty on the distance to a reference policy (GRPO, arXiv 2402.03300,
equation 3). The relatives differ in the weights (`algorithms/normaliser.py`) and the advantages only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

KLEstimator: TypeAlias = Literal["k1", "k2", "k3"]
"""Estimate of KL(policy || reference) from one sampled token (http://joschu.net/blog/kl-approx.html)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLossSums:
    """What happened to the trained tokens, as sums, so that micro-batches add up. Divide by `tokens` for a mean."""

    tokens: torch.Tensor
    """[] number of trained tokens."""
    ratio: torch.Tensor
    """[] sum of importance ratios policy / old policy."""
    clipped: torch.Tensor
    """[] number of tokens whose gradient the clipping cut off."""
    kl: torch.Tensor
    """[] sum of the estimated distance to the reference policy; 0 without one."""


def policy_loss(
    logprobs: torch.Tensor,
    *,
    logprobs_old: torch.Tensor,
    advantages: torch.Tensor,
    loss_mask: torch.Tensor,
    weights: torch.Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    logprobs_reference: torch.Tensor | None = None,
    kl_coef: float = 0.0,
    kl_estimator: KLEstimator = "k3",
) -> tuple[torch.Tensor, PolicyLossSums]:
    """Sum over trained tokens of weight * (-min(ratio * A, clip(ratio) * A) + kl_coef * KL).

    Log-probabilities and mask are [B, T], advantages and weights [B]: a weight is 1 / the loss's normaliser over the
    whole step, so the scalar that this gives is to be summed over micro-batches. The ratio is clipped to
    [1 - clip_low, 1 + clip_high]. Without `logprobs_reference` there is no penalty. The sums are detached.
    """
    mask = loss_mask.to(logprobs.dtype)
    # Masked columns are zeroed before the exponential: padding must not overflow to inf, since inf * 0 is nan.
    ratio = torch.exp((logprobs - logprobs_old) * mask)
    advantage = advantages.to(logprobs.dtype).unsqueeze(1)
    unclipped = ratio * advantage
    clipped = ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantage
    token_loss = -torch.minimum(unclipped, clipped)
    kl = torch.zeros_like(token_loss)
    if logprobs_reference is not None:
        kl = kl_divergence(logprobs * mask, logprobs_reference=logprobs_reference * mask, estimator=kl_estimator)
        token_loss = token_loss + kl_coef * kl
    loss = (token_loss * mask * weights.to(logprobs.dtype).unsqueeze(1)).sum()
    return loss, PolicyLossSums(
        tokens=mask.sum().detach(),
        ratio=(ratio * mask).sum().detach(),
        clipped=((clipped < unclipped) * mask).sum().detach(),
        kl=(kl * mask).sum().detach(),
    )


def kl_divergence(
    logprobs: torch.Tensor, *, logprobs_reference: torch.Tensor, estimator: KLEstimator = "k3"
) -> torch.Tensor:
    """Per-token estimates of KL(policy || reference), in nats, from tokens that the policy sampled.

    With d = log reference - log policy: k1 = -d (unbiased, may be negative; as a loss its expected gradient is 0),
    k2 = d^2 / 2 (biased, the gradient of the true divergence), k3 = exp(d) - 1 - d (unbiased, never negative).
    """
    difference = logprobs_reference - logprobs
    match estimator:
        case "k1":
            return -difference
        case "k2":
            return 0.5 * difference.square()
        case "k3":
            return torch.expm1(difference) - difference
