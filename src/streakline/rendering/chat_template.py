"""Rendering by the tokenizer's own chat template, one difference of texts at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from transformers import PreTrainedTokenizerFast

from streakline.errors import ConfigError, DataError
from streakline.rendering.append_only import check_append_only
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.hermes import ParsedAssistant
from streakline.rendering.history import format_results, shown_history, split_turns
from streakline.rendering.jinja import ChatTemplate, ToolSpec
from streakline.rendering.parse_turn import parse_turn
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.renderer import Renderer
from streakline.rendering.tools import announce_tools, order_tools, tool_spec
from streakline.rendering.turn_format import find_turn_format
from streakline.rendering.turn_texts import TurnTexts
from streakline.types import JSON, Message, ToolSchema

__all__ = ["ChatTemplateRenderer"]


@final
class ChatTemplateRenderer(Renderer):
    """Renders by the tokenizer's chat template.

    The template is asked for short conversations with and without the messages in question, and the difference is
    encoded. So the text is the template's own to the byte, while thinking may stay where the template alone would drop
    it: under thinking `keep`, a history is put together from the turns as they were when each was the last.

    What is special to a template is found by asking it: the terminator, whether it writes thinking and Hermes calls by
    itself (else they are put into the content), whether a conversation only grows under it.

    Args:
        tokenizer: Tokenizer with a chat template.
        policy: Choices to render by.

    Raises:
        ConfigError: If the tokenizer has no chat template or lacks its special tokens, or if the template rewrites what
            it wrote when messages follow.

    Example::

        renderer = ChatTemplateRenderer(load_tokenizer("Qwen/Qwen3-0.6B"), RenderingPolicy())
        prompt = renderer.prompt([Message(role=Role.USER, content="List.")], tools=tools)
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, policy: RenderingPolicy) -> None:
        self._tokenizer = tokenizer
        self._policy = policy
        variables: dict[str, JSON] = {}
        if policy.enable_thinking is not None:
            variables["enable_thinking"] = policy.enable_thinking
        self._template = ChatTemplate(tokenizer, variables=variables)
        self._encoder = GuardedEncoder(tokenizer, template=self._template.source)
        self._format = find_turn_format(self._template, self._encoder)
        self._texts = TurnTexts(self._template, self._format, self._encoder)
        if policy.template == "native":
            check_append_only(self._texts, style=policy.schema_style)

    @property
    def policy(self) -> RenderingPolicy:
        """The choices it renders by."""
        return self._policy

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer it renders for."""
        return self._tokenizer

    @property
    def terminator_id(self) -> int:
        """Token that ends an assistant turn, as the template writes it."""
        return self._format.terminator_id

    def prompt(self, messages: Sequence[Message], *, tools: Sequence[ToolSchema], task_id: str = "") -> tuple[int, ...]:
        """Render a whole conversation and the generation prompt; see `Renderer.prompt`."""
        if not messages:
            raise DataError(f"Expected `messages` of task {task_id!r} to hold at least one message, but got none")
        shown = shown_history(messages, policy=self._policy)
        opening, turns = split_turns(shown) if self.append_only else (shown, ())
        head = self._texts.conversation(opening, tools=self._specs(tools, task_id))
        self._check_tools_shown(head, tools)
        ids = self._encoder.encode(head)
        for message, following in turns:
            ids += self._encode_completion(message)
            ids += self._encode_extension(following)
        return tuple(ids)

    def completion(self, message: Message) -> tuple[int, ...]:
        """Render an assistant message as the policy would write it; see `Renderer.completion`."""
        ids = self._encode_completion(message)
        if self.parse(ids).message.tool_calls != tuple(replace(call, id="") for call in message.tool_calls):
            raise DataError(
                "Expected an assistant message whose calls can be read back from its text, "
                f"but its text or thinking spells calls of its own: {message.content[:80]!r}"
            )
        return tuple(ids)

    def extension(self, messages: Sequence[Message], *, new_tools: Sequence[ToolSchema] = ()) -> tuple[int, ...]:
        """Render what follows an assistant turn; see `Renderer.extension`."""
        if self._policy.template == "context":
            raise ConfigError("Expected `template` to be 'native' for an extension, but got 'context'")
        shown = format_results(announce_tools(messages, new_tools, policy=self._policy), policy=self._policy)
        return tuple(self._encode_extension(shown))

    def parse(self, token_ids: Sequence[int]) -> ParsedAssistant:
        """Read a sampled turn; see `Renderer.parse` and `parse_turn`."""
        return parse_turn(
            token_ids,
            encoder=self._encoder,
            terminator_id=self._format.terminator_id,
            opens_thinking=self._format.opens_thinking,
        )

    def digest(self) -> str:
        """Identity of the rendering; see `Renderer.digest`."""
        identity = [self._policy.digest(), self._template.source, self._format.terminator]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def _encode_completion(self, message: Message) -> list[int]:
        return self._encoder.encode_after(self._format.header, self._texts.completion(message))

    def _encode_extension(self, messages: Sequence[Message]) -> list[int]:
        return self._encoder.encode_after(self._format.terminator, self._texts.extension(messages))

    def _specs(self, tools: Sequence[ToolSchema], task_id: str) -> list[ToolSpec]:
        ordered = order_tools(tools, order=self._policy.tool_order, task_id=task_id)
        return [tool_spec(tool, style=self._policy.schema_style) for tool in ordered]

    def _check_tools_shown(self, text: str, tools: Sequence[ToolSchema]) -> None:
        missing = [tool.name for tool in tools if self._encoder.escape(tool.name) not in text]
        if missing:
            raise ConfigError(
                f"Expected the chat template to show the tools, but it leaves out {missing[:3]}: "
                "it has no block for tools; give one that has by `chat_template`, such as 'hermes_chatml'"
            )
