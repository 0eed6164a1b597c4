"""Deductions for calls that lead nowhere."""

from __future__ import annotations

from itertools import pairwise
from typing import final

from streakline.rewards.base import RewardTerm
from streakline.rewards.call_format import CallFormat
from streakline.rollout.tool_calls import call_identity
from streakline.types import Task, Trajectory


@final
class RepeatedCalls(RewardTerm):
    """Minus the share of calls that repeat the call before them, results included: 0 = none does, at least -1."""

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Deduction of one trajectory."""
        ran = [
            (call_identity(call), result.content)
            for turn in trajectory.turns
            for call, result in zip(turn.message.tool_calls, turn.results, strict=False)
        ]
        repeated = sum(one == before for before, one in pairwise(ran))
        return -repeated / len(ran) if ran else 0.0


@final
class InvalidCalls(RewardTerm):
    """Minus the share of attempted calls that could not be read, or might not run: what `CallFormat` leaves to 1."""

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Deduction of one trajectory."""
        share = CallFormat(no_call=None).score(task, trajectory)
        return 0.0 if share is None else share - 1.0
