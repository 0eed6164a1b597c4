"""Recorded calls and questions about them for `cache.py`: made up, but shaped as those of agents are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias, final

from streakline.cache.canonical import canonical_arguments, canonical_text
from streakline.cache.state import ToolTraits
from streakline.cache.store import CacheStore, NewEntry, ToolRecord
from streakline.data.cache_build import BuildReport, record_gold
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.types import JSON

Arguments: TypeAlias = dict[str, JSON]

_SYLLABLES = [start + end for start in "bcdfglmnprstv" for end in ("a", "e", "i", "o", "er", "on", "al")]
_NUM_WORDS = 3000
_SHARE_EDITED = 0.3
"""Calls that are an earlier call of the tool with one change, as agents make them that try again."""
_KEPT = 1000
_BATCH = 10_000


class Call(NamedTuple):
    """A recorded call."""

    tool: str
    arguments: Arguments
    """Canonical."""
    state: bytes = b""
    """Digest of the state that it met."""


def _words() -> list[str]:
    generator = Random(0)
    found: dict[str, None] = {}
    while len(found) < _NUM_WORDS:
        found["".join(generator.choices(_SYLLABLES, k=generator.choice((1, 2, 2, 3))))] = None
    return list(found)


WORDS = _words()


def word(generator: Random) -> str:
    """Draw a word, the first ones far more often, as in any language."""
    return WORDS[int(_NUM_WORDS ** generator.random()) - 1]


def text(generator: Random, *, most: int = 9) -> str:
    """Draw a phrase."""
    return " ".join(word(generator) for _ in range(generator.randint(2, most)))


def _path(generator: Random) -> str:
    folders = "/".join(word(generator) for _ in range(generator.randint(1, 3)))
    return f"/home/{word(generator)}/{folders}/{word(generator)}.{generator.choice(('csv', 'md', 'py', 'txt'))}"


def _place(generator: Random) -> JSON:
    return {"city": word(generator), "distance": {"value": generator.randint(1, 50), "unit": "km"}}


class Parameter(NamedTuple):
    """An argument that a tool takes."""

    name: str
    kind: str
    """Its type in JSON Schema."""
    make: Callable[[Random], JSON]


FREE = (
    Parameter("query", "string", text),
    Parameter("message", "string", lambda generator: text(generator, most=25).capitalize()),
    Parameter("path", "string", _path),
    Parameter("record_id", "string", lambda generator: f"{word(generator)}-{generator.getrandbits(32):08x}"),
)
"""Of these there are as many values as anyone asks for; each tool has one."""

OTHERS = (
    Parameter("name", "string", lambda generator: f"{word(generator)} {word(generator)}".title()),
    Parameter("date", "string", lambda generator: f"2026-{generator.randint(1, 12):02}-{generator.randint(1, 28):02}"),
    Parameter("email", "string", lambda generator: f"{word(generator)}@{word(generator)}.com"),
    Parameter("sort", "string", lambda generator: generator.choice(("newest", "oldest", "relevance", "price"))),
    Parameter("limit", "integer", lambda generator: generator.choice((5, 10, 20, 50, 100))),
    Parameter("number", "integer", lambda generator: int(generator.paretovariate(0.6)) % 100_000),
    Parameter("amount", "number", lambda generator: round(generator.lognormvariate(4, 1), 2)),
    Parameter("is_active", "boolean", lambda generator: generator.random() < 0.5),
    Parameter("tags", "array", lambda generator: [word(generator) for _ in range(generator.randint(1, 4))]),
    Parameter("values", "array", lambda generator: [generator.randint(0, 999) for _ in range(generator.randint(2, 5))]),
    Parameter("near", "object", _place),
)


@final
class Tool:
    """A tool that was made up, and its calls."""

    def __init__(self, number: int, parameters: Sequence[Parameter] = ()) -> None:
        generator = Random(number)
        self.name = f"{word(generator)}_{word(generator)}_{number}"
        others = generator.sample(OTHERS, k=generator.randint(0, 4))
        self._parameters = parameters or [generator.choice(FREE), *others]

    @property
    def schema(self) -> Arguments:
        """JSON Schema of its arguments."""
        properties: Arguments = {parameter.name: {"type": parameter.kind} for parameter in self._parameters}
        return {"type": "object", "properties": properties, "required": [self._parameters[0].name]}

    def make(self, generator: Random) -> Arguments:
        """Make arguments; the first one is always given."""
        first, *others = self._parameters
        given = [first, *(parameter for parameter in others if generator.random() < 0.8)]
        return canonical_arguments({parameter.name: parameter.make(generator) for parameter in given})

    def calls(self) -> Iterator[Call]:
        """Make calls that all differ."""
        generator = Random(self.name)
        seen: set[int] = set()
        earlier: list[Arguments] = []
        while True:
            arguments = self.make(generator)
            if earlier and generator.random() < _SHARE_EDITED:
                arguments = edited(generator.choice(earlier), like=[arguments], generator=generator)
            call = Call(self.name, arguments)
            if (key := call_id(call)) not in seen:
                seen.add(key)
                if len(earlier) < _KEPT:
                    earlier.append(arguments)
                yield call


LARGE = Tool(1_000_000, [parameter for parameter in (*FREE, *OTHERS) if parameter.name in "query limit sort tags near"])
"""The tool that holds half of a million entries, or all of them."""


_large_calls, _made = LARGE.calls(), list[Call]()


def large_calls(count: int) -> list[Call]:
    """Give the first calls of the large tool, which are made once."""
    _made.extend(islice(_large_calls, max(0, count - len(_made))))
    return _made[:count]


def call_id(call: Call) -> int:
    """Tell calls apart."""
    return hash((call.tool, canonical_text(call.arguments)))


def edited(arguments: Arguments, *, like: Sequence[Arguments], generator: Random) -> Arguments:
    """Make one change to a call: a typing error, words in another order, an argument dropped or of another call."""
    for change in generator.sample(("typo", "reorder", "drop", "other"), k=4):
        name = generator.choice(list(arguments)) if arguments else ""
        value = arguments.get(name)
        if change == "drop" and len(arguments) > 1:
            return {key: kept for key, kept in arguments.items() if key != name}
        if change == "other" and name in (other := generator.choice(like)) and other[name] != value:
            return {**arguments, name: other[name]}
        if change == "typo" and isinstance(value, str) and value:
            place = generator.randrange(len(value))
            replaced = generator.choice(("", value[place] * 2, generator.choice("aeinrst")))
            return {**arguments, name: value[:place] + replaced + value[place + 1 :]}
        if change == "reorder" and isinstance(value, str) and " " in value:
            return {**arguments, name: " ".join(generator.sample(value.split(" "), k=value.count(" ") + 1))}
    return {**arguments, "verbose": True}


@final
class Corpus:
    """Recorded calls, and what is known of their tools."""

    def __init__(self, calls: Sequence[Call], tools: Mapping[str, ToolRecord], made_up: Mapping[str, Tool]) -> None:
        self.calls = calls
        self.tools = tools
        self.made_up = made_up
        self.by_tool: dict[str, list[Call]] = {}
        """The calls of each tool, in their order."""
        self.ids_by_tool: dict[str, list[int]] = {}
        """The ids under which `write` records these."""
        for entry_id, call in enumerate(calls, 1):
            self.by_tool.setdefault(call.tool, []).append(call)
            self.ids_by_tool.setdefault(call.tool, []).append(entry_id)
        self._known = {call_id(call) for call in calls}

    def questions(self, count: int, generator: Random, *, tool: str | None = None) -> list[Call]:
        """Ask for calls that aren't recorded: nine in ten are a recorded one with one or two changes, one is new."""
        found: list[Call] = []
        while len(found) < count:
            tool_, arguments, _ = generator.choice(self.calls if tool is None else self.by_tool[tool])
            if tool_ in self.made_up and generator.random() < 0.1:
                arguments = self.made_up[tool_].make(generator)
            else:
                like = [call.arguments for call in self.by_tool[tool_][:_KEPT]]
                for _ in range(generator.choice((1, 1, 1, 2))):
                    arguments = edited(arguments, like=like, generator=generator)
            call = Call(tool_, canonical_arguments(arguments))
            if call_id(call) not in self._known:
                found.append(call)
        return found

    def write(self, store: CacheStore) -> None:
        """Record all calls in an empty store: the first gets id 1."""
        store.update_tools(lambda _: self.tools)
        entries = (
            NewEntry(
                tool=call.tool,
                arguments=call.arguments,
                result=json.dumps({"id": number, "status": "ok", "items": [WORDS[number % _NUM_WORDS]] * 5}),
                state=call.state,
                recorded_at=0.0,
            )
            for number, call in enumerate(self.calls)
        )
        while batch := list(islice(entries, _BATCH)):
            store.add(batch)


