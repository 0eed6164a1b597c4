"""Texts of single turns, cut out of what a chat template writes for short conversations; how it writes is asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias, final

from streakline.errors import ConfigError, DataError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.hermes import THINK_CLOSE, THINK_OPEN, parse_assistant
from streakline.rendering.jinja import ChatTemplate, TemplateMessage, ToolSpec, template_message
from streakline.types import Message, Role, ToolCall

PROBE = "probe-text"
"""Text of probing messages: plain, and nothing that a template treats in a special way."""

USER: TemplateMessage = {"role": "user", "content": "Hello"}
"""Request before a probed turn."""

_ASSISTANT: TemplateMessage = {"role": "assistant", "content": PROBE}
_THINKING = Message(role=Role.ASSISTANT, content=PROBE, thinking="probe-thinking")
_CALLS = Message(
    role=Role.ASSISTANT,
    tool_calls=(ToolCall(name="probe_a", arguments={"a": {"b": [1, "two"]}}), ToolCall(name="probe_b")),
)
_MAX_FRAMES = 1024

_Shape: TypeAlias = "tuple[tuple[Role, str, str], ...]"
"""Role, tool and call id of some messages."""


@final
class TurnTexts:
    """Writes texts, with marks where a message spells a structural token.

    Raises:
        ConfigError: If a turn doesn't go on from the generation prompt, or doesn't end with one special token.
    """

    def __init__(self, template: ChatTemplate, encoder: GuardedEncoder) -> None:
        self._template = template
        self._encoder = encoder
        self._frame = lru_cache(_MAX_FRAMES)(self._find_frame)
        self.opening = template.render([USER])
        """A short conversation up to and including its generation prompt."""
        self.header = self.opening.partition("Hello")[2]
        """The generation prompt: what stands between the terminator of a user message and the policy's first token."""
        self.terminator = self._find_terminator()
        """Text of the token that ends a turn."""
        self.opens_thinking = self.header.rfind(THINK_OPEN) > self.header.rfind(THINK_CLOSE)
        """Whether the generation prompt leaves thinking open, so that a turn begins inside it."""
        self.native_thinking = self.native_calls = True
        self.native_thinking = self._writes(_THINKING)
        """Whether the template writes `reasoning_content`; else thinking is put into the content in `<think>` tags."""
        self.native_calls = self._writes(_CALLS)
        """Whether the template writes `tool_calls` as Hermes blocks; else the blocks are put into the content."""

    def conversation(self, messages: Sequence[Message], *, tools: Sequence[ToolSpec]) -> str:
        """Text of a whole conversation and the generation prompt."""
        return self._template.render(self._entries(messages), tools=[self._encoder.escape_json(spec) for spec in tools])

    def completion(self, message: Message) -> str:
        """Text of an assistant turn behind the generation prompt, terminator included.

        Raises:
            DataError: If the message can't follow the generation prompt.
        """
        text = self._template.render([USER, *self._entries([message])], generation_prompt=False)
        if not text.startswith(self.opening):
            raise DataError(
                f"Expected an assistant message that can follow the generation prompt {self.header[-40:]!r}, "
                f"but got {'thinking' if message.thinking else 'no thinking'} and {message.content[:40]!r}"
            )
        return text[len(self.opening) : text.rindex(self.terminator) + len(self.terminator)]

    def extension(self, messages: Sequence[Message]) -> str:
        """Text behind the terminator of an assistant turn: separator, new messages, generation prompt.

        No tools are rendered with it, however many the conversation has: their schemas are long, this text is asked for
        thousands of times a step, and templates write tools into the prompt only. Where the template copies contents as
        they are, what it writes around them is kept and used again.
        """
        frame = self._frame(tuple((message.role, message.name, message.tool_call_id) for message in messages))
        if not frame or not all(message.content for message in messages):
            return self._render_extension(messages)
        contents = (self._encoder.escape(message.content) for message in messages)
        return "".join(part for pair in zip(frame, (*contents, ""), strict=True) for part in pair)

    def _find_frame(self, shape: _Shape) -> tuple[str, ...]:
        # Space around quotes and a backslash: a template that trims contents, or writes them as JSON, changes these.
        slots = [
            Message(role=role, name=name, tool_call_id=call_id, content=f' \n"slot\\{index}"\n ')
            for index, (role, name, call_id) in enumerate(shape)
        ]
        rest = self._render_extension(slots)
        parts: list[str] = []
        for slot in slots:
            before, found, rest = rest.partition(slot.content)
            if not found:
                return ()
            parts.append(before)
        return (*parts, rest)

    def _render_extension(self, messages: Sequence[Message]) -> str:
        text = self._template.render([USER, _ASSISTANT, *self._entries(messages)])
        turn = text.index(self.terminator, text.index(PROBE))
        return text[turn + len(self.terminator) :]

    def _find_terminator(self) -> str:
        whole = self._template.render([USER, _ASSISTANT], generation_prompt=False)
        if not whole.startswith(self.opening) or PROBE not in whole:
            raise ConfigError(
                "Expected a chat template that writes an assistant turn right after its generation prompt, "
                f"but got {whole[-60:]!r} where the prompt is {self.opening[-60:]!r}"
            )
        rest = whole.partition(PROBE)[2]
        candidates = [token for token in self._encoder.token_ids if rest.lstrip().startswith(token)]
        if not candidates:
            raise ConfigError(
                "Expected the chat template to end an assistant turn with a special token of tokenizer "
                f"{self._template.name!r}, but it ends with {rest!r}"
            )
        return max(candidates, key=len)

    def _writes(self, message: Message) -> bool:
        try:
            turn = self.completion(message).removesuffix(self.terminator)
        except ValueError:  # the template refuses the message, or doesn't end it like others
            return False
        return parse_assistant(f"{THINK_OPEN}{turn}" if self.opens_thinking else turn).message == message

    def _entries(self, messages: Sequence[Message]) -> list[TemplateMessage]:
        thinking, calls = self.native_thinking, self.native_calls
        return [
            template_message(message, self._encoder, native_thinking=thinking, native_calls=calls)
            for message in messages
        ]
