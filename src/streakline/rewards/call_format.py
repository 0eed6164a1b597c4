"""Whether calls are well formed and may run."""

from __future__ import annotations

from typing import final

from streakline.environment.live import call_fault
from streakline.rewards.base import RewardTerm
from streakline.rewards.executed import calls_in_sight
from streakline.types import Task, Trajectory


@final
class CallFormat(RewardTerm):
    """Share of the attempted calls that could be read, and whose arguments fit the schema of a tool in sight.

    Args:
        no_call: Score where nothing was attempted, so that calling nothing is no way to a good process; None = the term
            then leaves the mean.
    """

    def __init__(self, *, no_call: float | None = 0.0) -> None:
        self._no_call = no_call

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory."""
        may_run = [not call_fault(call, visible=visible) for call, visible in calls_in_sight(task, trajectory)]
        attempted = len(may_run) + sum(turn.malformed_calls for turn in trajectory.turns)
        return sum(may_run) / attempted if attempted else self._no_call
