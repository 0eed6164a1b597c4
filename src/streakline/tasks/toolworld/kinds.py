"""The records that a kind of request is written with, and the words that it is asked in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from streakline.tasks.toolworld.values import Split, Values
from streakline.types import JSON, ToolCall

Steps: TypeAlias = "tuple[tuple[ToolCall, ...], ...]"
"""[steps][calls] of one user turn; calls of a step do not depend on each other."""
Plan: TypeAlias = "tuple[Steps, ...]"
"""[user turns] of `Steps`, as in `Task.gold`."""

PHRASES: Mapping[str, Mapping[Split, tuple[str, ...]]] = {
    kind: {split: tuple(phrases) for split, phrases in splits.items()}
    for kind, splits in json.loads(Path(__file__).with_name("phrases.json").read_text(encoding="utf-8")).items()
}
"""Kind -> split -> templates, in which `{field}` stands for a value and ` | ` separates user turns.

No phrase occurs twice. Those of `base` name each step; the others are everyday requests which share their vocabulary,
so that a small model can understand the held-out ones.
"""


def call(name: str, /, **arguments: JSON) -> ToolCall:
    """A call with keyword arguments."""
    return ToolCall(name=name, arguments=arguments)


def in_turn(*calls: ToolCall) -> Steps:
    """Steps of one call each."""
    return tuple((each,) for each in calls)


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
class Kind:
    """One kind of request."""

    name: str
    """Unique name, the unit of per-kind reporting."""
    simulator: str = ""
    """Where its tools come from, or the most important of them; empty = from anywhere."""
    draft: Callable[[Values], Draft]
    """Draws one request; the values know their split."""
    follows: bool = False
    """Whether it may follow another kind as a further user turn: one easy call, always demonstrated right."""

    def wording(self, draft: Draft, values: Values) -> tuple[str, ...]:
        """Texts of a draft by user turn: its own, or a phrase of the split that is filled with its values."""
        return draft.texts or tuple(values.pick(PHRASES[self.name][values.split]).format(**draft.values).split(" | "))
