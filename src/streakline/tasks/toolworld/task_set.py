"""ToolWorld: as many templated tasks over the benchmark's simulators as asked, each a function of seed and index."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from typing import Literal, final

from streakline.errors import ConfigError
from streakline.tasks.base import TaskSet
from streakline.tasks.toolworld.catalogue import SchemaLength
from streakline.tasks.toolworld.draw import Distractors, draw_task, level_of
from streakline.tasks.toolworld.kinds import Kind
from streakline.tasks.toolworld.requests import KINDS
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON, Task

_SPLITS = ("train", "validation", "test")
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
        split: Whose phrases and values the tasks have.
        seed: Of everything that is drawn.
        kinds: Names of `KINDS` to draw from; None = all that `user_turns` allows.
        levels: Levels to keep: 1 to 4 = number of calls, at most 4, where a turn that must end without a call counts as
            one.
        user_turns: Numbers of user turns to draw from. A kind that takes fewer is followed by easy requests.
        distractors: Tools shown beyond those needed, about half of them of the same simulators; None = 2 with short
            schemas, 8 with long ones. `simulators` = all others of the simulators that the task
            needs, as agents with fixed tools have.
        schema: `long` = the benchmark's own descriptions; `short` = a sentence a tool.

    Raises:
        ConfigError: An option is outside what it can be, or no task of the wanted level exists.
    """

    def __init__(
        self,
        size: int,
        *,
        split: Literal["train", "validation", "test"],
        seed: int = 0,
        kinds: Sequence[str] | None = None,
        levels: Sequence[int] = (1, 2, 3, 4),
        user_turns: Sequence[int] = (1, 2),
        distractors: int | Literal["simulators"] | None = None,
        schema: Literal["short", "long"] = "short",
    ) -> None:
        _check(split in _SPLITS, "split", f"one of {', '.join(_SPLITS)}", split)
        _check(schema in _DISTRACTORS, "schema", "short or long", schema)
        _check(size >= 0, "size", "at least 0", size)
        named = distractors is None or distractors == "simulators"
        known = named or (isinstance(distractors, int) and distractors >= 0)
        _check(known, "distractors", "at least 0 or 'simulators'", distractors)
        _check(bool(levels) and set(levels) <= {1, 2, 3, 4}, "levels", "some of 1, 2, 3, 4", levels)
        _check(bool(user_turns) and set(user_turns) <= {1, 2, 3}, "user_turns", "some of 1, 2, 3", user_turns)
        self._size = size
        self._split = split
        self._schema = schema
        self._levels = sorted(set(levels))
        self._user_turns = tuple(sorted(set(user_turns)))
        self._distractors: Distractors = _DISTRACTORS[schema] if distractors is None else distractors
        self._kinds = self._select_kinds(kinds)
        options: dict[str, JSON] = {
            "kinds": None if kinds is None else [*sorted(set(kinds))],
            "levels": [*self._levels],
            "user_turns": [*self._user_turns],
            "distractors": self._distractors,
            # An option of the tasks in tools/base_tasks, whose ids are made in the same way.
            "dictated_share": 0.0,
        }
        usual: dict[str, JSON] = {"kinds": None, "levels": [1, 2, 3, 4], "user_turns": [1, 2]}
        defaults = {**options, **usual, "distractors": _DISTRACTORS[schema]}
        self._prefix = f"toolworld/{split}/{schema}/{seed}/{options_folder(options, defaults=defaults)}"

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Task:
        if not 0 <= index < self._size:
            raise IndexError(f"Expected `index` in [0, {self._size}), but got {index}")
        task_id = f"{self._prefix}{index}"
        kind = balanced_kind(self._kinds, index=index, prefix=self._prefix)
        for attempt in range(_TRIES):
            rng = random.Random(f"{task_id}/{attempt}")
            rng.random()  # decides in tools/base_tasks whether calls are dictated
            task = draw_task(
                task_id,
                kind=kind,
                values=Values(rng, split=self._split),
                user_turns=self._user_turns,
                distractors=self._distractors,
                schema=self._schema,
            )
            if task.level in self._levels and len(task.requests) in self._user_turns:
                return task
        raise ConfigError(f"Expected `levels` that tasks can have, but got {self._levels} for {task_id}")

    def _select_kinds(self, names: Sequence[str] | None) -> tuple[Kind, ...]:
        unknown = set(names or ()) - set(KINDS)
        _check(not unknown, "kinds", f"among {', '.join(KINDS)}", sorted(unknown))
        chosen = [KINDS[name] for name in KINDS if names is None or name in names]
        possible = tuple(kind for kind in chosen if self._is_possible(kind))
        complete = bool(possible) and (names is None or len(possible) == len(chosen))
        _check(complete, "kinds", f"possible with levels {self._levels} and user turns {self._user_turns}", names)
        return possible

    def _is_possible(self, kind: Kind) -> bool:
        """Whether it can be asked in the wanted numbers of user turns, at a wanted level."""
        gold = kind.draft(Values(random.Random(0), split=self._split)).gold
        spare = [turns - len(gold) for turns in self._user_turns if turns >= len(gold)]
        return any(min(4, level_of(gold) + further) in self._levels for further in spare)


def options_folder(options: Mapping[str, JSON], *, defaults: Mapping[str, JSON]) -> str:
    """Short digest of the options of a task set, as a folder of its task ids; empty = all have their defaults."""
    return "" if options == defaults else hashlib.sha256(json.dumps(options).encode()).hexdigest()[:8] + "/"


def balanced_kind(kinds: Sequence[Kind], *, index: int, prefix: str) -> Kind:
    """Kind of a task: each block of as many tasks as kinds holds every kind once, in an order drawn from `prefix`."""
    block, place = divmod(index, len(kinds))
    order = list(kinds)
    random.Random(f"{prefix}block/{block}").shuffle(order)
    return order[place]


def _check(ok: bool, name: str, expected: str, value: object) -> None:
    if not ok:
        raise ConfigError(f"Expected `{name}` to be {expected}, but got {value!r}")
