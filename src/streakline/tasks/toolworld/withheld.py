"""Requests whose tool is not there: the policy must say so and call nothing, until it is there."""

from __future__ import annotations

import random

from streakline.tasks.toolworld.files import FILE_KINDS
from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, replace_first_turn
from streakline.tasks.toolworld.tickets import TICKET_KINDS
from streakline.tasks.toolworld.trading import TRADING_KINDS
from streakline.tasks.toolworld.values import SPLITS, Split, Values, split_of
from streakline.tasks.toolworld.vehicle import VEHICLE_KINDS
from streakline.types import JSON, Task, ToolSchema

__all__ = ["REFUSAL", "WITHHELD_KINDS", "call_another_tool"]

REFUSAL = "I can't do that."
"""Closing text where the tool is missing."""

_ASKED = tuple(kind for kind in (*FILE_KINDS, *TICKET_KINDS, *VEHICLE_KINDS, *TRADING_KINDS) if kind.follows)
"""Kinds of one call, whose very requests are asked here without their tool."""


def _asked(values: Values, split: Split) -> tuple[Draft, str]:
    """A request of another kind, and its words."""
    kind = values.pick(_ASKED)
    draft = kind.draft(values, split)
    return draft, values.pick(kind.phrases[split]).format(**draft.values)


def _missing_tool(values: Values, split: Split) -> Draft:
    asked, text = _asked(values, split)
    return Draft(
        gold=((),),
        state=asked.state,
        replies=(REFUSAL,),
        withheld=asked.gold[0][0][0].name,
        texts=(text,),
    )


def _late_tool(values: Values, split: Split) -> Draft:
    asked, text = _asked(values, split)
    tool = asked.gold[0][0][0].name
    reveal = values.pick(_REVEALS[split]).format(tool=tool)
    return Draft(
        gold=((), *asked.gold),
        state=asked.state,
        replies=(REFUSAL, "Done."),
        withheld=tool,
        revealed=True,
        texts=(text, reveal),
    )


def call_another_tool(task: Task, rng: random.Random) -> Plan:
    """Plan that calls some other tool in the first user turn, with made-up arguments."""
    fewest = min(task.tools, key=lambda schema: len(_required(schema)))
    values = Values(rng, split=split_of(task))
    arguments = {name: _made_up(fewest, name, values) for name in _required(fewest)}
    return replace_first_turn(task, ((call(fewest.name, **arguments),),))


def _required(schema: ToolSchema) -> list[str]:
    required = schema.parameters.get("required", [])
    assert isinstance(required, list)
    return [str(name) for name in required]


def _made_up(schema: ToolSchema, parameter: str, values: Values) -> JSON:
    properties = schema.parameters["properties"]
    assert isinstance(properties, dict)
    description = properties[parameter]
    assert isinstance(description, dict)
    if description["type"] in {"integer", "number"}:
        return values.digits(3)
    empty: dict[str, JSON] = {"boolean": True, "array": [], "object": {}}
    return empty.get(str(description["type"])) if description["type"] in empty else values.word()


_REVEALS = {
    "base": (
        "The tool {tool} is here, use it.",
        "Now {tool} is in the list of tools.",
        "Use the tool {tool} for that.",
    ),
    "train": (
        "You can use {tool} now.",
        "Now you have {tool}.",
        "I gave you {tool}, go on.",
        "Please go on with {tool}.",
    ),
    "validation": ("Now you can use {tool}.", "I gave you {tool}, please go on."),
    "test": ("You have {tool} now, go on.", "Go on with {tool} now.", "I gave you {tool}, you can use it now."),
}


def _habit() -> Habit:
    return Habit(
        name="calls_another_tool",
        description="calls some other tool in place of saying that it can't be done",
        share=0.5,
        apply=call_another_tool,
    )


WITHHELD_KINDS = (
    Kind(
        name="missing_tool",
        simulators=(),
        draft=_missing_tool,
        habit=_habit(),
        phrases={split: tuple(phrase for kind in _ASKED for phrase in kind.phrases[split]) for split in SPLITS},
    ),
    Kind(
        name="late_tool",
        simulators=(),
        draft=_late_tool,
        habit=_habit(),
        user_turns=(2,),
        phrases=_REVEALS,
    ),
)
