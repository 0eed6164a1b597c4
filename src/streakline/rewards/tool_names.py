"""Whether the tools that were called exist."""

from __future__ import annotations

from typing import final

from streakline.rewards.base import RewardTerm
from streakline.rewards.executed import calls_in_sight
from streakline.types import Task, Trajectory


@final
class ValidToolNames(RewardTerm):
    """Share of the calls that name a tool which the policy could see (paper B, 40% of its process reward).

    Args:
        no_call: Score where nothing was called, so that calling nothing is no way to a good process; None = the term
            then leaves the mean.
    """

    def __init__(self, *, no_call: float | None = 0.0) -> None:
        self._no_call = no_call

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory."""
        known = [call.name in visible for call, visible in calls_in_sight(task, trajectory)]
        return sum(known) / len(known) if known else self._no_call
