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

    Args:
        no_call: Score where nothing was called, so that calling nothing is no way to a good process; None = the term
            then leaves the mean.
    """

    def __init__(self, *, no_call: float | None = 0.0) -> None:
        self._no_call = no_call

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory."""
        used = {call.name for call, visible in calls_in_sight(task, trajectory) if call.name in visible}
        return len(used) / len(trajectory.calls) if trajectory.calls else self._no_call
