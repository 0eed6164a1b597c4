"""Answers near the right ones: BFCL's gold calls with one change each, drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import TypeAlias

from streakline.tasks.bfcl_source import MULTI_TURN
from streakline.types import JSON, Task, ToolCall

Steps: TypeAlias = list[list[list[ToolCall]]]
"""[user turns][assistant turns][calls]"""
Change: TypeAlias = Callable[[Steps, Task, Random], object]
"""Changes the steps in place."""


def gold_steps(task: Task) -> Steps:
    """Gold calls; where none are known (relevance), one call of the first tool."""
    if not task.gold:
        return [[[ToolCall(name=task.tools[0].name)]]]
    return [[list(calls) for calls in user_turn] for user_turn in task.gold]


def mutants(task: Task, *, count: int, seed: int) -> list[tuple[str, Steps]]:
    """Draw up to `count` changed answers to a task, each with the name of its change, no two of them alike.

    Where nothing is to be called there are fewer, since there is little to change. The same for the same seed and task.
    """
    rng = Random(f"{seed} {task.id}")
    changes = MULTI_TURN_CHANGES if task.kind in MULTI_TURN else SINGLE_TURN_CHANGES
    names = [name for name in changes for _ in range(_WEIGHTS.get(name, 1))]
    found = {repr(gold_steps(task)): ("", gold_steps(task))}  # as text, since 1, 1.0 and True are equal
    for draw in range(5 * count):
        if len(found) > count:
            break
        name = rng.choice(names)
        if draw == 0 and (task.kind in MULTI_TURN or len(task.answers) > 1):
            name = "integer raised" if task.kind in MULTI_TURN else "calls reversed"
        steps = gold_steps(task)
        changes[name](steps, task, rng)
        found.setdefault(repr(steps), (name, steps))
    return list(found.values())[1:]


def _call(steps: Steps, rng: Random) -> tuple[list[ToolCall], int]:
    """A random call, as its list and its place there; an empty list where there is none."""
    places = [(calls, place) for user_turn in steps for calls in user_turn for place in range(len(calls))]
    return rng.choice(places) if places else ([], 0)


def _any_call(task: Task, rng: Random) -> ToolCall:
    """A call of a random tool, with the right arguments of another one or with none."""
    tools = [*task.tools, *(tool for tools in task.revealed_tools.values() for tool in tools)]
    name = rng.choice(tools).name if tools else "any_tool"
    known = [call for user_turn in task.gold for calls in user_turn for call in calls]
    return replace(rng.choice(known), name=name) if known and rng.random() < 0.3 else ToolCall(name=name)


def _drop(steps: Steps, task: Task, rng: Random) -> None:
    calls, place = _call(steps, rng)
    del calls[place : place + 1]


def _double(steps: Steps, task: Task, rng: Random) -> None:
    calls, place = _call(steps, rng)
    calls[place:place] = calls[place : place + 1]


def _add(steps: Steps, task: Task, rng: Random) -> None:
    user_turn = rng.choice(steps)
    if task.kind in MULTI_TURN or not user_turn:
        user_turn.append([_any_call(task, rng)])
    else:
        user_turn[0].insert(rng.randint(0, len(user_turn[0])), _any_call(task, rng))


def _add_known(steps: Steps, task: Task, rng: Random) -> None:
    """A gold call once more, in a user turn of any."""
    calls, place = _call(steps, rng)
    rng.choice(steps).insert(0, calls[place : place + 1])


def _shuffle(steps: Steps, task: Task, rng: Random) -> None:
    for user_turn in steps:
        for calls in user_turn:
            rng.shuffle(calls)
        rng.shuffle(user_turn)


def _reverse(steps: Steps, task: Task, rng: Random) -> None:
    steps[0][0].reverse()


def _move(steps: Steps, task: Task, rng: Random) -> None:
    calls, place = _call(steps, rng)
    rng.choice(steps).append([calls.pop(place)]) if calls else None


def _skip(steps: Steps, task: Task, rng: Random) -> None:
    rng.choice(steps).clear()


def _join(steps: Steps, task: Task, rng: Random) -> None:
    """All calls of each user turn at once."""
    steps[:] = [[[call for calls in user_turn for call in calls]] for user_turn in steps]


def _rename(steps: Steps, task: Task, rng: Random) -> None:
    def rename(call: ToolCall) -> ToolCall:
        names = (rng.choice(task.tools).name, call.name + "_", call.name.upper(), call.name.replace(".", "_"), "")
        return replace(call, name=rng.choice(names))

    _edit(steps, rng, rename)


def _edit(steps: Steps, rng: Random, change: Callable[[ToolCall], ToolCall]) -> None:
    calls, place = _call(steps, rng)
    calls[place : place + 1] = map(change, calls[place : place + 1])


def _edit_arguments(steps: Steps, rng: Random, change: Callable[[dict[str, JSON]], object]) -> None:
    def edited(call: ToolCall) -> ToolCall:
        arguments = dict(call.arguments)
        change(arguments)
        return replace(call, arguments=arguments)

    _edit(steps, rng, edited)


def _drop_argument(steps: Steps, task: Task, rng: Random) -> None:
    _edit_arguments(steps, rng, lambda arguments: arguments and arguments.pop(rng.choice(list(arguments))))


def _rename_argument(steps: Steps, task: Task, rng: Random) -> None:
    def rename(arguments: dict[str, JSON]) -> None:
        if arguments:
            name = rng.choice(list(arguments))
            arguments[rng.choice((name.upper(), name + "s", "x"))] = arguments.pop(name)

    _edit_arguments(steps, rng, rename)


def _change_value(steps: Steps, task: Task, rng: Random) -> None:
    def change(arguments: dict[str, JSON]) -> None:
        if arguments:
            name = rng.choice(list(arguments))
            arguments[name] = changed(arguments[name], rng)

    _edit_arguments(steps, rng, change)


def _raise_integer(steps: Steps, task: Task, rng: Random) -> None:
    """Add 1 to the last whole number that is given."""
    for calls in (calls for user_turn in reversed(steps) for calls in reversed(user_turn)):
        for name, value in reversed(list(calls[0].arguments.items())):
            if type(value) is int:
                calls[0] = replace(calls[0], arguments={**calls[0].arguments, name: value + 1})
                return


def _accepted_value(steps: Steps, task: Task, rng: Random) -> None:
    """Give a parameter, set or not, another of its accepted values, or one that stands for nothing."""
    [(name, parameters)] = (rng.choice(task.answers) if task.answers else {"": {}}).items()
    if not isinstance(parameters, dict) or not parameters:
        return
    chosen = rng.choice(list(parameters))
    options = parameters[chosen]
    value = rng.choice([*(options if isinstance(options, list) else []), "", [], None, {}])
    place, call = next(((place, call) for place, call in enumerate(steps[0][0]) if call.name == name), (0, None))
    if call is not None:
        steps[0][0][place] = replace(call, arguments={**call.arguments, chosen: value})


SINGLE_TURN_CHANGES: Mapping[str, Change] = {
    "call dropped": _drop,
    "call doubled": _double,
    "call added": _add,
    "calls shuffled": _shuffle,
    "calls reversed": _reverse,
    "tool renamed": _rename,
    "argument dropped": _drop_argument,
    "argument renamed": _rename_argument,
    "accepted value": _accepted_value,
    "value changed": _change_value,
}

MULTI_TURN_CHANGES: Mapping[str, Change] = {
    "call dropped": _drop,
    "call doubled": _double,
    "call added": _add,
    "call repeated": _add_known,
    "calls shuffled": _shuffle,
    "call moved": _move,
    "user turn skipped": _skip,
    "calls joined": _join,
    "tool renamed": _rename,
    "argument dropped": _drop_argument,
    "value changed": _change_value,
    "integer raised": _raise_integer,
}

_WEIGHTS = {"value changed": 6, "accepted value": 2, "calls reversed": 0, "integer raised": 0}
"""How often a change is drawn; the others count 1. The last two come once, first, where they change something."""


def changed(value: JSON, rng: Random) -> JSON:
    """The value with one change, at a random depth."""
    if isinstance(value, list) and value and rng.random() < 0.6:
        place = rng.randrange(len(value))
        return [*value[:place], changed(value[place], rng), *value[place + 1 :]]
    if isinstance(value, dict) and value and rng.random() < 0.6:
        key = rng.choice(list(value))
        return {**value, key: changed(value[key], rng)}
    return rng.choice(_other_values(value, rng))


def _other_values(value: JSON, rng: Random) -> list[JSON]:
    if isinstance(value, bool):
        return [not value, int(value), str(value).lower(), None]
    if isinstance(value, int | float):
        whole = [int(value), bool(value)] if value == int(value) else [int(value)]
        return [float(value), float(value), *whole, value + 1, value * 1.001, -value, str(value), [value], None]
    if isinstance(value, str):
        return _other_texts(value, rng)
    if isinstance(value, list):
        floats: list[JSON] = [float(item) if type(item) is int else item for item in value]
        integers: list[JSON] = [int(item) if type(item) is float else item for item in value]
        return [value[::-1], value[:-1], [*value, *value[:1]], [value], [], json.dumps(value), floats, integers]
    if isinstance(value, dict):
        rest = dict(list(value.items())[1:])
        return [rest, {**value, "x": 1}, {**rest, "x": 1}, {}, [value], json.dumps(value)]
    return ["", 0, False, "null", []]


def _other_texts(text: str, rng: Random) -> list[JSON]:
    place = rng.randrange(len(text) + 1)
    inserted = text[:place] + rng.choice(" ,./-_*^'\"x;\n") + text[place:]
    looks = [text.upper(), text.lower(), text.title(), text.replace(" ", ""), text.replace('"', "'"), f" {text} "]
    literals = [json.dumps(text), text + rng.choice(("L", "f", "n", ".0")), text.strip("\"'"), _decoded(text)]
    cut = text[:place] + text[place + 1 :]
    return [*looks, *literals, inserted, inserted, cut, text[::-1], "", [text], {"x": text}, None]


def _decoded(text: str) -> JSON:
    """What the text is in JSON, or the text."""
    try:
        value: JSON = json.loads(text)
    except ValueError:
        return text
    return value
