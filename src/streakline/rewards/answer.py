"""Whether the policy said something of its own in the end."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, final

from streakline.rewards.base import RewardTerm
from streakline.types import Task, Termination, Trajectory, Turn

_LONG: Final = 40
"""Characters from which equal words are no coincidence."""
_MOST: Final = 0.8
"""Share of a text that makes it a copy, so that a lead-in does not hide it."""


@final
class NonEmptyAnswer(RewardTerm):
    """Share of the user turns that end with a text of the policy's own (paper B, 25% of its process reward).

    White space is no text, and what comes beside a call is no answer. A user turn that was not reached has none. Nor is
    a copy a text of its own (our addition, since the paper's rewards can be had by copying): see `is_copy`.
    """

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory."""
        last = {turn.user_turn: turn for turn in trajectory.turns}
        if trajectory.termination is not Termination.ANSWER:
            last.pop(max(last, default=0), None)
        answered = [turn for turn in last.values() if _is_answer(turn) and not is_copy(turn, task, trajectory)]
        return len(answered) / len(task.requests)


def is_copy(turn: Turn, task: Task, trajectory: Trajectory) -> bool:
    """Whether most of a turn's text is a raw result, a request or a thought, or all of it stands in the instructions.

    A result counts where it is a JSON object or list: what a tool said in words can be the right answer. Other texts
    count from 40 characters on.
    """
    answer = _flat(turn.message.content)
    results = [result.content for each in trajectory.turns for result in each.results]
    raw = [text for text in results if _structure(text)]
    if _structure(answer) and _structure(answer) in map(_structure, raw):
        return True
    if any(_covers(_flat(text), answer) for text in raw):
        return True
    said = [message.content for request in task.requests for message in request]
    thoughts = [each.message.thinking for each in trajectory.turns]
    if any(_covers(text, answer) for text in _long([*said, *thoughts])):
        return True
    instructions = _long([task.system, *(tool.description for tool in task.visible_tools(turn.user_turn).values())])
    return any(_covers(text, answer) or (len(answer) >= _LONG and answer in text) for text in instructions)


def _is_answer(turn: Turn) -> bool:
    return bool(turn.message.content.strip()) and not turn.message.tool_calls and not turn.malformed_calls


def _covers(source: str, text: str) -> bool:
    """Whether one of both holds the other and little else."""
    short, long = sorted((source, text), key=len)
    return short in long and len(short) >= _MOST * len(long)


def _long(texts: Iterable[str]) -> list[str]:
    return [flat for text in texts if len(flat := _flat(text)) >= _LONG]


def _flat(text: str) -> str:
    return " ".join(text.split())


def _structure(text: str) -> str:
    """A JSON object or list, inside a fence or not, in one form; empty = none, or an empty one."""
    bare = text.strip().removeprefix("```json").strip("`").strip()
    if bare[:1] not in ("{", "["):
        return ""
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError):
        return ""
    return json.dumps(value, sort_keys=True) if value else ""
