"""What a batch of rollouts looked like: rewards, contrast inside groups, lengths, and why episodes ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import torch
from torchmetrics import Metric

from streakline.algorithms.advantages import has_zero_variance
from streakline.types import Group, Termination, Trajectory

_SUMS = (
    "trajectories",
    "scored",
    "reward",
    "judged",
    "success",
    "turns",
    "calls",
    "failed_calls",
    "tokens",
    "sampled_tokens",
    "closed_thinking",
    "groups",
    "zero_variance",
    "all_correct",
    "all_wrong",
)


@final
class RolloutMetrics(Metric):
    """Means over trajectories and shares of groups.

    Values after `compute`: `reward` over scored trajectories and `success` over those whose success could be judged
    (`Group.success_scores`), `unscored` share; the number of `trajectories`, and for each of them `turns`, `calls`,
    `tokens` (of all samples) and `sampled_tokens` (those the policy wrote and can be trained on); `failed_calls` share
    of calls; `closed_thinking`, the number of turns whose thinking was closed for the policy; share of groups with
    `zero_variance`, `all_correct`, `all_wrong`; and `termination/<reason>` shares that sum to 1; and the mean of each
    reward term (`reward_term/<name>`) over the trajectories in which it could be scored. A mean over nothing is nan.
    """

    full_state_update = False

    sums: torch.Tensor
    terminations: torch.Tensor
    terms: torch.Tensor

    def __init__(
        self, *, success_threshold: float = 1.0, zero_variance_tol: float = 1e-6, terms: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self._terms = tuple(terms)
        self._threshold = success_threshold
        self._tol = zero_variance_tol
        # float64: a float32 sum of tokens stops counting at 16 million.
        self.add_state("sums", torch.zeros(len(_SUMS), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("terminations", torch.zeros(len(Termination), dtype=torch.float64), dist_reduce_fx="sum")

        self.add_state("terms", torch.zeros(len(self._terms), 2, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, groups: Sequence[Group]) -> None:
        """Add groups as they were sampled, before any selection."""
        for group in groups:
            right = [None if score is None else score >= self._threshold for score in group.success_scores]
            self._add(
                groups=1,
                zero_variance=has_zero_variance(group.all_rewards, tol=self._tol),
                all_correct=all(right),
                all_wrong=all(one is False for one in right),
            )
            self._add(judged=sum(one is not None for one in right), success=sum(one is True for one in right))
            for trajectory in group.trajectories:
                self._add_trajectory(trajectory)

    def compute(self) -> dict[str, float]:
        """Means and shares by name. See the class."""
        sums: dict[str, float] = dict(zip(_SUMS, self.sums.tolist(), strict=True))

        def share(name: str, *, of: str) -> float:
            return sums[name] / sums[of] if sums[of] else math.nan

        return {
            "reward": share("reward", of="scored"),
            "success": share("success", of="judged"),
            "trajectories": sums["trajectories"],
            "closed_thinking": sums["closed_thinking"],
            "unscored": 1.0 - share("scored", of="trajectories"),
            "failed_calls": sums["failed_calls"] / max(sums["calls"], 1.0),
            **{name: share(name, of="trajectories") for name in ("turns", "calls", "tokens", "sampled_tokens")},
            **{name: share(name, of="groups") for name in ("zero_variance", "all_correct", "all_wrong")},
            **{
                f"termination/{reason.value}": count / sums["trajectories"] if sums["trajectories"] else math.nan
                for reason, count in zip(Termination, self.terminations.tolist(), strict=True)
            },
            **{
                f"reward_term/{name}": total / count if count else math.nan
                for name, (total, count) in zip(self._terms, self.terms.tolist(), strict=True)
            },
        }

    def _add_trajectory(self, trajectory: Trajectory) -> None:
        reward = trajectory.reward
        results = [result for turn in trajectory.turns for result in turn.results]
        self._add(
            trajectories=1,
            scored=reward is not None,
            reward=reward or 0.0,
            turns=len(trajectory.turns),
            calls=len(results),
            failed_calls=sum(result.is_error for result in results),
            tokens=sum(len(sample.token_ids) for sample in trajectory.samples),
            sampled_tokens=trajectory.num_trained_tokens,
            closed_thinking=sum(turn.closed_thinking for turn in trajectory.turns),
        )
        self.terminations[list(Termination).index(trajectory.termination)] += 1
        for place, name in enumerate(self._terms):
            score = trajectory.reward_terms.get(name)
            if score is not None:
                self.terms[place] += torch.tensor([score, 1.0], dtype=torch.float64, device=self.terms.device)

    def _add(self, **parts: float) -> None:
        for name, part in parts.items():
            self.sums[_SUMS.index(name)] += part
