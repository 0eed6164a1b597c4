"""Worlds and tasks for the agent loop, without simulators."""

import json
from collections.abc import Callable

from streakline.environment.base import Environment
from streakline.types import Message, Role, Task, ToolCall, ToolResult, ToolSchema

SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}


def schema(name: str) -> ToolSchema:
    return ToolSchema(name=name, description=f"Do {name}.", parameters=SCHEMA)


def user(text: str) -> tuple[Message, ...]:
    return (Message(role=Role.USER, content=text),)


def task(*requests: tuple[Message, ...], name: str = "test/one", **fields) -> Task:
    return Task(
        id=name,
        source="test",
        kind="test",
        tools=(schema("look"), schema("put")),
        requests=requests or (user("Look."),),
        **fields,
    )


def call(name: str, **arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


class CountingWorld(Environment):
    """Answers `look` with a counter, refuses other tools, and keeps what it was asked."""

    def __init__(
        self,
        answer: Callable[[ToolCall, int], str] | None = None,
        *,
        done_after: int | None = None,
    ) -> None:
        self.calls: list[ToolCall] = []
        self.user_turns: list[int] = []
        self._answer = answer or (lambda call, count: json.dumps({"count": count}))
        self._done_after = done_after

    def begin_user_turn(self, index: int) -> None:
        self.user_turns.append(index)

    def execute(self, call: ToolCall) -> ToolResult:
        self.calls.append(call)
        if call.name not in {"look", "put"} or "key" not in call.arguments:
            return ToolResult(name=call.name, content='{"error": "no such tool"}', is_error=True, call_id=call.id)
        return ToolResult(name=call.name, content=self._answer(call, len(self.calls)), call_id=call.id)

    def state(self) -> dict:
        return {"calls": len(self.calls)}

    @property
    def done(self) -> bool:
        return self._done_after is not None and len(self.calls) >= self._done_after
