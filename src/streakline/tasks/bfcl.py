"""Berkeley Function Calling Leaderboard, version 4, as tasks: single-turn, live and multi-turn.

Tool names keep the dots of the source (`math.factorial`), as upstream's local function-calling handlers do; only hosted
models that forbid dots see underscores there. Types are normalised to JSON Schema, and the language hints that
upstream appends to descriptions are kept, Java and JavaScript arguments being strings that hold literals. In
`miss_func` the held-out tools appear at the user turn that the data names, with upstream's fixed request. Upstream
never uses `excluded_function`, so those tools are shown unless `hide_excluded_functions` is set.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import final

from streakline.environment.json_schema import to_json_schema
from streakline.environment.simulators import SIMULATORS, read_tool_schemas, tool_functions
from streakline.errors import ConfigError, DataError
from streakline.tasks.base import TaskSet
from streakline.tasks.bfcl_gold import example_call, parse_call
from streakline.tasks.bfcl_source import (
    MULTI_TURN,
    WITHOUT_ANSWERS,
    Row,
    check_category,
    data_folder,
    json_list,
    json_object,
    language,
    read_rows,
)
from streakline.tasks.exclusions import bfcl_exclusions
from streakline.types import JSON, Message, Role, Task, ToolCall, ToolSchema

_MORE_TOOLS = "I have updated some more functions you can choose from. What about now?"
"""Upstream's request of a user turn that only brings new tools."""

_HINTS = {
    "python": " Note that the provided function is in Python 3 syntax.",
    "java": " Note that the provided function is in Java 8 SDK syntax.",
    "javascript": " Note that the provided function is in JavaScript syntax.",
}
"""Upstream's additions to tool descriptions."""


