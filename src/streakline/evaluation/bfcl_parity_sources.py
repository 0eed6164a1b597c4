"""Multi-turn answers as the Python source that BFCL's checker evaluates: for answers of our own making alone."""

from __future__ import annotations

from collections.abc import Sequence

from streakline.rewards.bfcl.upstream import NO_TOOL, check_sources, is_refused
from streakline.types import Task, ToolCall


def literal_source(steps: Sequence[Sequence[Sequence[ToolCall]]]) -> list[list[list[str]]]:
    """[user turns][assistant turns][calls] as `name(argument=value)`: every call, whatever it is."""
    return [[[_call_source(call) for call in step] for step in user_turn] for user_turn in steps]


def effect_free_source(task: Task, steps: Sequence[Sequence[Sequence[ToolCall]]]) -> list[list[list[str]]]:
    """The same, but each call that the environment refuses has no effect. The others stay to the letter."""
    source = literal_source(steps)
    for index, (user_turn, written) in enumerate(zip(steps, source, strict=True)):
        visible = task.visible_tools(index)
        for calls, texts in zip(user_turn, written, strict=True):
            texts[:] = [NO_TOOL if is_refused(call, visible) else text for call, text in zip(calls, texts, strict=True)]
    return source


def upstream_verdicts(task: Task, *answers: list[list[list[str]]], as_read: bool = False) -> list[bool]:
    """BFCL's verdicts on the sources of answers, one after the other in the worlds that it keeps.

    Nothing stands between them and its checker, and the gold calls are written as it has them.
    """
    gold = [[text for step in user_turn for text in step] for user_turn in literal_source(task.gold)]
    return check_sources(task, answers, gold=gold, as_read=as_read)


def _call_source(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"
