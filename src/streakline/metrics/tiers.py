"""Where the tool results of a batch of rollouts came from, for training on recorded ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

import torch
from torchmetrics import Metric

from streakline.types import Group, Tier

_TIERS = tuple(tier.value for tier in Tier)
_BINS = tuple(f"{low / 10}" for low in range(10))
_INEXACT = (Tier.FUZZY, Tier.BEST_EFFORT)


@final
class TierMetrics(Metric):
    """Shares of tool results and of trajectories by tier, and of inexact results by similarity.

    Values after `compute`: `tier/<tier>`, share of calls (a call that was refused before the look-up is `live`);
    `worst_tier/<tier>`, share of trajectories by the worst tier of any result (`live` where no tool was called);
    `similarity/<low>`, share of the results served from another call or state whose similarity is in [low, low + 0.1),
    of the last bin in [0.9, 1]; and `reward_by_tier/<tier>`, mean reward of the scored trajectories with this worst
    tier. A share or mean of nothing is nan.
    """

    full_state_update = False

    tiers: torch.Tensor
    worst_tiers: torch.Tensor
    similarities: torch.Tensor
    rewards: torch.Tensor
    scored: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, names in (
            ("tiers", _TIERS),
            ("worst_tiers", _TIERS),
            ("similarities", _BINS),
            ("rewards", _TIERS),
            ("scored", _TIERS),
        ):
            self.add_state(name, torch.zeros(len(names), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, groups: Sequence[Group]) -> None:
        """Add groups as they were sampled, before any selection."""
        trajectories = [trajectory for group in groups for trajectory in group.trajectories]
        results = [result for trajectory in trajectories for turn in trajectory.turns for result in turn.results]
        inexact = (result.similarity for result in results if result.tier in _INEXACT)
        self.tiers += self._counts((result.tier.rank for result in results), like=self.tiers)
        self.worst_tiers += self._counts((item.worst_tier.rank for item in trajectories), like=self.worst_tiers)
        self.similarities += self._counts((min(int(10 * value), 9) for value in inexact), like=self.similarities)

        for trajectory in trajectories:
            if trajectory.reward is not None:
                self.rewards[trajectory.worst_tier.rank] += trajectory.reward
                self.scored[trajectory.worst_tier.rank] += 1

    def compute(self) -> dict[str, float]:
        """Shares by name. See the class."""
        rewards = dict(zip(_TIERS, (self.rewards / self.scored).tolist(), strict=True))
        parts = (("tier", _TIERS, self.tiers), ("worst_tier", _TIERS, self.worst_tiers))
        return {f"reward_by_tier/{name}": mean for name, mean in rewards.items()} | {
            f"{kind}/{name}": share
            for kind, names, counts in (*parts, ("similarity", _BINS, self.similarities))
            for name, share in zip(names, (counts / counts.sum()).tolist(), strict=True)
        }

    @staticmethod
    def _counts(indices: Iterable[int], *, like: torch.Tensor) -> torch.Tensor:
        return torch.bincount(torch.tensor(list(indices), dtype=torch.int64), minlength=len(like)).to(like)
