"""Group-relative advantages: how much better a trajectory did than the others of its task.

GRPO (arXiv 2402.03300, equation 4): A_i = (r_i - mean r) / std r over the n trajectories of a task. Two known variants
are options: a leave-one-out baseline (RLOO, arXiv 2402.14740) and no division by the standard deviation (Dr. GRPO,
arXiv 2503.20783).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch

Baseline: TypeAlias = Literal["mean", "leave_one_out"]
"""What a reward is compared with: the mean of its group, or the mean of the others."""

Scale: TypeAlias = Literal["std", "none"]
"""What the difference is divided by: the unbiased standard deviation of the group, or nothing."""


def has_zero_variance(rewards: Sequence[float | None], *, tol: float = 1e-6) -> bool:
    """Whether the scored rewards of a group say nothing about which trajectory was better.

    Judged by the range of the raw rewards: a computed standard deviation of equal numbers is rarely 0
    (`np.std([0.1] * 12)` is 1.4e-17), and a mean in some range says nothing about contrast. None = unscored, left out;
    fewer than two scored rewards have no contrast.

    Example:
        >>> has_zero_variance([0.3] * 8), has_zero_variance([0.0, None, 1.0]), has_zero_variance([1.0, None])
        (True, False, True)
    """
    scored = [reward for reward in rewards if reward is not None]
    return len(scored) < 2 or max(scored) - min(scored) <= tol


def group_advantages(
    rewards: Sequence[float | None],
    *,
    statistics: Sequence[float | None] | None = None,
    baseline: Baseline = "mean",
    scale: Scale = "std",
    eps: float = 1e-4,
    zero_variance_tol: float = 1e-6,
) -> tuple[float, ...]:
    """[G] advantages of the trajectories of one task.

    Baseline and scale are taken over `statistics`: [n] rewards of which the [G] `rewards` are a part; None = `rewards`
    themselves. An unscored trajectory (None) gets 0.0, and the caller leaves it out of the loss: a failed judgment is
    no evidence. All get 0.0 where `statistics` has no contrast.

    Example:
        >>> [round(value, 3) for value in group_advantages([0.0, 1.0, None])]
        [-0.707, 0.707, 0.0]
    """
    reference = rewards if statistics is None else statistics
    if has_zero_variance(reference, tol=zero_variance_tol):
        return (0.0,) * len(rewards)
    # float64: rewards are few, and equal rewards must give advantages that are exactly equal and sum to 0.
    scored = torch.tensor([reward for reward in reference if reward is not None], dtype=torch.float64)
    divisor = float(scored.std(correction=1)) + eps if scale == "std" else 1.0
    total, num_scored = float(scored.sum()), len(scored)

    def advantage(reward: float) -> float:
        centre = total / num_scored if baseline == "mean" else (total - reward) / (num_scored - 1)
        return (reward - centre) / divisor

    return tuple(0.0 if reward is None else advantage(reward) for reward in rewards)
