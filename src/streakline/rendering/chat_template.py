"""Rendering by the tokenizer's own chat template, one difference of texts at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

from transformers import PreTrainedTokenizerFast

from streakline.errors import ConfigError, DataError
from streakline.rendering.append_only import check_append_only
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.hermes import ParsedAssistant
from streakline.rendering.jinja import ChatTemplate
from streakline.rendering.parse_turn import parse_turn
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.renderer import Renderer
from streakline.rendering.tools import tool_spec
from streakline.rendering.turn_format import find_turn_format
from streakline.rendering.turn_texts import TurnTexts
from streakline.types import JSON, Message, ToolSchema


@final
class ChatTemplateRenderer(Renderer):
    """Renders by the tokenizer's chat template.

    The template is asked for short conversations with and without the messages in question, and the difference is
    encoded. So the text is the template's own to the byte, while thinking may stay where the template alone would drop
    it: under thinking `keep`, a history is put together from the turns as they were when each was the last.

    What is special to a template is found by asking it: the terminator, whether it writes thinking and Hermes calls by
    itself (else they are put into the content), whether a conversation only grows under it.

    Raises:
        ConfigError: If the tokenizer has no chat template or lacks its special tokens, or if the template rewrites what
            it wrote when messages follow.

    Example::

        renderer = ChatTemplateRenderer(load_tokenizer("Qwen/Qwen3-0.6B"), RenderingPolicy())
        prompt = renderer.prompt([Message(role=Role.USER, content="List.")], tools=tools)
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, policy: RenderingPolicy) -> None:
        super().__init__(tokenizer, policy)
        variables: dict[str, JSON] = {}
        if policy.enable_thinking is not None:
            variables["enable_thinking"] = policy.enable_thinking
        self._template = ChatTemplate(tokenizer, variables=variables)
        self._encoder = GuardedEncoder(tokenizer, template=self._template.source)
        self._format = find_turn_format(self._template, self._encoder)
        self._terminator_id = self._format.terminator_id
        self._texts = TurnTexts(self._template, self._format, self._encoder)
        if policy.template == "native":
            check_append_only(self._texts, style=policy.schema_style)

    def completion(self, message: Message) -> tuple[int, ...]:
        """Render an assistant message as the policy would write it; see `Renderer.completion`."""
        ids = super().completion(message)
        if self.parse(ids).message.tool_calls != tuple(replace(call, id="") for call in message.tool_calls):
            raise DataError(
                "Expected an assistant message whose calls can be read back from its text, "
                f"but its text or thinking spells calls of its own: {message.content[:80]!r}"
            )
        return ids

    def parse(self, token_ids: Sequence[int], *, close_thinking: bool = False) -> ParsedAssistant:
        """Read a sampled turn; see `Renderer.parse` and `parse_turn`."""
        return parse_turn(
            token_ids,
            encoder=self._encoder,
            terminator_id=self._terminator_id,
            opens_thinking=self._format.opens_thinking,
            close_thinking=close_thinking,
        )

    def _encode_opening(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[int]:
        specs = [tool_spec(tool, style=self._policy.schema_style) for tool in tools]
        text = self._texts.conversation(messages, tools=specs)
        self._check_tools_shown(text, tools)
        return self._encoder.encode(text)

    def _encode_completion(self, message: Message) -> list[int]:
        return self._encoder.encode_after(self._format.header, self._texts.completion(message))

    def _encode_extension(self, messages: Sequence[Message]) -> list[int]:
        return self._encoder.encode_after(self._format.terminator, self._texts.extension(messages))

    def _identity(self) -> Sequence[JSON]:
        return self._template.source, self._format.terminator

    def _check_tools_shown(self, text: str, tools: Sequence[ToolSchema]) -> None:
        missing = [tool.name for tool in tools if self._encoder.escape(tool.name) not in text]
        if missing:
            raise ConfigError(
                f"Expected the chat template to show the tools, but it leaves out {missing[:3]}: "
                "it has no block for tools; give one that has by `chat_template`, such as 'hermes_chatml'"
            )
