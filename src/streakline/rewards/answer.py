"""Whether the policy said something in the end."""

from __future__ import annotations

from typing import final

from streakline.rewards.base import RewardTerm
from streakline.types import Task, Termination, Trajectory


@final
class NonEmptyAnswer(RewardTerm):
    """Share of the user turns that end with a text of the policy's own (paper B, 25% of its process reward).

    White space is no text, and what comes beside a call is no answer. A user turn that was not reached has none.
    """

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory."""
        last = {turn.user_turn: turn for turn in trajectory.turns}
        if trajectory.termination is not Termination.ANSWER:
            last.pop(max(last, default=0), None)
        answered = [
            turn
            for turn in last.values()
            if turn.message.content.strip() and not turn.message.tool_calls and not turn.malformed_calls
        ]
        return len(answered) / len(task.requests)
