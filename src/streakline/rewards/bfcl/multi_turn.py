"""The calls of an episode against the gold calls: each set runs in a fresh world, then states and responses compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from streakline.environment.live import call_fault
from streakline.environment.replay import TurnOutcome, gold_outcomes, replay_turns
from streakline.rewards.bfcl.coercion import Mode
from streakline.types import Task, ToolCall


def follows_gold(task: Task, steps: Sequence[Sequence[Sequence[ToolCall]]], *, mode: Mode) -> bool:
    """Whether [user turns][assistant turns][calls] do what the gold calls do, in every user turn that has some.

    After such a user turn something was called in it, the state equals the gold's, and the responses to its gold calls
    are among all responses so far. An error is a response to nothing. In `strict` nothing may be called in the other
    user turns, and no call may be one that the environment refuses.
    """
    calls = [[call for step in user_turn for call in step] for user_turn in steps]
    outcomes = replay_turns(task, calls, timeout_s=None)
    seen: Counter[str] = Counter()
    for index, (made, gold, outcome) in enumerate(zip(calls, gold_outcomes(task), outcomes, strict=True)):
        seen.update(result.content for result in outcome.results if not result.is_error)
        if mode == "strict" and ((made and not gold.results) or _has_refused(task, index, made, outcome)):
            return False
        needed = Counter(result.content for result in gold.results)
        if needed and not (made and needed <= seen and outcome.state == gold.state):
            return False
    return True


def _has_refused(task: Task, index: int, calls: Sequence[ToolCall], outcome: TurnOutcome) -> bool:
    failed = [call for call, result in zip(calls, outcome.results, strict=True) if result.is_error]
    visible = task.visible_tools(index) if failed else {}
    return any(call_fault(call, visible=visible) for call in failed)
