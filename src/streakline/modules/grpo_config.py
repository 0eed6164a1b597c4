"""The knobs of a GRPO step."""

from dataclasses import dataclass
from typing import Literal

from streakline.algorithms.advantages import Baseline, Scale
from streakline.algorithms.engine_correction import EngineCorrection
from streakline.algorithms.normaliser import LossName
from streakline.algorithms.policy_loss import KLEstimator, Surrogate
from streakline.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GRPOConfig:
    """How groups become a loss, and how the loss becomes a step."""

    group_size: int = 8
    """Trajectories sampled for each task."""
    updates_per_rollout: int = 1
    """Optimiser steps that each batch of rollouts serves; every step passes over all of it."""
    loss: LossName = "dapo"
    """What the sum over tokens is divided by: `dapo` all trained tokens of the step, `grpo` each trajectory's own
    tokens and then their number, `dr_grpo` `token_budget` for each trajectory."""
    token_budget: int = 1024
    """Constant that `dr_grpo` divides by; unused by the others."""
    surrogate: Surrogate = "ppo"
    """What is made of the importance ratio: clipped for each token (`ppo`) or for each sample (`gspo`), or a clipped
    weight without a gradient (`cispo`)."""
    clip_low: float = 0.2
    """The importance ratio is clipped below 1 - clip_low; 1 = not at all."""
    clip_high: float = 0.2
    """The importance ratio is clipped above 1 + clip_high."""
    engine_correction: EngineCorrection = "none"
    """Weights for what the engine sampled with other probabilities than the policy's: of each token (`truncated`) or of
    each sample (`geometric`)."""
    engine_cap: float = 2.0
    """Ratio policy / engine above which a token's weight is cut, and a sample dropped; for `geometric`, which is a mean
    over tokens, rather near 1, such as 1.01."""
    kl_coef: float = 0.0
    """Weight of the distance to the initial policy; 0 = no reference policy is kept."""
    kl_estimator: KLEstimator = "k3"
    """Estimate of that distance."""
    entropy_coef: float = 0.0
    """Weight of a bonus for the entropy of the policy, in nats a token, weighted as the loss weighs tokens."""
    advantage_baseline: Baseline = "mean"
    """What a reward is compared with."""
    advantage_scale: Scale = "std"
    """What the difference is divided by."""
    advantage_statistics: Literal["kept", "all"] = "kept"
    """Whether baseline and scale are those of the trajectories kept for the update, or of all that were sampled."""
    zero_variance_tol: float = 1e-6
    """Largest range of rewards in a group that counts as no contrast."""
    drop_zero_variance_groups: bool = True
    """Leave out groups without contrast; False = they stay in the denominator, and under the KL penalty."""
    mask_truncated: bool = False
    """Leave trajectories that a limit cut off out of the loss, numerator and denominator."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm; 0 = never."""
    micro_batch_tokens: int = 16384
    """Tokens of one forward and backward pass, padding included. Changes speed and memory only."""
    packing: Literal["auto", "padded"] = "auto"
    """`auto`: what rows have in common is computed once, where the policy allows it and it is predicted to be faster.
    `padded`: each row is computed by itself. Changes speed and memory only."""
    success_threshold: float = 1.0
    """Reward from which a trajectory counts as right in the metrics."""

    def __post_init__(self) -> None:
        """Check the ranges, and that no option contradicts another."""
        checks: tuple[tuple[str, str, float, bool], ...] = (
            ("group_size", "at least 2 (a group of one has no contrast)", self.group_size, self.group_size >= 2),
            ("updates_per_rollout", "at least 1", self.updates_per_rollout, self.updates_per_rollout >= 1),
            ("token_budget", "at least 1", self.token_budget, self.token_budget >= 1),
            ("clip_low", "in (0, 1]", self.clip_low, 0 < self.clip_low <= 1),
            ("clip_high", "positive", self.clip_high, self.clip_high > 0),
            ("engine_cap", "at least 1", self.engine_cap, self.engine_cap >= 1),
            ("kl_coef", "at least 0", self.kl_coef, self.kl_coef >= 0),
            ("entropy_coef", "at least 0", self.entropy_coef, self.entropy_coef >= 0),
            ("zero_variance_tol", "at least 0", self.zero_variance_tol, self.zero_variance_tol >= 0),
            ("max_grad_norm", "at least 0", self.max_grad_norm, self.max_grad_norm >= 0),
            ("micro_batch_tokens", "at least 1", self.micro_batch_tokens, self.micro_batch_tokens >= 1),
        )
        for name, expected, value, ok in checks:
            if not ok:
                raise ConfigError(f"Expected `grpo.{name}` to be {expected}, but got {value}")
