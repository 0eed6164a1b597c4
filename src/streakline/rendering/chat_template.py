"""Rendering by the tokenizer's own chat template, one difference of texts at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal, final

from transformers import PreTrainedTokenizerFast

from streakline.errors import ConfigError, DataError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.hermes import THINK_CLOSE, THINK_OPEN, ParsedAssistant
from streakline.rendering.jinja import ChatTemplate
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.renderer import Renderer
from streakline.rendering.tools import tool_spec
from streakline.rendering.turn_texts import TurnTexts
from streakline.types import JSON, Message, Role, ToolCall, ToolSchema

_THINKING = re.compile(rf"{THINK_OPEN}.*?{THINK_CLOSE}\n*", re.DOTALL)
_TOOL = ToolSchema(name="probe_tool", description="Probe.")
_CALL = Message(role=Role.ASSISTANT, content="One.", tool_calls=(ToolCall(name="probe_tool", arguments={"a": 1}),))
_ANSWER = Message(role=Role.ASSISTANT, content="Two.")
_RESULTS = [Message(role=Role.TOOL, name="probe_tool", content='{"b": 2}')]
_REQUEST = Message(role=Role.USER, content="Next.")


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
        self._template = ChatTemplate(tokenizer, variables=policy.template_variables)
        self.encoder = GuardedEncoder(tokenizer, template=self._template.source)
        self._texts = TurnTexts(self._template, self.encoder)
        self.terminator_id = self.encoder.token_ids[self._texts.terminator]
        if policy.template == "native":
            _check_append_only(self._texts, style=policy.schema_style)

    def completion(self, message: Message) -> tuple[int, ...]:
        """Render an assistant message as the policy would write it; see `Renderer.completion`."""
        ids = super().completion(message)
        if self.parse(ids).message.tool_calls != tuple(replace(call, id="") for call in message.tool_calls):
            raise DataError(
                "Expected an assistant message whose calls can be read back from its text, "
                f"but its text or thinking spells calls of its own: {message.content[:80]!r}"
            )
        return ids

    def _parse(self, token_ids: Sequence[int], *, close_thinking: bool) -> ParsedAssistant:
        return self._parse_hermes(token_ids, opens_thinking=self._texts.opens_thinking, close_thinking=close_thinking)

    def _encode_opening(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[int]:
        specs = [tool_spec(tool, style=self.policy.schema_style) for tool in tools]
        text = self._texts.conversation(messages, tools=specs)
        self._check_tools_shown(text, tools)
        return self.encoder.encode(text)

    def _encode_completion(self, message: Message) -> list[int]:
        return self.encoder.encode_after(self._texts.header, self._texts.completion(message))

    def _encode_extension(self, messages: Sequence[Message]) -> list[int]:
        return self.encoder.encode_after(self._texts.terminator, self._texts.extension(messages))

    def _identity(self) -> Sequence[JSON]:
        return self._template.source, self._texts.terminator

    def _check_tools_shown(self, text: str, tools: Sequence[ToolSchema]) -> None:
        missing = [tool.name for tool in tools if self.encoder.escape(tool.name) not in text]
        if missing:
            raise ConfigError(
                f"Expected the chat template to show the tools, but it leaves out {missing[:3]}: "
                "it has no block for tools; give one that has by `chat_template`, such as 'hermes_chatml'"
            )


def _check_append_only(texts: TurnTexts, *, style: Literal["full", "short"]) -> None:
    """Check that the whole of a conversation is what its turns add up to.

    Thinking is left out of the comparison: whether earlier thinking stays is the rendering policy's choice, and a stock
    template that drops it can serve all three choices. All else must stay: a template that, say, moves the tools to the
    last user message makes each prompt a stranger to the turn before.

    Raises:
        ConfigError: If a later message changes what stood before it; the text says where.
    """
    head = _head(texts)
    tools = [tool_spec(_TOOL, style=style)]
    grown = "".join(
        (
            texts.conversation(head, tools=tools),
            texts.completion(_CALL),
            texts.extension(_RESULTS),
            texts.completion(_ANSWER),
            texts.extension([_REQUEST]),
        )
    )
    whole = texts.conversation([*head, _CALL, *_RESULTS, _ANSWER, _REQUEST], tools=tools)
    grown, whole = _THINKING.sub("", grown), _THINKING.sub("", whole)
    if grown == whole:
        return
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(grown, whole, strict=False)))
    start = max(same - 20, 0)
    raise ConfigError(
        "Expected a chat template under which a conversation only grows, but later messages change "
        f"{grown[start : same + 40]!r} into {whole[start : same + 40]!r}; use `template: context`, or another template"
    )


def _head(texts: TurnTexts) -> list[Message]:
    user = Message(role=Role.USER, content="First.")
    with_system = [Message(role=Role.SYSTEM, content="Help."), user]
    try:
        texts.conversation(with_system, tools=())
    except ConfigError:
        # Some families know no system role; a task that has a system prompt will say so when it is rendered.
        return [user]
    return with_system
