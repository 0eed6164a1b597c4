"""The records that a kind of request is written with, and the plans that demonstrations follow."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from streakline.tasks.toolworld.phrases import PHRASES
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON, Task, ToolCall

__all__ = [
    "Draft",
    "Habit",
    "Kind",
    "Plan",
    "Steps",
    "call",
    "drop_first_step",
    "keep_first_call",
    "replace_first_turn",
]

Steps: TypeAlias = "tuple[tuple[ToolCall, ...], ...]"
"""[steps][calls] of one user turn; calls of a step do not depend on each other."""
Plan: TypeAlias = "tuple[Steps, ...]"
"""[user turns] of `Steps`, as in `Task.gold`."""


def call(name: str, /, **arguments: JSON) -> ToolCall:
    """A call with keyword arguments."""
    return ToolCall(name=name, arguments=arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What one request needs of the world, and how it is fulfilled."""

    values: Mapping[str, JSON] = field(default_factory=dict)
    """What the phrase names, by field."""
    gold: Plan
    """Right calls by user turn."""
    state: Mapping[str, dict[str, JSON]] = field(default_factory=dict)
    """Simulator -> parts of its scenario; parts of several drafts are merged."""
    replies: tuple[str, ...] = ()
    """Closing text by user turn; empty = `Done.` for each."""
    withheld: str = ""
    """Tool that is not shown from the start; empty = none."""
    revealed: bool = False
    """Whether the withheld tool is shown from the second user turn on."""
    texts: tuple[str, ...] = ()
    """Finished requests by user turn, for drafts that word themselves; empty = the kind's phrase is filled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """A mistake that demonstrations of a kind show on purpose, so that there is something to learn beyond them."""

    name: str
    """Short name, as it stands in reports."""
    description: str
    """What is done wrong, in a sentence."""
    share: float
    """Default probability that a demonstration of the kind shows it."""
    apply: Callable[[Task, random.Random], Plan]
    """Makes the wrong plan of a task from its gold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of request."""

    name: str
    """Unique name, the unit of per-kind reporting."""
    simulators: tuple[str, ...]
    """Where its tools come from, the most important one first."""
    draft: Callable[[Values], Draft]
    """Draws one request; the values know their split."""
    habit: Habit | None = None
    """What its demonstrations may do wrong; None = nothing."""
    follows: bool = False
    """Whether it may follow another kind as a further user turn: one easy call, always demonstrated right."""

    def wording(self, draft: Draft, values: Values) -> tuple[str, ...]:
        """Texts of a draft by user turn: its own, or a phrase of the split that is filled with its values."""
        return draft.texts or tuple(values.pick(PHRASES[self.name][values.split]).format(**draft.values).split(" | "))


def drop_first_step(task: Task) -> Plan:
    """Gold without the first step of the first user turn."""
    return replace_first_turn(task, task.gold[0][1:])


def keep_first_call(task: Task) -> Plan:
    """Gold whose first user turn ends after its first call."""
    return replace_first_turn(task, ((task.gold[0][0][0],),))


def replace_first_turn(task: Task, steps: Steps) -> Plan:
    """Gold with other steps in the first user turn."""
    return (steps, *task.gold[1:])
