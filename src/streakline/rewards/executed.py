"""Which calls of an episode really ran, the ones that graders execute again, and which tools were in sight."""

from __future__ import annotations

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


def visible_tools(task: Task, user_turn: int) -> dict[str, ToolSchema]:
    """Tools that the policy sees in a 0-based user turn, by name."""
    revealed = (tool for turn, tools in task.revealed_tools.items() if turn <= user_turn for tool in tools)
    return {tool.name: tool for tool in (*task.tools, *revealed)}
