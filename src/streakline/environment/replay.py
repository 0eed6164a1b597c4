"""Runs calls again in a fresh world, so that a grader sees what they do there, whatever the policy was shown."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streakline.environment.live import LiveEnvironment
from streakline.environment.simulators import state_digest
from streakline.types import JSON, Task, ToolCall, ToolResult

_KEPT_GOLD = 4096
_gold: OrderedDict[str, tuple[Task, tuple[TurnOutcome, ...]]] = OrderedDict()
"""Task id -> the task and what its gold calls lead to; least recently used first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """What the calls of one user turn led to."""

    state: dict[str, JSON]
    """Public state by simulator at the end of the user turn."""
    results: tuple[ToolResult, ...]
    """One result a call, in order; empty = no call was made."""


def replay(
    task: Task, calls_by_user_turn: Sequence[Sequence[ToolCall]], *, timeout_s: float | None = 5.0
) -> list[TurnOutcome]:
    """Execute [user turns][calls] in a fresh world of the task, each call in at most `timeout_s` (None = no limit)."""
    return list(replay_turns(task, calls_by_user_turn, timeout_s=timeout_s))


def replay_turns(
    task: Task, calls_by_user_turn: Sequence[Sequence[ToolCall]], *, timeout_s: float | None = 5.0
) -> Iterator[TurnOutcome]:
    """Do the same user turn by user turn, for one who may have seen enough before the last."""
    environment = LiveEnvironment(task, timeout_s=timeout_s)
    for index, calls in enumerate(calls_by_user_turn):
        environment.begin_user_turn(index)
        results = tuple(environment.execute(call) for call in calls)
        yield TurnOutcome(state=environment.state(), results=results)


def gold_outcomes(task: Task) -> tuple[TurnOutcome, ...]:
    """[user turns] what the task's gold calls lead to, executed once a task."""
    entry = _gold.get(task.id)
    if entry is not None and (entry[0] is task or entry[0] == task):
        _gold.move_to_end(task.id)
        return entry[1]
    calls = [[call for step in steps for call in step] for steps in task.gold]
    outcomes = tuple(replay(task, calls, timeout_s=None))
    _gold[task.id] = (task, outcomes)
    if len(_gold) > _KEPT_GOLD:
        _gold.popitem(last=False)
    return outcomes


def result_key(result: ToolResult) -> str:
    """Text under which two results count as the same: key order and 3 against 3.0 make no difference."""
    try:
        value = json.loads(result.content)
    except (ValueError, RecursionError):
        return result.content
    return state_digest({"": value})
