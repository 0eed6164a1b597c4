"""A tokenizer's chat template as a function from messages to text, and messages as it reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, final

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import _compile_jinja_template

from streakline.errors import ConfigError
from streakline.rendering.encoder import GuardedEncoder, map_message
from streakline.rendering.hermes import serialize_assistant
from streakline.types import JSON, Message, Role, ToolCall

TemplateMessage: TypeAlias = dict[str, JSON]
"""A message as chat templates read it: `role`, `content`, `reasoning_content`, `tool_calls`, ..."""

ToolSpec: TypeAlias = "str | dict[str, JSON]"
"""A tool as chat templates read it: OpenAI's function schema, or a short text."""


@final
class ChatTemplate:
    """The compiled chat template of a tokenizer.

    It renders what `tokenizer.apply_chat_template(tokenize=False)` does, by the same sandboxed compiler, with two
    differences: tools may be plain texts (`schema_style="short"`), and the checks of each call are left out, since an
    agent renders thousands of short texts a step. Of several templates, the one for tools is taken; it is given
    `variables` (such as `enable_thinking`) with the tokenizer's special tokens.

    Raises:
        ConfigError: If the tokenizer has no chat template, or it doesn't compile.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, variables: Mapping[str, JSON] | None = None) -> None:
        if not tokenizer.chat_template:
            raise ConfigError(
                f"Expected tokenizer {tokenizer.name_or_path!r} to have a chat template, but it has none; "
                "give one by `chat_template`"
            )
        self.name: str = tokenizer.name_or_path
        self.source: str = tokenizer.get_chat_template(None, tools=[{}])
        self._variables = {**tokenizer.special_tokens_map, **(variables or {})}
        try:
            self._template = _compile_jinja_template(self.source)
        except TemplateError as error:
            raise ConfigError(f"Expected `chat_template` to be valid Jinja, but got: {error}") from error

    def render(
        self, messages: Sequence[TemplateMessage], *, tools: Sequence[JSON] = (), generation_prompt: bool = True
    ) -> str:
        """Render a conversation, special tokens spelled out; `generation_prompt` adds the next assistant turn's header.

        Raises:
            ConfigError: If the template refuses the messages, as some do for a system prompt or tool results.
        """
        try:
            text: str = self._template.render(
                messages=list(messages),
                tools=list(tools) or None,
                documents=None,
                add_generation_prompt=generation_prompt,
                **self._variables,
            )
        except (TemplateError, TypeError) as error:
            roles = ", ".join(str(message["role"]) for message in messages)
            raise ConfigError(
                f"Expected a chat template that can write the roles [{roles}], but got: {error}"
            ) from error
        return text


def template_message(
    message: Message, encoder: GuardedEncoder, *, native_thinking: bool = True, native_calls: bool = True
) -> TemplateMessage:
    """Write a message as chat templates read it, its texts escaped.

    Thinking and calls stand in fields of their own where they are native to the template, else in the content.
    Arguments are objects, so that the template writes them as JSON once.
    """
    escaped = map_message(message, encoder.escape)
    entry: TemplateMessage = {"role": message.role.value}
    if message.role is not Role.ASSISTANT:
        named = {"name": escaped.name, "tool_call_id": escaped.tool_call_id}
        return {**entry, "content": escaped.content, **{key: value for key, value in named.items() if value}}
    thinking, calls = escaped.thinking, escaped.tool_calls
    said = replace(escaped, thinking="" if native_thinking else thinking, tool_calls=() if native_calls else calls)
    entry["content"] = serialize_assistant(said)
    if native_thinking and thinking:
        entry["reasoning_content"] = thinking
    if native_calls and calls:
        entry["tool_calls"] = [_call_entry(call) for call in calls]
    return entry


def _call_entry(call: ToolCall) -> JSON:
    entry: dict[str, JSON] = {"type": "function", "function": {"name": call.name, "arguments": dict(call.arguments)}}
    return {**entry, "id": call.id} if call.id else entry
