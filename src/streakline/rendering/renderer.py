"""Between messages and tokens: what all renderers share, and what each writes in its own way."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from transformers import PreTrainedTokenizerFast

from streakline.errors import ConfigError, DataError
from streakline.rendering.encoder import GuardedEncoder, map_message
from streakline.rendering.hermes import THINK_CLOSE, THINK_OPEN, ParsedAssistant, parse_assistant
from streakline.rendering.history import format_results, shown_history, split_turns
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.tools import announce_tools, order_tools
from streakline.types import JSON, Message, Role, ToolSchema


class Renderer(ABC):
    """Turns messages into token ids and back, under one `RenderingPolicy`.

    A conversation is `prompt`, then for each assistant turn the ids that the policy sampled, then `extension` with what
    came back. Sampled ids are never decoded and encoded again. For a conversation that is written, not sampled,
    `completion` stands for the sampled ids, and under thinking `keep`::

        prompt([u1]) + completion(a1) + extension([t1])  ==  prompt([u1, a1, t1])
        <|im_start|>user u1<|im_end|>  a1<|im_end|>  <|im_start|>user t1<|im_end|>
        <|im_start|>assistant                        <|im_start|>assistant
    """

    encoder: GuardedEncoder
    """What it encodes texts by; made by each subclass."""
    terminator_id: int
    """Token that ends an assistant turn; found by each subclass."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, policy: RenderingPolicy) -> None:
        self.tokenizer = tokenizer
        """The tokenizer it renders for."""
        self.policy = policy
        """The choices it renders by."""

    @property
    def append_only(self) -> bool:
        """Whether every later prompt extends the earlier ones: native template, and thinking that stays."""
        return self.policy.template == "native" and self.policy.thinking == "keep"

    def extends(self, messages: Sequence[Message]) -> bool:
        """Whether the tokens so far stay as they are when new tool or user messages follow them.

        If so, go on with `extension`; else the history is rewritten: ask for a `prompt` of the whole conversation.
        """
        if self.policy.template == "context":
            return False
        return self.append_only or all(message.role is not Role.USER for message in messages)

    def prompt(self, messages: Sequence[Message], *, tools: Sequence[ToolSchema], task_id: str = "") -> tuple[int, ...]:
        """Render a whole conversation, which may hold assistant turns, and the generation prompt: [T] token ids.

        `tools` are all that the policy sees, revealed ones included; `task_id` is the seed of the order `shuffled`.

        Raises:
            ConfigError: If the template cannot show the tools or the messages.
            DataError: If there are no messages.
        """
        if not messages:
            raise DataError(f"Expected `messages` of task {task_id!r} to hold at least one message, but got none")
        shown = shown_history(messages, policy=self.policy)
        opening, turns = split_turns(shown) if self.append_only else (shown, ())
        ids = self._encode_opening(opening, order_tools(tools, order=self.policy.tool_order, task_id=task_id))
        for message, following in turns:
            ids += self._encode_completion(message)
            ids += self._encode_extension(following)
        return tuple(ids)

    def completion(self, message: Message) -> tuple[int, ...]:
        """Render an assistant message as the policy would write it: [T] token ids, the terminator last and only there.

        Raises:
            DataError: If the message is not one that the policy could write after the generation prompt.
        """
        if message.role is not Role.ASSISTANT:
            raise DataError(f"Expected an assistant message, but got role {message.role.value!r}")
        return tuple(self._encode_completion(message))

    def extension(
        self, messages: Sequence[Message], *, new_tools: Sequence[ToolSchema] = (), close_thinking: bool = False
    ) -> tuple[int, ...]:
        """Render what goes right after a terminator: separator, new tool and user messages, next generation prompt.

        `new_tools`, revealed with the messages, are told as a block of text in the user message. With `close_thinking`,
        a `</think>` comes before everything else. Gives [T] token ids.
        """
        if self.policy.template == "context":
            raise ConfigError("Expected `template` to be 'native' for an extension, but got 'context'")
        shown = format_results(announce_tools(messages, new_tools, policy=self.policy), policy=self.policy)
        closing = self.encoder.encode(THINK_CLOSE) if close_thinking else []
        return (*closing, *self._encode_extension(shown))

    def parse(self, token_ids: Sequence[int], *, close_thinking: bool = False) -> ParsedAssistant:
        """Read a sampled turn up to its first terminator. Never raises because of what was sampled.

        With `close_thinking`, whole calls in thinking that never ends are calls; else nothing in thinking is one.
        """
        ids = list(token_ids)
        end = ids.index(self.terminator_id) if self.terminator_id in ids else len(ids)
        return self._parse(ids[:end], close_thinking=close_thinking)

    def digest(self) -> str:
        """Identity of the rendering: SHA-256 over policy, template and terminator, as 64 hexadecimal digits."""
        return hashlib.sha256(json.dumps([self.policy.digest(), *self._identity()]).encode()).hexdigest()

    def _parse_hermes(self, token_ids: Sequence[int], *, opens_thinking: bool, close_thinking: bool) -> ParsedAssistant:
        """Read a turn in the Hermes format.

        Where `<tool_call>` or `<think>` is a token of the vocabulary, only that token counts: the same characters
        written by other tokens are text. With `opens_thinking`, the generation prompt left thinking open.
        """
        text = self.encoder.decode_escaped(token_ids)
        parsed = parse_assistant(f"{THINK_OPEN}{text}" if opens_thinking else text, close_thinking=close_thinking)
        return replace(parsed, message=map_message(parsed.message, self.encoder.unescape))

    @abstractmethod
    def _parse(self, token_ids: Sequence[int], *, close_thinking: bool) -> ParsedAssistant:
        """Message of the ids before a terminator; see `parse`."""

    @abstractmethod
    def _encode_opening(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[int]:
        """Ids of a conversation as it is to be shown, and the generation prompt; tools in order."""

    @abstractmethod
    def _encode_completion(self, message: Message) -> list[int]:
        """Ids of an assistant message behind the generation prompt, terminator included."""

    @abstractmethod
    def _encode_extension(self, messages: Sequence[Message]) -> list[int]:
        """Ids between a terminator and the end of the next generation prompt."""

    @abstractmethod
    def _identity(self) -> Sequence[JSON]:
        """What tells renderings under the same policy apart."""
