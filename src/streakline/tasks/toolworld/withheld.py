"""Requests whose tool is not there: the policy must say so and call nothing, until it is there."""

from __future__ import annotations

import random

from streakline.tasks.toolworld.files import FILE_KINDS
from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, replace_first_turn
from streakline.tasks.toolworld.phrases import PHRASES
from streakline.tasks.toolworld.tickets import TICKET_KINDS
from streakline.tasks.toolworld.trading import TRADING_KINDS
from streakline.tasks.toolworld.values import Values, split_of
from streakline.tasks.toolworld.vehicle import VEHICLE_KINDS
from streakline.types import JSON, Task, ToolSchema

__all__ = ["REFUSAL", "WITHHELD_KINDS", "call_another_tool", "required_arguments"]

REFUSAL = "I can't do that."
"""Closing text where the tool is missing."""

_ASKED = tuple(kind for kind in (*FILE_KINDS, *TICKET_KINDS, *VEHICLE_KINDS, *TRADING_KINDS) if kind.follows)
"""Kinds of one call, whose very requests are asked here without their tool."""


def _asked(values: Values) -> tuple[Draft, str]:
    """A request of another kind, and its words."""
    kind = values.pick(_ASKED)
    draft = kind.draft(values)
    return draft, kind.wording(draft, values)[0]


def _missing_tool(values: Values) -> Draft:
    asked, text = _asked(values)
    return Draft(
        gold=((),),
        state=asked.state,
        replies=(REFUSAL,),
        withheld=asked.gold[0][0][0].name,
        texts=(text,),
    )


def _late_tool(values: Values) -> Draft:
    asked, text = _asked(values)
    tool = asked.gold[0][0][0].name
    return Draft(
        gold=((), *asked.gold),
        state=asked.state,
        replies=(REFUSAL, "Done."),
        withheld=tool,
        revealed=True,
        texts=(text, values.pick(PHRASES["late_tool"][values.split]).format(tool=tool)),
    )


def call_another_tool(task: Task, rng: random.Random) -> Plan:
    """Plan that calls some other tool in the first user turn, with made-up arguments."""
    fewest = min(task.tools, key=lambda schema: len(required_arguments(schema)))
    values = Values(rng, split=split_of(task))
    arguments = {name: _made_up(fewest, name, values) for name in required_arguments(fewest)}
    return replace_first_turn(task, ((call(fewest.name, **arguments),),))


def required_arguments(schema: ToolSchema) -> list[str]:
    """Names of the arguments that a tool can't do without."""
    required = schema.parameters.get("required")
    return [str(name) for name in required] if isinstance(required, list) else []


def _made_up(schema: ToolSchema, parameter: str, values: Values) -> JSON:
    properties = schema.parameters["properties"]
    described = properties[parameter] if isinstance(properties, dict) else None
    kind = described["type"] if isinstance(described, dict) else ""
    if kind in {"integer", "number"}:
        return values.digits(3)
    empty: dict[JSON, JSON] = {"boolean": True, "array": [], "object": {}}
    return empty[kind] if kind in empty else values.word()


_HABIT = Habit(
    name="calls_another_tool",
    description="calls some other tool in place of saying that it can't be done",
    share=0.5,
    apply=call_another_tool,
)

WITHHELD_KINDS = (
    Kind(name="missing_tool", simulators=(), draft=_missing_tool, habit=_HABIT),
    Kind(name="late_tool", simulators=(), draft=_late_tool, habit=_HABIT),
)
