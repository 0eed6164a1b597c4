"""Conversations as lines of JSON, in the message format that OpenAI's API made common.

One object a line::

    {"task_id": "a/1", "messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "",
     "tool_calls": [{"id": "c0", "type": "function", "function": {"name": "ls", "arguments": {"a": true}}}]}, ...],
     "tools": [{"type": "function", "function": {"name": "ls", "description": "...", "parameters": {...}}}]}

`arguments` may be an object or JSON text of one; objects are written. `reasoning_content` holds the thinking. Other
keys are left alone, so that scores and reasons can stand beside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from streakline.data.jsonl import json_fault, parse_object, read_jsonl
from streakline.errors import DataError
from streakline.types import JSON, Message, Role, ToolCall, ToolSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Messages in order, and the tools that were on offer."""

    task_id: str
    """Task that it is about; unique within its source."""
    messages: tuple[Message, ...]
    """All messages, at least one of them from the assistant."""
    tools: tuple[ToolSchema, ...] = ()
    """Tools on offer from the start; empty = none."""
    revealed_tools: Mapping[int, tuple[ToolSchema, ...]] | None = None
    """User turn (0-based) -> tools on offer from that turn on; None = none."""
    num_given: int | None = None
    """Leading messages that were given with the request, assistant messages among them; None = those before the first
    assistant message."""


def read_conversations(
    path: str | Path, *, limit: int | None = None, min_reward: float | None = None
) -> tuple[Conversation, ...]:
    """Read at least one conversation, the first `limit` of them.

    Rows whose `reward` is lower than `min_reward`, or missing, are left out; None = all rows are taken.

    Raises:
        DataError: If the file is missing or empty, or a row is malformed; it names the file and the line.
    """
    conversations = tuple(islice(_chosen(path, min_reward), limit))
    if not conversations:
        wanted = "conversation" if min_reward is None else f"conversation with a reward of {min_reward} or more"
        raise DataError(f"Expected {path} to hold at least one {wanted}, but got none")
    return conversations


def read_conversation(line: str | bytes, *, where: str) -> Conversation:
    """Read one line, named by its place without a `task_id`; raises `DataError`, which names `where`, if malformed."""
    return _Reader(where).conversation(parse_object(line, where=where))


def read_messages(value: JSON, *, where: str) -> tuple[Message, ...]:
    """Read the `messages` of a row, of whatever roles: an episode may have failed before its first turn.

    Raises:
        DataError: If one is malformed; the message names `where`.
    """
    return _Reader(where).messages(value)


def message_to_json(message: Message) -> dict[str, JSON]:
    """One message as an object; empty fields but `content` are left out.

    Example:
        >>> message_to_json(Message(role=Role.USER, content="hello"))
        {'role': 'user', 'content': 'hello'}
    """
    calls: list[JSON] = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": dict(call.arguments)}}
        for call in message.tool_calls
    ]
    fields: dict[str, JSON] = {
        "role": message.role.value,
        "content": message.content,
        "reasoning_content": message.thinking,
        "tool_calls": calls,
        "name": message.name,
        "tool_call_id": message.tool_call_id,
    }
    return {name: value for name, value in fields.items() if value or name == "content"}


def tool_to_json(tool: ToolSchema) -> dict[str, JSON]:
    """One tool as an object."""
    parameters: dict[str, JSON] = dict(tool.parameters)
    function: dict[str, JSON] = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _chosen(path: str | Path, min_reward: float | None) -> Iterator[Conversation]:
    for number, fields in read_jsonl(path):
        reward = fields.get("reward")
        if min_reward is None or (isinstance(reward, int | float) and reward >= min_reward):
            named = fields | {"task_id": fields.get("task_id") or f"row/{number}"}
            yield _Reader(f"{path}, line {number}").conversation(named)


class _Reader:
    """Turns one row into records; `where` goes into every complaint."""

    def __init__(self, where: str) -> None:
        self._where = where

    def conversation(self, fields: Mapping[str, JSON]) -> Conversation:
        messages = self.messages(fields.get("messages"))
        if not any(message.role is Role.ASSISTANT for message in messages):
            raise self._fault("`messages` with an assistant message", f"{len(messages)} messages without one")
        return Conversation(
            task_id=str(fields.get("task_id") or self._where),
            messages=messages,
            tools=tuple(self._tool(tool) for tool in self._list(fields.get("tools") or [], "tools")),
        )

    def messages(self, value: JSON) -> tuple[Message, ...]:
        return tuple(self._message(message) for message in self._list(value, "messages"))

    def _message(self, value: JSON) -> Message:
        fields = self._object(value, "a message as an object")
        role = fields.get("role")
        if role not in set(Role):
            raise self._fault(f"`role` to be one of {', '.join(Role)}", repr(role))
        calls = tuple(self._call(call) for call in self._list(fields.get("tool_calls") or [], "tool_calls"))
        if calls and role != Role.ASSISTANT:
            raise self._fault("`tool_calls` only on an assistant message", f"role {role!r}")
        return Message(
            role=Role(str(role)),
            content=self._text(fields.get("content"), "content"),
            thinking=self._text(fields.get("reasoning_content"), "reasoning_content"),
            tool_calls=calls,
            name=self._text(fields.get("name"), "name"),
            tool_call_id=self._text(fields.get("tool_call_id"), "tool_call_id"),
        )

    def _call(self, value: JSON) -> ToolCall:
        fields = self._object(value, "a tool call as an object")
        function = self._object(fields.get("function"), "`function` of a tool call to be an object")
        arguments = function.get("arguments")
        if isinstance(arguments, str) and arguments:
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError) as error:
                raise self._fault("`arguments` to be JSON", json_fault(error)) from error
        return ToolCall(
            name=self._name(function),
            arguments=self._object({} if arguments in (None, "") else arguments, "`arguments` to be an object"),
            id=self._text(fields.get("id"), "id"),
        )

    def _tool(self, value: JSON) -> ToolSchema:
        fields = self._object(value, "a tool as an object")
        function = self._object(fields.get("function", fields), "`function` of a tool to be an object")
        parameters = self._object(function.get("parameters") or {}, "`parameters` to be an object")
        return ToolSchema(
            name=self._name(function),
            description=self._text(function.get("description"), "description"),
            parameters=parameters or {"type": "object", "properties": {}},
        )

    def _name(self, fields: Mapping[str, JSON]) -> str:
        name = fields.get("name")
        if not isinstance(name, str) or not name:
            raise self._fault("`name` of a tool to be a non-empty text", repr(name))
        return name

    def _object(self, value: JSON, expected: str) -> dict[str, JSON]:
        if not isinstance(value, dict):
            raise self._fault(expected, type(value).__name__)
        return value

    def _list(self, value: JSON, name: str) -> Sequence[JSON]:
        if not isinstance(value, list):
            raise self._fault(f"`{name}` to be a list", type(value).__name__)
        return value

    def _text(self, value: JSON, name: str) -> str:
        if value is not None and not isinstance(value, str):
            raise self._fault(f"`{name}` to be a text", type(value).__name__)
        return value or ""

    def _fault(self, expected: str, got: str) -> DataError:
        return DataError(f"Expected {expected} in {self._where}, but got {got}")
