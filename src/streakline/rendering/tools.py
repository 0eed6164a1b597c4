"""How a policy is told of its tools: their order, and the style of their schemas."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Literal

from streakline.rendering.jinja import ToolSpec
from streakline.rendering.policy import RenderingPolicy
from streakline.types import JSON, Message, Role, ToolSchema


def order_tools(
    tools: Sequence[ToolSchema], *, order: Literal["given", "sorted", "shuffled"], task_id: str = ""
) -> tuple[ToolSchema, ...]:
    """Put tools into an order: `sorted` by name, `shuffled` by a hash of task id and name, the same in every run.

    Example:
        >>> tools = [ToolSchema(name="mv"), ToolSchema(name="ls")]
        >>> [tool.name for tool in order_tools(tools, order="sorted")]
        ['ls', 'mv']
    """
    if order == "given":
        return tuple(tools)
    if order == "sorted":
        return tuple(sorted(tools, key=lambda tool: tool.name))
    return tuple(sorted(tools, key=lambda tool: hashlib.sha256(f"{task_id}\0{tool.name}".encode()).digest()))


def short_schema(tool: ToolSchema) -> str:
    """Write a tool as `name(argument, argument)`.

    Example:
        >>> short_schema(ToolSchema(name="mv", parameters={"type": "object", "properties": {"source": {}, "to": {}}}))
        'mv(source, to)'
    """
    properties = tool.parameters.get("properties")
    return f"{tool.name}({', '.join(properties if isinstance(properties, Mapping) else ())})"


def full_schema(tool: ToolSchema) -> dict[str, JSON]:
    """Write a tool as OpenAI's function schema."""
    function: JSON = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def tool_spec(tool: ToolSchema, *, style: Literal["full", "short"]) -> ToolSpec:
    """Write a tool as chat templates take it, by `full_schema` or `short_schema`."""
    return short_schema(tool) if style == "short" else full_schema(tool)


def announce_tools(
    messages: Sequence[Message], new_tools: Sequence[ToolSchema], *, policy: RenderingPolicy
) -> tuple[Message, ...]:
    r"""Tell of tools that are revealed in the middle of a conversation.

    The system prompt, where templates list tools, has been read already. So new tools stand in the last new user
    message before its text; where there is no user message, one is added::

        New tools:
        mv(source, to)

        Move it.
    """
    if not new_tools:
        return tuple(messages)
    specs = (tool_spec(tool, style=policy.schema_style) for tool in order_tools(new_tools, order=policy.tool_order))
    lines = (spec if isinstance(spec, str) else json.dumps(spec, ensure_ascii=False) for spec in specs)
    block = "\n".join(("New tools:", *lines))
    users = [index for index, message in enumerate(messages) if message.role is Role.USER]
    if not users:
        return (*messages, Message(role=Role.USER, content=block))
    last = users[-1]
    told = Message(role=Role.USER, content=f"{block}\n\n{messages[last].content}")
    return (*messages[:last], told, *messages[last + 1 :])
