"""A tokenizer's chat template as a function from messages to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, final

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import _compile_jinja_template

from streakline.errors import ConfigError
from streakline.types import JSON

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
        self, messages: Sequence[TemplateMessage], *, tools: Sequence[ToolSpec] = (), generation_prompt: bool = True
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
