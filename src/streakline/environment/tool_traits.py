"""What the tools of simulators depend on and change, seen from outside: fingerprints of a simulator around its calls.

Every tool of a simulator that keeps a state is stateful. It counts as reading until a call is seen to change the
fingerprint; from then on it writes, for good. A late upgrade does no harm to what was recorded before: while a tool
counted as reading, each of its calls that ran was seen to change nothing, and one that the cache answered in its place
had run in the same state. So what the earlier digests leave out changed nothing, and their entries are right. What a
late upgrade costs is hits: an entry that was recorded after harmless calls of the tool has a digest without them, and
is no longer met. `writing_tools` finds most writes before anything is recorded, and so avoids that.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Collection, Mapping, Sequence
from datetime import date, time
from functools import cache
from hashlib import sha256

from streakline.cache.state import ToolKind, ToolTraits, initial_digest
from streakline.cache.store import CacheStore, ToolRecord
from streakline.environment.live import LiveEnvironment
from streakline.environment.simulators import create_simulator, mutable_defaults, tool_functions, tool_schemas
from streakline.types import JSON, Task, ToolSchema

_LEAVES = (type(None), bool, int, float, str, date, time, random.Random)  # a datetime is a date
_DESCRIPTION = "_api_description"
"""The one attribute of a simulator that keeps no state."""


def fingerprint(instance: object) -> bytes:
    """Hash all that an object holds: private attributes, nested objects, their order and aliases, random generators.

    Equal for instances that were made and used alike, in whatever process.
    """
    digest = sha256()
    seen: dict[int, tuple[int, object]] = {}  # holds the objects, since ids come back
    pending = [instance]
    while pending:  # no recursion: a model can nest folders as deep as it likes
        value = pending.pop()
        parts = _parts(value)
        if parts and id(value) in seen:  # a second name of the same object, or a cycle
            digest.update(b"seen %d;" % seen[id(value)][0])
            continue
        if parts:
            seen[id(value)] = (len(seen), value)
        digest.update(f"{type(value).__qualname__} {len(parts)} {'' if parts else _text(value)};".encode())
        pending.extend(reversed(parts))
    return digest.digest()


def initial_state(task: Task, simulator: str) -> bytes:
    """Digest of a simulator's state before any call: of all that `LiveEnvironment` makes it of."""
    scenario = task.initial_state.get(simulator, {})
    return initial_digest([simulator, scenario, task.long_context, task.clock])


def writing_tools(task: Task) -> set[str]:
    """Tools that the task's gold calls are seen to write with, when they run in a fresh world."""
    world = LiveEnvironment(task, timeout_s=None)
    writing = set()
    for index, steps in enumerate(task.gold):
        world.begin_user_turn(index)
        for call in (call for calls in steps for call in calls):
            simulator = world.simulator(call.name)
            before = fingerprint(simulator)
            world.execute(call)
            if fingerprint(simulator) != before:
                writing.add(call.name)
    return writing


def declare_tools(store: CacheStore, simulators: Collection[str], *, writing: Collection[str] = ()) -> None:
    """Enter the tools of simulators into a store, those in `writing` as such.

    A tool that is known keeps the schema under which its calls were recorded, and what it was seen to do.
    """

    def change(known: Mapping[str, ToolRecord]) -> dict[str, ToolRecord]:
        return {
            schema.name: _record(simulator, schema, known.get(schema.name), writes=schema.name in writing)
            for simulator in simulators
            for schema in tool_schemas(simulator)
        }

    store.update_tools(change)


def _record(simulator: str, schema: ToolSchema, old: ToolRecord | None, *, writes: bool) -> ToolRecord:
    traits = old.traits if old else ToolTraits()
    if old and (traits.kind is ToolKind.VOLATILE or traits.writes or (traits.state and not writes)):
        return old
    if _keeps_state(simulator):
        traits = ToolTraits(kind=ToolKind.STATEFUL, state=simulator, writes=writes)
    return ToolRecord(traits=traits, parameters=(old and old.parameters) or _parameters(simulator, schema))


@cache
def _keeps_state(simulator: str) -> bool:
    return bool(set(vars(create_simulator(simulator, scenario={}))) - {_DESCRIPTION})


def _parameters(simulator: str, schema: ToolSchema) -> dict[str, JSON]:
    """Schema of a tool without defaults that aren't the function's own: BFCL writes "None" for None.

    The canonical form of a call leaves out what is at its default, which must then be what the function takes. A list
    isn't: the function's own one is shared by all calls that leave it out.
    """
    taken, shared = inspect.signature(tool_functions(simulator)[schema.name]).parameters, mutable_defaults(simulator)
    properties = schema.parameters["properties"]
    kept: dict[str, JSON] = dict(properties) if isinstance(properties, dict) else {}
    for name, spec in kept.items():
        if isinstance(spec, dict) and (spec.get("default") != taken[name].default or name in shared[schema.name]):
            kept[name] = {key: value for key, value in spec.items() if key != "default"}
    return {**schema.parameters, "properties": kept}


def _parts(value: object) -> Sequence[object]:
    if isinstance(value, _LEAVES):
        return ()
    if isinstance(value, Mapping):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, list | tuple):
        return value
    return sorted(value, key=repr) if isinstance(value, set | frozenset) else [vars(value)]


def _text(value: object) -> str:
    if isinstance(value, random.Random):
        _, words, gauss = value.getstate()
        return f"{hash(words)} {gauss}"  # the hash of integers is the same in every process
    return repr(value)
