"""Which calls of an episode really ran, the ones that graders execute again, and which tools were in sight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streakline.types import Task, ToolCall, ToolSchema, Trajectory


def executed_calls(trajectory: Trajectory, *, num_user_turns: int) -> tuple[tuple[tuple[ToolCall, ...], ...], ...]:
    """[user turns][assistant turns that called something][calls] that got a result, in order.

    Calls of a turn without results never ran: a cap ended the episode first.
    """
    steps: list[list[tuple[ToolCall, ...]]] = [[] for _ in range(num_user_turns)]
    for turn in trajectory.turns:
        calls = turn.message.tool_calls[: len(turn.results)]
        if calls and turn.user_turn < num_user_turns:
            steps[turn.user_turn].append(calls)
    return tuple(tuple(user_turn) for user_turn in steps)


def calls_in_sight(task: Task, trajectory: Trajectory) -> Iterator[tuple[ToolCall, Mapping[str, ToolSchema]]]:
    """All calls that could be read, run or not, each with the tools that were in sight, by name."""
    for turn in trajectory.turns:
        if turn.message.tool_calls:
            visible = task.visible_tools(turn.user_turn)
            yield from ((call, visible) for call in turn.message.tool_calls)
