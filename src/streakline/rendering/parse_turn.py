"""Sampled ids to an assistant message, where only real tokens give structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.hermes import THINK_OPEN, ParsedAssistant, parse_assistant
from streakline.types import Message, ToolCall

__all__ = ["escape_message", "parse_turn", "until_terminator"]


def until_terminator(token_ids: Sequence[int], terminator_id: int) -> list[int]:
    """Cut ids before the first terminator; all of them where there is none."""
    ids = list(token_ids)
    return ids[: ids.index(terminator_id)] if terminator_id in ids else ids


def parse_turn(
    token_ids: Sequence[int], *, encoder: GuardedEncoder, terminator_id: int, opens_thinking: bool
) -> ParsedAssistant:
    """Read a sampled turn in the Hermes format. Never raises because of what was sampled.

    Where `<tool_call>` or `<think>` is a token of the vocabulary, only that token counts: the same characters written
    by other tokens are text.

    Args:
        token_ids: Sampled ids; what stands behind the first terminator is ignored.
        encoder: Decodes them.
        terminator_id: Token that ends a turn.
        opens_thinking: Whether the generation prompt left thinking open.

    Returns:
        The turn, with one error for each malformed call.
    """
    text = encoder.decode_escaped(until_terminator(token_ids, terminator_id))
    parsed = parse_assistant(f"{THINK_OPEN}{text}" if opens_thinking else text)
    return replace(parsed, message=_unescape_message(parsed.message, encoder))


def escape_message(message: Message, encoder: GuardedEncoder) -> Message:
    """Escape all texts of a message, so that none can pass for structure."""
    calls = tuple(
        ToolCall(
            name=encoder.escape(call.name),
            arguments={encoder.escape(key): encoder.escape_json(value) for key, value in call.arguments.items()},
            id=call.id,
        )
        for call in message.tool_calls
    )
    return replace(
        message,
        content=encoder.escape(message.content),
        thinking=encoder.escape(message.thinking),
        name=encoder.escape(message.name),
        tool_calls=calls,
    )


def _unescape_message(message: Message, encoder: GuardedEncoder) -> Message:
    calls = tuple(
        ToolCall(
            name=encoder.unescape(call.name),
            arguments={encoder.unescape(key): encoder.unescape_json(value) for key, value in call.arguments.items()},
        )
        for call in message.tool_calls
    )
    content, thinking = encoder.unescape(message.content), encoder.unescape(message.thinking)
    return replace(message, content=content, thinking=thinking, tool_calls=calls)
