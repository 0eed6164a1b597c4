"""Whether the policy thought before it acted, and stopped thinking."""

from __future__ import annotations

from typing import final

from streakline.rewards.base import RewardTerm
from streakline.types import Task, Trajectory


@final
class ClosedThinking(RewardTerm):
    """Share of the turns with thinking that is not empty and that the policy closed itself (paper B, 15%)."""

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory; None where there is no turn."""
        closed = [bool(turn.message.thinking.strip()) and not turn.closed_thinking for turn in trajectory.turns]
        return sum(closed) / len(closed) if closed else None
