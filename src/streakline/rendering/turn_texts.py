"""Texts of single turns, cut out of what the chat template writes for a short conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

from streakline.errors import DataError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.jinja import ChatTemplate, TemplateMessage, ToolSpec
from streakline.rendering.turn_format import PROBE, USER, TurnFormat, template_message
from streakline.types import Message, Role

_ASSISTANT: TemplateMessage = {"role": "assistant", "content": PROBE}
_MAX_FRAMES = 1024


@final
class TurnTexts:
    """Writes texts, with marks where a message spells a structural token."""

    def __init__(self, template: ChatTemplate, turn_format: TurnFormat, encoder: GuardedEncoder) -> None:
        self._template = template
        self._format = turn_format
        self._encoder = encoder
        self._frames: dict[tuple[tuple[Role, str, str], ...], tuple[str, ...]] = {}

    def conversation(self, messages: Sequence[Message], *, tools: Sequence[ToolSpec]) -> str:
        """Text of a whole conversation and the generation prompt."""
        return self._template.render(self._entries(messages), tools=[self._escape_spec(spec) for spec in tools])

    def completion(self, message: Message) -> str:
        """Text of an assistant turn behind the generation prompt, terminator included.

        Raises:
            DataError: If the message can't follow the generation prompt.
        """
        text = self._template.render([USER, *self._entries([message])], generation_prompt=False)
        opening = self._format.opening
        if not text.startswith(opening):
            raise DataError(
                f"Expected an assistant message that can follow the generation prompt {self._format.header[-40:]!r}, "
                f"but got {'thinking' if message.thinking else 'no thinking'} and {message.content[:40]!r}"
            )
        end = text.rindex(self._format.terminator) + len(self._format.terminator)
        return text[len(opening) : end]

    def extension(self, messages: Sequence[Message]) -> str:
        """Text behind the terminator of an assistant turn: separator, new messages, generation prompt.

        No tools are rendered with it, however many the conversation has: their schemas are long, this text is asked for
        thousands of times a step, and templates write tools into the prompt only. Where the template copies contents as
        they are, what it writes around them is kept and used again.
        """
        frame = self._frame(messages)
        if not frame or not all(message.content for message in messages):
            return self._render_extension(self._entries(messages))
        contents = (self._encoder.escape(message.content) for message in messages)
        return "".join(part for pair in zip(frame, (*contents, ""), strict=True) for part in pair)

    def _frame(self, messages: Sequence[Message]) -> tuple[str, ...]:
        key = tuple((message.role, message.name, message.tool_call_id) for message in messages)
        frame = self._frames.get(key)
        if frame is None:
            if len(self._frames) >= _MAX_FRAMES:
                self._frames.clear()
            frame = self._frames[key] = self._find_frame(messages)
        return frame

    def _find_frame(self, messages: Sequence[Message]) -> tuple[str, ...]:
        # Space around quotes and a backslash: a template that trims contents, or writes them as JSON, changes these.
        contents = [f' \n"slot\\{index}"\n ' for index in range(len(messages))]
        slots = [replace(message, content=content) for message, content in zip(messages, contents, strict=True)]
        rest = self._render_extension(self._entries(slots))
        parts: list[str] = []
        for content in contents:
            before, found, rest = rest.partition(content)
            if not found:
                return ()
            parts.append(before)
        return (*parts, rest)

    def _render_extension(self, entries: list[TemplateMessage]) -> str:
        text = self._template.render([USER, _ASSISTANT, *entries])
        turn = text.index(self._format.terminator, text.index(PROBE))
        return text[turn + len(self._format.terminator) :]

    def _entries(self, messages: Sequence[Message]) -> list[TemplateMessage]:
        thinking, calls = self._format.native_thinking, self._format.native_calls
        return [
            template_message(message, self._encoder, native_thinking=thinking, native_calls=calls)
            for message in messages
        ]

    def _escape_spec(self, spec: ToolSpec) -> ToolSpec:
        if isinstance(spec, str):
            return self._encoder.escape(spec)
        return {key: self._encoder.escape_json(value) for key, value in spec.items()}
