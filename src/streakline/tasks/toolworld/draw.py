"""One task: a request of some kind, the easy ones that follow it, and the tools that are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from streakline.tasks.toolworld.catalogue import (
    TOOLWORLD_SIMULATORS,
    SchemaLength,
    simulator_of,
    tool_catalogue,
    tools_of,
)
from streakline.tasks.toolworld.kinds import Draft, Kind, Plan
from streakline.tasks.toolworld.requests import easy_kinds
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON, Message, Role, Task

Distractors: TypeAlias = "int | Literal['simulators']"


def draw_task(
    task_id: str,
    *,
    kind: Kind,
    values: Values,
    user_turns: Sequence[int],
    distractors: Distractors,
    schema: SchemaLength,
) -> Task:
    """Draw a request of a kind and, up to one of the numbers of user turns, others that may follow it.

    Where no number is large enough for the kind, the task has as many user turns as the kind takes.
    """
    first = _worded(kind, values)
    drafts = [first]
    easy = easy_kinds()
    followers = [other for other in easy if other.simulator == kind.simulator] or easy
    wanted = values.pick([turns for turns in user_turns if turns >= len(first.gold)] or user_turns)
    while sum(len(draft.gold) for draft in drafts) < wanted:
        further = _worded(values.pick(followers), values)
        if first.revealed or first.withheld not in _called([further]):
            drafts.append(further)
    gold = tuple(steps for draft in drafts for steps in draft.gold)
    shown = _choose_tools(drafts, values, distractors=distractors)
    catalogue = tool_catalogue(schema)
    owners = {simulator_of(name) for name in (*shown, *_called(drafts))}
    return Task(
        id=task_id,
        source="toolworld",
        kind=kind.name,
        tools=tuple(catalogue[name] for name in shown),
        requests=tuple((Message(role=Role.USER, content=text),) for draft in drafts for text in draft.texts),
        revealed_tools={1: (catalogue[first.withheld],)} if first.revealed else {},
        simulators=tuple(name for name in TOOLWORLD_SIMULATORS if name in owners),
        initial_state=_merged(draft.state for draft in drafts),
        gold=gold,
        replies=tuple(reply for draft in drafts for reply in draft.replies or ("Done.",) * len(draft.gold)),
        level=level_of(gold),
    )


def level_of(gold: Plan) -> int:
    """Number of calls, at most 4, where a user turn without any counts as one."""
    return min(4, sum(max(1, sum(map(len, steps))) for steps in gold))


def _worded(kind: Kind, values: Values) -> Draft:
    """A draft of the kind, with its texts."""
    draft = kind.draft(values)
    return replace(draft, texts=kind.wording(draft, values))


def _called(drafts: Iterable[Draft]) -> list[str]:
    return [call.name for draft in drafts for steps in draft.gold for calls in steps for call in calls]


def _choose_tools(drafts: Sequence[Draft], values: Values, *, distractors: Distractors) -> list[str]:
    """Names of the tools shown from the start, shuffled. There is at least one, also where it must be withheld."""
    withheld = drafts[0].withheld
    needed = [name for name in dict.fromkeys(_called(drafts)) if name != withheld]
    near_simulators = dict.fromkeys(simulator_of(name) for name in (*needed, *([withheld] if withheld else [])))
    taken = {*needed, withheld}
    near = [name for simulator in near_simulators for name in tools_of(simulator) if name not in taken]
    if distractors == "simulators":
        chosen = near
    else:
        count = max(distractors, 1 if withheld else 0)
        chosen = values.rng.sample(near, min(len(near), (count + 1) // 2))
        taken.update(chosen)
        far = [name for name in tool_catalogue("short") if name not in taken]
        chosen += values.rng.sample(far, min(len(far), count - len(chosen)))
    shown = needed + chosen
    values.rng.shuffle(shown)
    return shown


def _merged(states: Iterable[Mapping[str, JSON]]) -> dict[str, JSON]:
    """Scenarios of several drafts as one: objects are merged, lists joined, and of other values the first is kept."""
    merged: dict[str, JSON] = {}
    for state in states:
        for key, value in state.items():
            old = merged.get(key)
            if isinstance(old, dict) and isinstance(value, dict):
                merged[key] = _merged((old, value))
            elif isinstance(old, list) and isinstance(value, list):
                merged[key] = old + value
            else:
                merged.setdefault(key, value)
    return merged
