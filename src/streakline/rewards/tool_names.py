"""Whether the tools that were called exist."""

from __future__ import annotations

from typing import final

from streakline.rewards.base import RewardTerm
from streakline.rewards.executed import calls_in_sight
from streakline.types import Task, Trajectory


@final
class ValidToolNames(RewardTerm):
    """Share of the calls that name a tool which the policy could see (paper B, 40% of its process reward)."""

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory; None where nothing was called."""
        known = [call.name in visible for call, visible in calls_in_sight(task, trajectory)]
        return sum(known) / len(known) if known else None