@cache
def bfcl_calls() -> tuple[Sequence[Call], Mapping[str, ToolTraits]]:
    """Give what `configs/cache/bfcl.yaml` records, and what its tools depend on."""
    tasks = [task for task in BFCLTaskSet("multi_turn_base") if task.simulators and task.gold]
    with TemporaryDirectory() as folder, CacheStore.open(Path(folder) / "bfcl.sqlite") as store:
        for _ in record_gold(store, tasks, report=BuildReport()):
            pass
        traits = {name: record.traits for name, record in store.tools().items()}
        return tuple(Call(entry.tool, entry.arguments, entry.state) for entry in store.iterate()), traits


def make_corpus(num_entries: int, num_tools: int, *, share_large: float = 0.0, with_bfcl: bool = True) -> Corpus:
    """Make calls of many tools, few of which have many, BFCL's among them; one may hold `share_large` of all."""
    recorded, traits = bfcl_calls() if with_bfcl else ((), {})
    calls = list(recorded)
    made_up = [Tool(number) for number in range(num_tools - len(traits) - (share_large > 0))]
    sizes = [1 / (rank + 20) for rank in range(len(made_up))]
    left = (1 - share_large) * num_entries - len(calls)
    for tool, size in zip(made_up, sizes, strict=True):
        calls += islice(tool.calls(), 1 + int(left * size / sum(sizes)))
    del calls[num_entries:]
    if share_large:
        made_up.append(LARGE)
        calls += large_calls(num_entries - len(calls))
    Random(1).shuffle(calls)
    tools = {name: ToolRecord(traits=value) for name, value in traits.items()}
    tools |= {tool.name: ToolRecord(parameters=tool.schema) for tool in made_up}
    return Corpus(calls, tools, {tool.name: tool for tool in made_up})
