"""Answers near the right ones: BFCL's gold calls with one change each, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import TypeAlias

from streakline.evaluation.bfcl_parity_accepted import (
    Steps,
    give_accepted,
    write_as_accepted,
    write_entries,
    write_otherwise,
)
from streakline.evaluation.bfcl_parity_values import changed
from streakline.tasks.bfcl_source import MULTI_TURN
from streakline.types import JSON, Task, ToolCall

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


def _read(steps: Steps, task: Task, rng: Random) -> None:
    """A call that changes nothing and that no user turn needs."""
    known = [READING[name] for name in task.simulators if name in READING]
    rng.choice(steps).insert(0, [rng.choice(known)]) if known else None


READING: Mapping[str, ToolCall] = {
    "GorillaFileSystem": ToolCall(name="pwd"),
    "MathAPI": ToolCall(name="add", arguments={"a": 1, "b": 2}),
    "MessageAPI": ToolCall(name="message_get_login_status"),
    "TicketAPI": ToolCall(name="ticket_get_login_status"),
    "TradingBot": ToolCall(name="trading_get_login_status"),
    "TravelAPI": ToolCall(name="travel_get_login_status"),
    "TwitterAPI": ToolCall(name="posting_get_login_status"),
    "VehicleControlAPI": ToolCall(name="displayCarStatus", arguments={"option": "fuel"}),
}
"""Simulator -> a call that leaves its state as it is."""


SINGLE_TURN_CHANGES: Mapping[str, Change] = {
    "call dropped": _drop,
    "call doubled": _double,
    "call added": _add,
    "calls shuffled": _shuffle,
    "calls reversed": _reverse,
    "tool renamed": _rename,
    "argument dropped": _drop_argument,
    "argument renamed": _rename_argument,
    "accepted value": give_accepted,
    "accepted value written otherwise": write_otherwise,
    "dictionary with all entries": partial(write_entries, emptied=False),
    "dictionary with emptied entries": partial(write_entries, emptied=True),
    "dictionary as accepted": write_as_accepted,
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
    "reading call added": _read,
}

_WEIGHTS = {
    "value changed": 6,
    "accepted value": 3,
    "accepted value written otherwise": 4,
    "reading call added": 4,
    "calls reversed": 0,
    "integer raised": 0,
}
"""How often a change is drawn; the others count 1. The last two come once, first, where they change something."""
