"""Conversations that show how a task is done, executed for real, and the mistakes that they show on purpose.

The mistakes leave something to learn beyond the demonstrations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from streakline.environment.live import LiveEnvironment
from streakline.errors import ConfigError
from streakline.tasks.toolworld.catalogue import required_arguments
from streakline.tasks.toolworld.kinds import Plan, call, in_turn
from streakline.tasks.toolworld.values import Values, split_of
from streakline.types import JSON, Message, Role, Task, ToolCall, ToolSchema

_Mistake: TypeAlias = Callable[[Sequence[ToolCall], Values, Task], Sequence[ToolCall]]
"""From the right calls of the first user turn, made-up values and the task, to the calls that are made instead."""


@dataclass(frozen=True, slots=True)
class Habit:
    """A mistake in the first user turn."""

    name: str
    """Short name, as it stands in reports."""
    share: float
    """Default probability that a demonstration of the kind shows it."""
    description: str
    """What is done wrong, in a sentence."""


HABITS: Mapping[str, Habit] = {
    "write_note": Habit("skips_touch", 0.6, "writes into the new file without making it first"),
    "file_away": Habit("swaps_order", 0.55, "moves the file before the folder exists, which renames it"),
    "remove_unnamed": Habit("invents_name", 0.6, "makes a file name up in place of asking which file is meant"),
    "close_open_ticket": Habit("guesses_id", 0.55, "closes a made-up ticket id in place of looking the open ticket up"),
    "file_to_ticket": Habit("uses_file_name", 0.05, "takes the name of the file as the title in place of reading it"),
    "start_engine": Habit("forgets_brake", 0.6, "starts the engine without pressing the brake pedal"),
    "fuel_in_liters": Habit("skips_conversion", 0.55, "fills the number of liters as if it were gallons"),
    "buy_at_market": Habit("guesses_price", 0.55, "orders at a made-up price in place of looking the price up"),
    "swap_watch": Habit("forgets_second", 0.6, "does the first of two things that were asked, and stops"),
    "message_by_name": Habit("guesses_id", 0.55, "sends to a made-up user id in place of looking the name up"),
    "sum_then_scale": Habit("stops_early", 0.05, "stops after the sum"),
    **dict.fromkeys(
        ("missing_tool", "late_tool"),
        Habit("calls_another_tool", 0.5, "calls some other tool in place of saying that it can't be done"),
    ),
}
"""Kind -> the mistake that its demonstrations may show, and how often they do by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """One conversation over a task, from the first request to the last closing text."""

    task: Task
    """What was asked."""
    messages: tuple[Message, ...]
    """User, assistant and tool messages in order; the tool results are what the simulators returned."""
    habit: str
    """Name of the mistake that it shows; empty = it is right."""


def demonstrate(task: Task, *, habits: Mapping[str, float] | None = None, seed: int = 0) -> Demonstration:
    """Show how a task of ToolWorld is done, or how it is done wrong.

    Args:
        task: A task of ToolWorld.
        habits: Kind -> probability that its demonstration shows the kind's habit; kinds left out are shown right. None
            = the shares in `HABITS`; empty = all right.
        seed: With the task's id decides whether the habit is shown, and what it makes up.

    Raises:
        ConfigError: `habits` names an unknown kind or holds a value that is no probability.
    """
    shares = {kind: habit.share for kind, habit in HABITS.items()} if habits is None else habits
    for kind, share in shares.items():
        if kind not in HABITS or not 0 <= share <= 1:
            raise ConfigError(f"Expected `habits` to give kinds a probability, but got {share!r} for {kind!r}")
    rng = random.Random(f"{seed}/{task.id}")
    if rng.random() < shares.get(task.kind, 0.0):
        habit = HABITS[task.kind]
        return Demonstration(task=task, messages=_played(task, _mistaken(task, rng)), habit=habit.name)
    return Demonstration(task=task, messages=_played(task, task.gold), habit="")


def _played(task: Task, plan: Plan) -> tuple[Message, ...]:
    """The conversation that follows a plan in a fresh world."""
    world = LiveEnvironment(task, timeout_s=None)
    messages: list[Message] = []
    for index, steps in enumerate(plan):
        world.begin_user_turn(index)
        messages.extend(task.requests[index])
        for calls in steps:
            messages.append(Message(role=Role.ASSISTANT, tool_calls=calls))
            results = [world.execute(call) for call in calls]
            messages.extend(Message(role=Role.TOOL, content=result.content, name=result.name) for result in results)
        right = bool(steps) == bool(task.gold[index])
        messages.append(Message(role=Role.ASSISTANT, content=task.replies[index] if right else "Done."))
    return tuple(messages)


def _mistaken(task: Task, rng: random.Random) -> Plan:
    """Gold of a task with its kind's mistake in it, the wrong calls one after the other."""
    right = [each for step in task.gold[0] for each in step]
    wrong = _MISTAKES[task.kind](right, Values(rng, split=split_of(task)), task)
    return (in_turn(*wrong), *task.gold[1:])


def _second(right: Sequence[ToolCall], **changed: JSON) -> list[ToolCall]:
    """The second call alone, with a value that the first should have told."""
    return [call(right[1].name, **{**right[1].arguments, **changed})]


def _another_tool(_: Sequence[ToolCall], values: Values, task: Task) -> list[ToolCall]:
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


_MISTAKES: Mapping[str, _Mistake] = {
    "write_note": lambda right, values, task: right[1:],
    "file_away": lambda right, values, task: right[::-1],
    "remove_unnamed": lambda right, values, task: [call("rm", file_name=values.file())],
    "close_open_ticket": lambda right, values, task: _second(right, ticket_id=values.digits(3)),
    "file_to_ticket": lambda right, values, task: _second(right, title=right[0].arguments["file_name"]),
    "start_engine": lambda right, values, task: right[1:],
    "fuel_in_liters": lambda right, values, task: _second(right, fuelAmount=right[0].arguments["liter"]),
    "buy_at_market": lambda right, values, task: _second(right, price=values.decimal(10, 999)),
    "swap_watch": lambda right, values, task: right[:1],
    "message_by_name": lambda right, values, task: _second(right, receiver_id=values.user_id()),
    "sum_then_scale": lambda right, values, task: right[:1],
    "missing_tool": _another_tool,
    "late_tool": _another_tool,
}
