"""The surrogate losses of GRPO and its relatives, as a sum over tokens that carry their own weight.

PPO's clipped objective (arXiv 1707.06347, equation 7) with the upper bound free of the lower (clip-higher, DAPO, arXiv
2503.14476, equation 10), GSPO's and CISPO's in its place, an optional penalty on the distance to a reference policy
(GRPO, arXiv 2402.03300, equation 3), and an optional bonus for entropy (PPO, equation 9). Other relatives differ in the
weights (`algorithms/normaliser.py`) and the advantages only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

from streakline.algorithms.engine_correction import EngineCorrection, count_by_length, engine_weights, sample_mean

Surrogate: TypeAlias = Literal["ppo", "gspo", "cispo"]
"""What is made of the importance ratio policy / old policy. `ppo`: that of each token, clipped. `gspo` (arXiv
2507.18071, equations 5 and 7): in its place the geometric mean over the trained tokens of a sample, clipped. `cispo`
(arXiv 2506.13585, equations 4 and 5): the clipped ratio of each token weighs its log-probability, and carries no
gradient, so that no token loses its own."""

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
    kept_by_length: torch.Tensor
    """[classes, 2] tokens that kept their ratio policy / engine, and all tokens; see `count_by_length`."""


def policy_loss(
    logprobs: torch.Tensor,
    *,
    logprobs_old: torch.Tensor,
    advantages: torch.Tensor,
    loss_mask: torch.Tensor,
    weights: torch.Tensor,
    surrogate: Surrogate = "ppo",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    logprobs_reference: torch.Tensor | None = None,
    kl_coef: float = 0.0,
    kl_estimator: KLEstimator = "k3",
    entropy: torch.Tensor | None = None,
    entropy_coef: float = 0.0,
    logprobs_engine: torch.Tensor | None = None,
    engine_correction: EngineCorrection = "none",
    engine_cap: float = 2.0,
) -> tuple[torch.Tensor, PolicyLossSums]:
    """Sum over tokens of weight * (-correction * min(ratio * A, clip(ratio) * A) + kl_coef * KL - entropy_coef * H).

    Log-probabilities, entropies H and mask are [B, T], one sample a row; advantages and weights [B]: a weight is 1 /
    the loss's normaliser over the whole step, so the scalar that this gives is to be summed over micro-batches. The
    ratio is clipped to [1 - clip_low, 1 + clip_high]. Without `logprobs_reference` there is no penalty, without
    `entropy` no bonus for it, without `logprobs_engine` no correction. The sums are detached.
    """
    mask = loss_mask.to(logprobs.dtype)
    # Masked columns are zeroed before the exponential: padding must not overflow to inf, since inf * 0 is nan.
    log_ratio = (logprobs - logprobs_old) * mask
    if surrogate == "gspo":
        log_ratio = sample_mean(log_ratio, loss_mask=loss_mask)
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    advantage = advantages.to(logprobs.dtype).unsqueeze(1)
    if surrogate == "cispo":
        objective = bounded.detach() * advantage * (logprobs * mask)
        is_clipped = bounded != ratio
    else:
        objective = torch.minimum(ratio * advantage, bounded * advantage)
        is_clipped = bounded * advantage < ratio * advantage
    correction, kept = engine_weights(
        logprobs_old,
        logprobs_engine=logprobs_old if logprobs_engine is None else logprobs_engine,
        loss_mask=loss_mask,
        correction=engine_correction,
        cap=engine_cap,
    )
    token_loss = -correction * objective
    kl = torch.zeros_like(token_loss)
    if logprobs_reference is not None:
        kl = kl_divergence(logprobs * mask, logprobs_reference=logprobs_reference * mask, estimator=kl_estimator)
        token_loss = token_loss + kl_coef * kl
    if entropy is not None:
        token_loss = token_loss - entropy_coef * entropy
    loss = (token_loss * mask * weights.to(logprobs.dtype).unsqueeze(1)).sum()
    return loss, PolicyLossSums(
        tokens=mask.sum().detach(),
        ratio=(ratio * mask).sum().detach(),
        clipped=(is_clipped * mask).sum().detach(),
        kl=(kl * mask).sum().detach(),
        kept_by_length=count_by_length(kept, loss_mask=loss_mask),
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