@final
class BFCLTaskSet(TaskSet):
    """One category of BFCL v4. Files are read on first use.

    Args:
        category: Such as `simple_python`, `live_multiple` or `multi_turn_base`.
        data_dir: Folder laid out like `bfcl_eval/data`; None = that of the installed package.
        limit: Keep at most so many tasks; None = all.
        offset: Pass over so many tasks before that, to keep a part apart.
        exclusions: Leave out the tasks whose own gold answer is wrong (see `bfcl_exclusions`).
        hide_excluded_functions: Hide the tools that multi-turn rows list as `excluded_function`.

    Raises:
        ConfigError: The category can't be loaded, or a number is out of range.
    """

    def __init__(
        self,
        category: str,
        *,
        data_dir: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        exclusions: bool = True,
        hide_excluded_functions: bool = False,
    ) -> None:
        check_category(category)
        if (limit is not None and limit < 1) or offset < 0:
            raise ConfigError(f"Expected `limit` >= 1 and `offset` >= 0, but got {limit} and {offset}")
        self._category = category
        self._data_dir = data_dir
        self._window = slice(offset, None if limit is None else offset + limit)
        self._exclusions = exclusions
        self._hide = hide_excluded_functions

    def __len__(self) -> int:
        return len(self._loaded)

    def __getitem__(self, index: int) -> Task:
        if not 0 <= index < len(self._loaded):
            raise IndexError(f"Expected an index in [0, {len(self._loaded)}), but got {index}")
        return self._loaded[index]

    @cached_property
    def _loaded(self) -> tuple[Task, ...]:
        folder = data_folder(self._data_dir)
        name = f"BFCL_v4_{self._category}.json"
        answers: dict[str, Row] = {}
        if self._category not in WITHOUT_ANSWERS:
            answers = {str(row.data["id"]): row for row in read_rows(folder / "possible_answer" / name)}
        left_out = bfcl_exclusions() if self._exclusions else {}
        rows = [row for row in read_rows(folder / name) if self._task_id(row) not in left_out]
        return tuple(self._task(row, answers, folder) for row in rows[self._window])

    def _task_id(self, row: Row) -> str:
        return f"bfcl/{self._category}/{row.data['id']}"

    def _task(self, row: Row, answers: Mapping[str, Row], folder: Path) -> Task:
        truth: JSON = None
        if self._category not in WITHOUT_ANSWERS:
            if row.data["id"] not in answers:
                raise DataError(f"Expected a possible answer for {row.data['id']} ({row.place}), but got none")
            truth = answers[str(row.data["id"])].data.get("ground_truth")
        try:
            if self._category in MULTI_TURN:
                return self._multi_turn(row.data, truth, folder / "multi_turn_func_doc")
            return self._single_turn(row.data, truth)
        except (KeyError, ValueError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise DataError(f"Expected a BFCL row at {row.place}, but got one that can't be read: {reason}") from error

    def _single_turn(self, data: Mapping[str, JSON], truth: JSON) -> Task:
        functions = json_list(data["function"], what="`function`")
        answers: tuple[dict[str, JSON], ...] = ()
        gold: tuple[tuple[tuple[ToolCall, ...], ...], ...] = ()
        if self._category not in WITHOUT_ANSWERS:
            answers = tuple(json_object(item, what="an answer") for item in json_list(truth, what="`ground_truth`"))
            spoken = language(self._category)
            gold = ((tuple(example_call(item, functions=functions, language=spoken) for item in answers),),)
        elif self._category.endswith("irrelevance"):
            gold = ((),)  # the right thing to do is to call nothing
        system, requests = _requests(data)
        return Task(
            id=f"bfcl/{self._category}/{data['id']}",
            source="bfcl",
            kind=self._category,
            tools=tuple(_schema(json_object(item, what="a function"), language(self._category)) for item in functions),
            requests=requests,
            system=system,
            gold=gold,
            answers=answers,
        )

    def _multi_turn(self, data: Mapping[str, JSON], truth: JSON, docs: Path) -> Task:
        simulators = tuple(str(name) for name in json_list(data["involved_classes"], what="`involved_classes`"))
        hidden = json_list(data.get("excluded_function", []), what="`excluded_function`") if self._hide else []
        schemas = [schema for schema in _documented(simulators, docs) if schema.name not in hidden]
        missed = json_object(data.get("missed_function", {}), what="`missed_function`")
        held_out = {int(turn): json_list(names, what="`missed_function`") for turn, names in missed.items()}
        held_names = {name for names in held_out.values() for name in names}
        functions = {tool: method for name in simulators for tool, method in tool_functions(name).items()}
        config = json_object(data["initial_config"], what="`initial_config`")
        system, requests = _requests(data, revealing=held_out)
        return Task(
            id=f"bfcl/{self._category}/{data['id']}",
            source="bfcl",
            kind=self._category,
            tools=tuple(schema for schema in schemas if schema.name not in held_names),
            requests=requests,
            system=system,
            revealed_tools={
                turn: tuple(schema for schema in schemas if schema.name in names) for turn, names in held_out.items()
            },
            simulators=simulators,
            initial_state={name: config[name] for name in simulators if name in config},
            long_context=self._category == "multi_turn_long_context",
            gold=tuple(
                tuple((parse_call(str(source), functions=functions),) for source in json_list(turn, what="a gold turn"))
                for turn in json_list(truth, what="`ground_truth`")
            ),
        )


def _requests(
    data: Mapping[str, JSON], *, revealing: Container[int] = ()
) -> tuple[str, tuple[tuple[Message, ...], ...]]:
    """System prompt and user turns of a row. System messages that open the first turn are the system prompt."""
    turns: list[tuple[Message, ...]] = []
    system: list[str] = []
    for index, turn in enumerate(json_list(data["question"], what="`question`")):
        messages: list[Message] = []
        for item in json_list(turn, what="a user turn"):
            fields = json_object(item, what="a message")
            role, content = Role(str(fields["role"])), str(fields["content"])
            if role is Role.SYSTEM and index == 0 and not messages:
                system.append(content)
            else:
                messages.append(Message(role=role, content=content))
        if not messages and index in revealing:
            messages = [Message(role=Role.USER, content=_MORE_TOOLS)]
        if not messages:
            raise DataError(f"Expected user turn {index} to hold a message, but got none")
        turns.append(tuple(messages))
    return "\n\n".join(system), tuple(turns)


def _documented(simulators: Sequence[str], docs: Path) -> list[ToolSchema]:
    """Schemas of all tools of the simulators, with upstream's language hint."""
    for name in simulators:
        if name not in SIMULATORS:
            raise DataError(f"Expected `involved_classes` among {', '.join(SIMULATORS)}, but got {name!r}")
    schemas = [schema for name in simulators for schema in _documents(docs / f"{SIMULATORS[name]}.json")]
    return [replace(schema, description=schema.description + _HINTS["python"]) for schema in schemas]


@lru_cache(maxsize=64)
def _documents(path: Path) -> tuple[ToolSchema, ...]:
    return read_tool_schemas(path)


def _schema(function: Mapping[str, JSON], spoken: str) -> ToolSchema:
    parameters = json_object(function["parameters"], what="`parameters`")
    if spoken != "python":
        properties = json_object(parameters.get("properties", {}), what="`properties`")
        written: dict[str, JSON] = {
            name: _literal_parameter(json_object(value, what=f"parameter `{name}`"), spoken)
            for name, value in properties.items()
        }
        parameters = {**parameters, "properties": written}
    return ToolSchema(
        name=str(function["name"]),
        description=str(function.get("description", "")) + _HINTS[spoken],
        parameters=to_json_schema(parameters),
    )


def _literal_parameter(parameter: Mapping[str, JSON], spoken: str) -> dict[str, JSON]:
    """A Java or JavaScript parameter as upstream presents it: a string, its type told in the description."""
    name = {"java": "Java", "javascript": "JavaScript"}[spoken]
    kind, text = str(parameter.get("type", "any")), str(parameter.get("description", ""))
    if kind == "any":
        text += f" This parameter can be of any type of {name} object in string representation."
    else:
        text += f" This is {name} {kind} type parameter in string representation."
    dropped = {"type", "description"}
    items, inner = parameter.get("items"), parameter.get("properties")
    if isinstance(items, dict):
        dropped.add("items")
        text += f" The list elements are of type {items.get('type')}; they are not in string representation."
    if isinstance(inner, dict) and spoken == "javascript":
        dropped.add("properties")
        text += (
            " The dictionary entries have the following schema; they are not in string representation. "
            f"{json.dumps(inner)}"
        )
    kept = {key: value for key, value in parameter.items() if key not in dropped}
    return {**kept, "type": "string", "description": text}
