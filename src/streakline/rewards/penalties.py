"""Deductions for calls that lead nowhere."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import final

from streakline.environment.live import call_fault
from streakline.rewards.base import RewardTerm
from streakline.rewards.executed import visible_tools
from streakline.types import Task, ToolCall, Trajectory


@final
class RepeatedCalls(RewardTerm):
    """Minus the share of calls that repeat the call before them, results included: 0 = none does, at least -1."""

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Deduction of one trajectory."""
        ran = [
            (_identity(call), result.content)
            for turn in trajectory.turns
            for call, result in zip(turn.message.tool_calls, turn.results, strict=False)
        ]
        repeated = sum(one == before for before, one in pairwise(ran))
        return -repeated / len(ran) if ran else 0.0


@final
class InvalidCalls(RewardTerm):
    """Minus the share of attempted calls that could not be read, or might not run: unknown tools, wrong arguments."""

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Deduction of one trajectory."""
        malformed = sum(turn.malformed_calls for turn in trajectory.turns)
        faults = [
            bool(call_fault(call, visible=visible_tools(task, turn.user_turn)))
            for turn in trajectory.turns
            for call in turn.message.tool_calls
        ]
        attempted = malformed + len(faults)
        return -(malformed + sum(faults)) / attempted if attempted else 0.0


def _identity(call: ToolCall) -> str:
    return json.dumps([call.name, dict(call.arguments)], sort_keys=True)
