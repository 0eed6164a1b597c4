"""How many different tools were used."""

from __future__ import annotations

from typing import final

from streakline.rewards.base import RewardTerm
from streakline.rewards.executed import calls_in_sight
from streakline.types import Task, Trajectory


@final
class ToolDiversity(RewardTerm):
    """Different tools over calls (paper B, 10% of its process reward): 1 where no tool was called twice.

    Names that no tool has count as calls, not as tools, so that made-up names are no way to be diverse.
    """

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory; None where nothing was called."""
        used = {call.name for call, visible in calls_in_sight(task, trajectory) if call.name in visible}
        return len(used) / len(trajectory.calls) if trajectory.calls else None
