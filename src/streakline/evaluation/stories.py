"""One task before and after training, told so that a newcomer sees what was learned."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streakline.evaluation.by_kind import KindChange
from streakline.evaluation.quickstart_report import Corruption
from streakline.types import Message, Role, Task, ToolCall

_WIDTH = 100
_MAX_TEXT = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One finished episode, as far as a reader needs it."""

    task_id: str
    """Task that was attempted."""
    messages: tuple[Message, ...]
    """The whole conversation."""
    success: bool
    """Whether the outcome was right."""


def choose_stories(
    before: Mapping[str, Episode],
    after: Mapping[str, Episode],
    *,
    kinds: Mapping[str, str],
    changes: Sequence[KindChange] = (),
    count: int = 2,
) -> tuple[str, ...]:
    """Pick tasks that went from wrong to right, of different kinds where there are enough.

    Kinds that rose most come first (without `changes` by name), and within a kind the shortest conversations.
    """
    rise = {change.kind: change.difference for change in changes}
    mended = [task for task in before if task in after and after[task].success and not before[task].success]
    mended.sort(key=lambda task: (len(after[task].messages) + len(before[task].messages), task))
    by_kind: dict[str, list[str]] = {}
    for task in mended:
        by_kind.setdefault(kinds[task], []).append(task)
    ranked = sorted(by_kind, key=lambda kind: (-rise.get(kind, 0.0), kind))
    rounds = max(map(len, by_kind.values()), default=0)
    picked = [by_kind[kind][index] for index in range(rounds) for kind in ranked if index < len(by_kind[kind])]
    return tuple(picked[:count])


def tell_story(task: Task, *, before: Episode, after: Episode, corruption: Corruption | None = None) -> str:
    """Tell one task: what was asked, what was done before and after, and what made the difference.

    `corruption` is what the demonstrations of the kind get wrong on purpose; None = nothing.
    """
    lines = [f"{task.kind} ({task.id})"]
    lines += [f'  asked: "{_text(request)}"' for request in task.requests]
    lines += ["  before GRPO:", *_episode_lines(before.messages)]
    lines += [f"    WRONG: {sentence}" for sentence in describe_mistake(task, before.messages)]
    lines += ["  after GRPO:", *_episode_lines(after.messages)]
    lines.append("    RIGHT: the world ends as it was asked to, and what had to be looked up was.")
    if corruption is not None and corruption.share:
        lines += textwrap.wrap(
            f"why: {corruption.share:.0%} of the demonstrations of this kind show an agent that "
            f"{corruption.description}. The reward only looks at the outcome, so trying both ways showed which one "
            "works.",
            width=_WIDTH,
            initial_indent="  ",
            subsequent_indent="  ",
        )
    return "\n".join(lines)


def describe_mistake(task: Task, messages: Sequence[Message]) -> tuple[str, ...]:
    """Say where the calls of an episode differ from the gold ones: one to three sentences."""
    made = _calls_by_user_turn(messages, num_user_turns=len(task.requests))
    sentences: list[str] = []
    for index, calls in enumerate(made):
        gold = [call for step in task.gold[index] for call in step] if task.gold else []
        sentences += _differences(calls, gold)
    return tuple(sentences[:3]) or ("it made the right calls, in an order that led elsewhere.",)


def _differences(calls: Sequence[ToolCall], gold: Sequence[ToolCall]) -> list[str]:
    if not gold:
        return [f"it called {_signature(calls[0])}, where it should have said that it can't."] if calls else []
    missing, extra = _without(gold, calls), _without(calls, gold)
    sentences = []
    for call in missing:
        stand_in = next((other for other in extra if other.name == call.name), None)
        if stand_in is None:
            sentences.append(f"it never called {_signature(call)}.")
        else:
            extra.remove(stand_in)
            sentences.append(f"it called {_signature(stand_in)} where {_signature(call)} was right.")
    return sentences + [f"it called {_signature(call)}, which was not asked for." for call in extra]


def _without(calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> list[ToolCall]:
    """`calls` less one for each equal call among `others`; of equal calls the later ones are left."""
    spare = Counter(map(_signature, others))
    left = []
    for call in calls:
        if spare[_signature(call)]:
            spare[_signature(call)] -= 1
        else:
            left.append(call)
    return left


def _calls_by_user_turn(messages: Sequence[Message], *, num_user_turns: int) -> list[list[ToolCall]]:
    turns: list[list[ToolCall]] = [[] for _ in range(num_user_turns)]
    index = -1
    for message in messages:
        if message.role is Role.USER:
            index = min(index + 1, num_user_turns - 1)
        elif index >= 0:
            turns[index] += message.tool_calls
    return turns


def _episode_lines(messages: Sequence[Message]) -> list[str]:
    lines = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            lines += [f"    calls {_signature(call)}" for call in message.tool_calls]
            if message.content:
                lines.append(f'    says "{_shorten(message.content)}"')
        elif message.role is Role.TOOL:
            lines.append(f"      -> {_shorten(message.content)}")
    return lines


def _signature(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(call.arguments.items()))
    return f"{call.name}({arguments})"


def _text(request: Sequence[Message]) -> str:
    return _shorten(" ".join(message.content for message in request if message.role is Role.USER))


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_TEXT else f"{flat[: _MAX_TEXT - 4]} ..."
