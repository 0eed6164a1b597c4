"""ToolWorld: as many templated tasks over the benchmark's simulators as asked, each a function of seed and index."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, final

from streakline.errors import ConfigError
from streakline.tasks.base import TaskSet
from streakline.tasks.toolworld.catalogue import (
    TOOLWORLD_SIMULATORS,
    SchemaLength,
    simulator_of,
    tool_catalogue,
    tools_of,
)
from streakline.tasks.toolworld.dictation import DICTATED
from streakline.tasks.toolworld.files import FILE_KINDS
from streakline.tasks.toolworld.kinds import Draft, Kind, Plan
from streakline.tasks.toolworld.maths import MATHS_KINDS
from streakline.tasks.toolworld.messages import MESSAGE_KINDS
from streakline.tasks.toolworld.tickets import TICKET_KINDS
from streakline.tasks.toolworld.trading import TRADING_KINDS
from streakline.tasks.toolworld.values import SPLITS, Values
from streakline.tasks.toolworld.vehicle import VEHICLE_KINDS
from streakline.tasks.toolworld.withheld import WITHHELD_KINDS
from streakline.types import JSON, Message, Role, Task

__all__ = ["KINDS", "ToolWorldTaskSet"]

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        *FILE_KINDS,
        *TICKET_KINDS,
        *VEHICLE_KINDS,
        *TRADING_KINDS,
        *MESSAGE_KINDS,
        *MATHS_KINDS,
        *WITHHELD_KINDS,
    )
}
"""Kinds of request by name, in the order of their files."""

_TRIES = 200
"""Draws of a task before a level counts as out of reach of the options."""
_DISTRACTORS: Mapping[SchemaLength, int] = {"short": 2, "long": 8}


@final
class ToolWorldTaskSet(TaskSet):
    """Seeded tasks: a request of some kind, sometimes followed by easy ones, over small simulated worlds.

    Task `index` depends on the seed and the options, not on `size`, so a larger set begins with the smaller one. The
    kinds are balanced: each block of as many tasks as there are kinds holds every kind once, in shuffled order. Splits
    share no phrase and no value (see `values.py` for what counts as one).

    Args:
        size: Number of tasks.
        split: `train`, `validation` and `test` ask in everyday words; `base` names each step, and dictates calls
            over all tools, to teach a model that was never trained the format and how to copy.
        seed: Of everything that is drawn.
        kinds: Names of `KINDS` to draw from; None = all that `user_turns` allows.
        levels: Levels to keep: 1 to 4 = number of calls, at most 4, where a turn that must end without a call counts as
            one.
        user_turns: Numbers of user turns to draw from. A kind that takes fewer is followed by easy requests.
        distractors: Tools shown beyond those needed, about half of them of the same simulators; None = 2 with short
            schemas, 8 with long ones.
        schema: `long` = the benchmark's own descriptions; `short` = a sentence a tool.
        dictated_share: Share of the `base` split that dictates calls.

    Raises:
        ConfigError: An option is outside what it can be, or no task of the wanted level exists.
    """

    def __init__(
        self,
        size: int,
        *,
        split: Literal["base", "train", "validation", "test"],
        seed: int = 0,
        kinds: Sequence[str] | None = None,
        levels: Sequence[int] = (1, 2, 3, 4),
        user_turns: Sequence[int] = (1, 2),
        distractors: int | None = None,
        schema: Literal["short", "long"] = "short",
        dictated_share: float = 0.5,
    ) -> None:
        _check(split in SPLITS, "split", f"one of {', '.join(SPLITS)}", split)
        _check(schema in _DISTRACTORS, "schema", "short or long", schema)
        _check(size >= 0, "size", "at least 0", size)
        _check(distractors is None or distractors >= 0, "distractors", "at least 0", distractors)
        _check(bool(levels) and set(levels) <= {1, 2, 3, 4}, "levels", "some of 1, 2, 3, 4", levels)
        _check(bool(user_turns) and set(user_turns) <= {1, 2, 3}, "user_turns", "some of 1, 2, 3", user_turns)
        _check(0 <= dictated_share <= 1, "dictated_share", "in [0, 1]", dictated_share)
        self._size = size
        self._split = split
        self._seed = seed
        self._schema = schema
        self._levels = frozenset(levels)
        self._user_turns = tuple(sorted(set(user_turns)))
        self._distractors = _DISTRACTORS[schema] if distractors is None else distractors
        self._dictated_share = dictated_share if split == "base" else 0.0
        self._kinds = self._select_kinds(kinds)
        self._prefix = f"toolworld/{split}/{schema}/{seed}/{self._digest(kinds)}"

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Task:
        if not 0 <= index < self._size:
            raise IndexError(f"Expected `index` in [0, {self._size}), but got {index}")
        task_id = f"{self._prefix}{index}"
        kind = self._kind_at(index)
        for attempt in range(_TRIES):
            rng = random.Random(f"{task_id}/{attempt}")
            task = self._draw(task_id, DICTATED if rng.random() < self._dictated_share else kind, rng)
            if task.level in self._levels and len(task.requests) in self._user_turns:
                return task
        raise ConfigError(f"Expected `levels` that tasks can have, but got {sorted(self._levels)} for {task_id}")

    def _select_kinds(self, names: Sequence[str] | None) -> tuple[Kind, ...]:
        unknown = set(names or ()) - set(KINDS)
        _check(not unknown, "kinds", f"among {', '.join(KINDS)}", sorted(unknown))
        chosen = [KINDS[name] for name in KINDS if names is None or name in names]
        possible = tuple(kind for kind in chosen if self._is_possible(kind))
        complete = bool(possible) and (names is None or len(possible) == len(chosen))
        _check(
            complete, "kinds", f"possible with levels {sorted(self._levels)} and user turns {self._user_turns}", names
        )
        return possible

    def _is_possible(self, kind: Kind) -> bool:
        """Whether it can be asked in the wanted numbers of user turns, at a wanted level."""
        gold = kind.draft(Values(random.Random(0), split=self._split)).gold
        spare = [turns - len(gold) for turns in self._user_turns if turns >= len(gold)]
        return any(min(4, _level(gold) + further) in self._levels for further in spare)

    def _digest(self, kinds: Sequence[str] | None) -> str:
        """Short digest of the options that differ from their defaults, as a folder of the id; empty = none does."""
        options: dict[str, JSON] = {
            "kinds": None if kinds is None else [*sorted(set(kinds))],
            "levels": [*sorted(self._levels)],
            "user_turns": [*self._user_turns],
            "distractors": self._distractors,
            "dictated_share": self._dictated_share,
        }
        defaults: dict[str, JSON] = {
            "kinds": None,
            "levels": [1, 2, 3, 4],
            "user_turns": [1, 2],
            "distractors": _DISTRACTORS[self._schema],
            "dictated_share": 0.5 if self._split == "base" else 0.0,
        }
        if options == defaults:
            return ""
        return hashlib.sha256(json.dumps(options).encode()).hexdigest()[:8] + "/"

    def _kind_at(self, index: int) -> Kind:
        block, place = divmod(index, len(self._kinds))
        order = list(self._kinds)
        random.Random(f"{self._prefix}block/{block}").shuffle(order)
        return order[place]

    def _draw(self, task_id: str, kind: Kind, rng: random.Random) -> Task:
        values = Values(rng, split=self._split)
        first = _worded(kind, values)
        drafts = [first]
        wanted = values.pick([turns for turns in self._user_turns if turns >= len(first.gold)] or self._user_turns)
        while sum(len(draft.gold) for draft in drafts) < wanted:
            further = _worded(values.pick(_followers(kind)), values)
            if first.revealed or first.withheld not in _called([further]):
                drafts.append(further)
        gold = tuple(steps for draft in drafts for steps in draft.gold)
        shown = self._choose_tools(drafts, values)
        catalogue = tool_catalogue(self._schema)
        owners = {simulator_of(name) for name in (*shown, *_called(drafts))}
        return Task(
            id=task_id,
            source="toolworld",
            kind=kind.name,
            tools=tuple(catalogue[name] for name in shown),
            requests=tuple((Message(role=Role.USER, content=text),) for draft in drafts for text in draft.texts),
            revealed_tools={1: (catalogue[first.withheld],)} if first.revealed else {},
            simulators=tuple(name for name in TOOLWORLD_SIMULATORS if name in owners),
            initial_state=_merged(dict(draft.state) for draft in drafts),
            gold=gold,
            replies=tuple(reply for draft in drafts for reply in draft.replies or ("Done.",) * len(draft.gold)),
            level=min(4, _level(gold)),
        )

    def _choose_tools(self, drafts: Sequence[Draft], values: Values) -> list[str]:
        """Names of the tools shown from the start, shuffled."""
        withheld = drafts[0].withheld
        needed = [name for name in dict.fromkeys(_called(drafts)) if name != withheld]
        count = max(self._distractors, 1 if withheld else 0)
        near_simulators = dict.fromkeys(simulator_of(name) for name in (*needed, *([withheld] if withheld else [])))
        taken = {*needed, withheld}
        near = [name for simulator in near_simulators for name in tools_of(simulator) if name not in taken]
        chosen = values.rng.sample(near, min(len(near), (count + 1) // 2))
        taken.update(chosen)
        far = [name for name in tool_catalogue(self._schema) if name not in taken]
        chosen += values.rng.sample(far, min(len(far), count - len(chosen)))
        shown = needed + chosen
        values.rng.shuffle(shown)
        return shown


def _worded(kind: Kind, values: Values) -> Draft:
    """A draft of the kind, with its texts."""
    draft = kind.draft(values)
    return replace(draft, texts=kind.wording(draft, values))


def _level(gold: Plan) -> int:
    """Number of calls, where a user turn without any counts as one."""
    return sum(max(1, sum(map(len, steps))) for steps in gold)


def _followers(kind: Kind) -> tuple[Kind, ...]:
    """Kinds that may follow: those of its first simulator, else any."""
    easy = tuple(other for other in KINDS.values() if other.follows)
    return tuple(other for other in easy if set(other.simulators) & set(kind.simulators[:1])) or easy


def _called(drafts: Iterable[Draft]) -> list[str]:
    return [call.name for draft in drafts for steps in draft.gold for calls in steps for call in calls]


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


def _check(ok: bool, name: str, expected: str, value: object) -> None:
    if not ok:
        raise ConfigError(f"Expected `{name}` to be {expected}, but got {value!r}")
