"""What of a conversation a policy is shown: system prompt, earlier thinking, form of results, the context form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, TypeAlias

from streakline.rendering.hermes import serialize_assistant
from streakline.rendering.policy import RenderingPolicy
from streakline.types import JSON, Message, Role

AssistantTurn: TypeAlias = tuple[Message, tuple[Message, ...]]
"""An assistant message, and the messages up to the next one."""


def shown_history(messages: Sequence[Message], *, policy: RenderingPolicy) -> tuple[Message, ...]:
    """Apply system prompt, thinking history, form of results and template of a policy to a whole conversation.

    With `context`, what is left is a system message, if there is one, and one user message.
    """
    shown = format_results(_with_system_prompt(messages, policy), policy=policy)
    if policy.thinking != "keep":
        shown = drop_earlier_thinking(shown)
    return merge_into_context(shown) if policy.template == "context" else shown


def format_results(messages: Sequence[Message], *, policy: RenderingPolicy) -> tuple[Message, ...]:
    """Write the content of tool messages in the policy's format; other messages stay."""
    return tuple(
        replace(message, content=format_result(message.content, style=policy.tool_result_format))
        if message.role is Role.TOOL
        else message
        for message in messages
    )


def drop_earlier_thinking(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Drop the thinking of all assistant messages before the last user message, as Qwen3's own template does."""
    last_user = max((i for i, message in enumerate(messages) if message.role is Role.USER), default=0)
    return tuple(
        replace(message, thinking="") if index < last_user and message.thinking else message
        for index, message in enumerate(messages)
    )


def merge_into_context(messages: Sequence[Message]) -> tuple[Message, ...]:
    r"""Write the whole dialogue inside one user message; system messages before it stay.

    Example:
        >>> dialogue = [Message(role=Role.USER, content="List."), Message(role=Role.ASSISTANT, content="Done.")]
        >>> merge_into_context(dialogue)[0].content
        'user: List.\n\nassistant: Done.'
    """
    start = next((i for i, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    parts = (
        f"{message.role.value}: "
        + (serialize_assistant(message) if message.role is Role.ASSISTANT else message.content)
        for message in messages[start:]
    )
    return (*messages[:start], Message(role=Role.USER, content="\n\n".join(parts)))


def split_turns(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[AssistantTurn, ...]]:
    """Split a conversation into what stands before the first assistant message, and the assistant turns."""
    starts = [index for index, message in enumerate(messages) if message.role is Role.ASSISTANT]
    head = tuple(messages[: starts[0]] if starts else messages)
    turns = pairwise([*starts, len(messages)])
    return head, tuple((messages[start], tuple(messages[start + 1 : end])) for start, end in turns)


def starts_user_turn(messages: Sequence[Message]) -> bool:
    """Whether new messages hold a request, so that the policy's next turn answers a new user turn."""
    return any(message.role is Role.USER for message in messages)


def _with_system_prompt(messages: Sequence[Message], policy: RenderingPolicy) -> tuple[Message, ...]:
    if policy.system_prompt is None:
        return tuple(messages)
    rest = tuple(messages[1:] if messages and messages[0].role is Role.SYSTEM else messages)
    if not policy.system_prompt:
        return rest
    return (Message(role=Role.SYSTEM, content=policy.system_prompt), *rest)


def format_result(content: str, *, style: Literal["json", "text"]) -> str:
    r"""Write what a tool returned, JSON or plain text, in the style of a rendering policy.

    `json`: JSON as given, plain text as a JSON string. `text`: lines of `key: value`, plain text as given.

    Example:
        >>> format_result('{"id": 7, "tags": ["a", "b"]}', style="text")
        'id: 7\ntags:\n  - a\n  - b'
        >>> format_result("done", style="json")
        '"done"'
    """
    try:
        value: JSON = json.loads(content)
    except (ValueError, RecursionError):
        return content if style == "text" else json.dumps(content, ensure_ascii=False)
    return content if style == "json" else "\n".join(_lines(value))


def _lines(value: JSON) -> list[str]:
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in _entry(f"{key}:", item)]
    if isinstance(value, list) and value:
        return [line for item in value for line in _entry("-", item)]
    return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]


def _entry(head: str, item: JSON) -> list[str]:
    if isinstance(item, (dict, list)) and item:
        return [head, *(f"  {line}" for line in _lines(item))]
    return [f"{head} {_lines(item)[0]}"]
