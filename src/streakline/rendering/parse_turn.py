"""Sampled ids to an assistant message, where only real tokens give structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from streakline.rendering.encoder import GuardedEncoder, map_texts
from streakline.rendering.hermes import THINK_OPEN, ParsedAssistant, parse_assistant
from streakline.types import Message


def until_terminator(token_ids: Sequence[int], terminator_id: int) -> list[int]:
    """Cut ids before the first terminator; all of them where there is none."""
    ids = list(token_ids)
    return ids[: ids.index(terminator_id)] if terminator_id in ids else ids


def parse_turn(
    token_ids: Sequence[int],
    *,
    encoder: GuardedEncoder,
    terminator_id: int,
    opens_thinking: bool,
    close_thinking: bool = False,
) -> ParsedAssistant:
    """Read a sampled turn in the Hermes format, up to its first terminator. Never raises because of what was sampled.

    Where `<tool_call>` or `<think>` is a token of the vocabulary, only that token counts: the same characters written
    by other tokens are text. With `opens_thinking`, the generation prompt left thinking open. `close_thinking` is that
    of `parse_assistant`.
    """
    text = encoder.decode_escaped(until_terminator(token_ids, terminator_id))
    parsed = parse_assistant(f"{THINK_OPEN}{text}" if opens_thinking else text, close_thinking=close_thinking)
    return replace(parsed, message=map_message(parsed.message, encoder.unescape))


def map_message(message: Message, change: Callable[[str], str]) -> Message:
    """Change all texts of a message, such as by `GuardedEncoder.escape`, so that none can pass for structure."""
    calls = tuple(
        replace(
            call,
            name=change(call.name),
            arguments={change(key): map_texts(value, change) for key, value in call.arguments.items()},
            id=change(call.id),
        )
        for call in message.tool_calls
    )
    return replace(
        message,
        content=change(message.content),
        thinking=change(message.thinking),
        name=change(message.name),
        tool_call_id=change(message.tool_call_id),
        tool_calls=calls,
    )
