"""Conversations that the rendering tests share."""

import json

from streakline.types import JSON, Message, Role, ToolCall, ToolSchema

LS = ToolSchema(
    name="ls",
    description="List a folder.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
MV = ToolSchema(
    name="mv",
    description="Move a file.",
    parameters={"type": "object", "properties": {"source": {"type": "string"}, "to": {"type": "string"}}},
)

SYSTEM = Message(role=Role.SYSTEM, content="Help.")
REQUEST = Message(role=Role.USER, content="List the folder Größe, then tell me.")
CALL = Message(role=Role.ASSISTANT, content="Sure.", tool_calls=(ToolCall(name="ls", arguments={"path": "Größe"}),))
CALLS = Message(
    role=Role.ASSISTANT,
    tool_calls=(
        ToolCall(name="ls", arguments={"path": "a"}),
        ToolCall(name="mv", arguments={"source": "a", "to": "b"}),
    ),
)
RESULT = Message(role=Role.TOOL, name="ls", content='{"entries": ["a", "b"]}')
RESULTS = (RESULT, Message(role=Role.TOOL, name="mv", content='{"ok": true}'))
ANSWER = Message(role=Role.ASSISTANT, content="It holds a and b.")
FOLLOW_UP = Message(role=Role.USER, content="Thanks. And now?")


def thinking(message: Message, thought: str = "Let me see.") -> Message:
    """The same assistant message with thinking."""
    return Message(role=message.role, content=message.content, thinking=thought, tool_calls=message.tool_calls)


def as_hugging_face(message: Message, *, fold_calls: bool = False) -> dict[str, JSON]:
    """A message as `apply_chat_template` takes it, written independently of the package."""
    entry: dict[str, JSON] = {"role": message.role.value, "content": message.content}
    if message.thinking:
        entry["reasoning_content"] = message.thinking
    if message.name:
        entry["name"] = message.name
    calls = [{"name": call.name, "arguments": dict(call.arguments)} for call in message.tool_calls]
    if calls and fold_calls:
        blocks = [f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>" for call in calls]
        entry["content"] = "\n".join([*([message.content] if message.content else []), *blocks])
    elif calls:
        entry["tool_calls"] = [{"type": "function", "function": call} for call in calls]
    return entry


def as_function(tool: ToolSchema) -> dict[str, JSON]:
    """A tool as `apply_chat_template` takes it."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }
