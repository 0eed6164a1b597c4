"""Whether calls are well formed and fit the schema of their tool."""

from __future__ import annotations

from typing import final

from streakline.environment.json_schema import argument_errors
from streakline.rewards.base import RewardTerm
from streakline.rewards.executed import visible_tools
from streakline.types import Task, ToolCall, ToolSchema, Trajectory


@final
class CallFormat(RewardTerm):
    """Share of the attempted calls that could be read and whose arguments fit the schema of a tool in sight."""

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory; None where nothing was attempted."""
        malformed = sum(turn.malformed_calls for turn in trajectory.turns)
        fits = [
            _fits(call, visible_tools(task, turn.user_turn).get(call.name))
            for turn in trajectory.turns
            for call in turn.message.tool_calls
        ]
        attempted = malformed + len(fits)
        return sum(fits) / attempted if attempted else None


def _fits(call: ToolCall, schema: ToolSchema | None) -> bool:
    return schema is not None and not argument_errors(call.arguments, parameters=schema.parameters)
