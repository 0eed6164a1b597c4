"""The mistakes that demonstrations show on purpose, so that there is something to learn beyond them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from streakline.tasks.toolworld.catalogue import required_arguments
from streakline.tasks.toolworld.kinds import Plan, call, in_turn
from streakline.tasks.toolworld.values import Values, split_of
from streakline.types import JSON, Task, ToolCall, ToolSchema

_Mistake: TypeAlias = Callable[[Sequence[ToolCall], Values, Task], Sequence[ToolCall]]
"""From the right calls of the first user turn, made-up values and the task, to the calls that are made instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """A mistake in the first user turn."""

    name: str
    """Short name, as it stands in reports."""
    description: str
    """What is done wrong, in a sentence."""
    share: float
    """Default probability that a demonstration of the kind shows it."""
    mistake: _Mistake
    """Makes the wrong calls."""

    def plan(self, task: Task, rng: random.Random) -> Plan:
        """Gold of a task with the mistake in it, the wrong calls one after the other."""
        right = [each for step in task.gold[0] for each in step]
        return (in_turn(*self.mistake(right, Values(rng, split=split_of(task)), task)), *task.gold[1:])


def _call_another_tool(_: Sequence[ToolCall], values: Values, task: Task) -> list[ToolCall]:
    fewest = min(task.tools, key=lambda schema: len(required_arguments(schema)))
    return [call(fewest.name, **{name: _made_up(fewest, name, values) for name in required_arguments(fewest)})]


def _made_up(schema: ToolSchema, parameter: str, values: Values) -> JSON:
    properties = schema.parameters["properties"]
    described = properties[parameter] if isinstance(properties, dict) else None
    kind = described["type"] if isinstance(described, dict) else ""
    if kind in {"integer", "number"}:
        return values.digits(3)
    empty: dict[JSON, JSON] = {"boolean": True, "array": [], "object": {}}
    return empty[kind] if kind in empty else values.word()


_ANOTHER_TOOL = Habit(
    name="calls_another_tool",
    description="calls some other tool in place of saying that it can't be done",
    share=0.5,
    mistake=_call_another_tool,
)

HABITS: Mapping[str, Habit] = {
    "write_note": Habit(
        name="skips_touch",
        description="writes into the new file without making it first",
        share=0.6,
        mistake=lambda right, values, task: right[1:],
    ),
    "file_away": Habit(
        name="swaps_order",
        description="moves the file before the folder exists, which renames it",
        share=0.55,
        mistake=lambda right, values, task: right[::-1],
    ),
    "remove_unnamed": Habit(
        name="invents_name",
        description="makes a file name up in place of asking which file is meant",
        share=0.6,
        mistake=lambda right, values, task: [call("rm", file_name=values.file())],
    ),
    "close_open_ticket": Habit(
        name="guesses_id",
        description="closes a made-up ticket id in place of looking the open ticket up",
        share=0.55,
        mistake=lambda right, values, task: [call("close_ticket", ticket_id=values.digits(3))],
    ),
    "file_to_ticket": Habit(
        name="uses_file_name",
        description="takes the name of the file as the title in place of reading it",
        share=0.05,
        mistake=lambda right, values, task: [call("create_ticket", title=right[0].arguments["file_name"])],
    ),
    "start_engine": Habit(
        name="forgets_brake",
        description="starts the engine without pressing the brake pedal",
        share=0.6,
        mistake=lambda right, values, task: right[1:],
    ),
    "fuel_in_liters": Habit(
        name="skips_conversion",
        description="fills the number of liters as if it were gallons",
        share=0.55,
        mistake=lambda right, values, task: [call("fillFuelTank", fuelAmount=right[0].arguments["liter"])],
    ),
    "buy_at_market": Habit(
        name="guesses_price",
        description="orders at a made-up price in place of looking the price up",
        share=0.55,
        mistake=lambda right, values, task: [
            call("place_order", **{**right[1].arguments, "price": values.decimal(10, 999)})
        ],
    ),
    "swap_watch": Habit(
        name="forgets_second",
        description="does the first of two things that were asked, and stops",
        share=0.6,
        mistake=lambda right, values, task: right[:1],
    ),
    "message_by_name": Habit(
        name="guesses_id",
        description="sends to a made-up user id in place of looking the name up",
        share=0.55,
        mistake=lambda right, values, task: [
            call("send_message", **{**right[1].arguments, "receiver_id": values.user_id()})
        ],
    ),
    "sum_then_scale": Habit(
        name="stops_early",
        description="stops after the sum",
        share=0.05,
        mistake=lambda right, values, task: right[:1],
    ),
    "missing_tool": _ANOTHER_TOOL,
    "late_tool": _ANOTHER_TOOL,
}
"""Kind -> the mistake that its demonstrations may show, and how often they do by default."""
