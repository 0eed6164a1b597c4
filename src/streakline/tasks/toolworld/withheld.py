"""Requests whose tool is not there: the policy must say so and call nothing, until it is there."""

from __future__ import annotations

from dataclasses import replace

from streakline.tasks.toolworld.files import FILE_KINDS
from streakline.tasks.toolworld.kinds import Draft, Kind, Steps
from streakline.tasks.toolworld.phrases import PHRASES
from streakline.tasks.toolworld.tickets import TICKET_KINDS
from streakline.tasks.toolworld.trading import TRADING_KINDS
from streakline.tasks.toolworld.values import Values
from streakline.tasks.toolworld.vehicle import VEHICLE_KINDS

REFUSAL = "I can't do that."
"""Closing text where the tool is missing."""

_ASKED = tuple(kind for kind in (*FILE_KINDS, *TICKET_KINDS, *VEHICLE_KINDS, *TRADING_KINDS) if kind.follows)
"""Kinds of one call, whose very requests are asked here without their tool."""


def _refused(values: Values) -> tuple[Draft, Steps]:
    """A request of another kind without its tool, and what would be right with it."""
    kind = values.pick(_ASKED)
    asked = kind.draft(values)
    [[step]] = asked.gold
    text = kind.wording(asked, values)[0]
    return Draft(gold=((),), state=asked.state, replies=(REFUSAL,), withheld=step[0].name, texts=(text,)), (step,)


def _missing_tool(values: Values) -> Draft:
    return _refused(values)[0]


def _late_tool(values: Values) -> Draft:
    refused, steps = _refused(values)
    there = values.pick(PHRASES["late_tool"][values.split]).format(tool=refused.withheld)
    texts = (*refused.texts, there)
    return replace(refused, gold=((), steps), replies=(REFUSAL, "Done."), revealed=True, texts=texts)


WITHHELD_KINDS = (Kind(name="missing_tool", draft=_missing_tool), Kind(name="late_tool", draft=_late_tool))
