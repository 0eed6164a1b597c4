"""The interface between messages and tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from transformers import PreTrainedTokenizerFast

from streakline.rendering.hermes import ParsedAssistant
from streakline.rendering.policy import RenderingPolicy
from streakline.types import Message, Role, ToolSchema

__all__ = ["Renderer"]


class Renderer(ABC):
    """Turns messages into token ids and back, under one `RenderingPolicy`.

    A conversation is `prompt`, then for each assistant turn the ids that the policy sampled, then `extension` with what
    came back. Sampled ids are never decoded and encoded again. For a conversation that is written, not sampled,
    `completion` stands for the sampled ids, and under thinking `keep`::

        prompt([u1]) + completion(a1) + extension([t1])  ==  prompt([u1, a1, t1])
        <|im_start|>user u1<|im_end|>  a1<|im_end|>  <|im_start|>user t1<|im_end|>
        <|im_start|>assistant                        <|im_start|>assistant
    """

    @property
    @abstractmethod
    def policy(self) -> RenderingPolicy:
        """The choices it renders by."""

    @property
    @abstractmethod
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer it renders for."""

    @property
    @abstractmethod
    def terminator_id(self) -> int:
        """Token that ends an assistant turn."""

    @property
    def append_only(self) -> bool:
        """Whether every later prompt extends the earlier ones: native template, and thinking that stays."""
        return self.policy.template == "native" and self.policy.thinking == "keep"

    def extends(self, messages: Sequence[Message]) -> bool:
        """Whether the tokens so far stay as they are when `messages` follow them.

        Args:
            messages: New tool or user messages, as `extension` takes them.

        Returns:
            True: go on with `extension`. False: the history is rewritten, ask for a `prompt` of the whole conversation.
        """
        if self.policy.template == "context":
            return False
        return self.append_only or all(message.role is not Role.USER for message in messages)

    @abstractmethod
    def prompt(self, messages: Sequence[Message], *, tools: Sequence[ToolSchema], task_id: str = "") -> tuple[int, ...]:
        """Render a whole conversation and the generation prompt.

        Args:
            messages: All messages so far, at least one; may hold assistant turns.
            tools: Tools that the policy sees; all of them, those revealed later included, where a conversation is
                rendered anew.
            task_id: Seed of the tool order `shuffled`.

        Returns:
            [T] token ids, after which the policy writes its turn.

        Raises:
            ConfigError: If the template cannot show the tools or the messages.
            DataError: If there are no messages.
        """

    @abstractmethod
    def completion(self, message: Message) -> tuple[int, ...]:
        """Render an assistant message as the policy would write it.

        Args:
            message: An assistant message.

        Returns:
            [T] token ids, the terminator last and nowhere else.

        Raises:
            DataError: If the message is not one that the policy could write after the generation prompt.
        """

    @abstractmethod
    def extension(self, messages: Sequence[Message], *, new_tools: Sequence[ToolSchema] = ()) -> tuple[int, ...]:
        """Render what follows an assistant turn, up to and including the next generation prompt.

        Args:
            messages: New tool and user messages, in order.
            new_tools: Tools revealed with them; told as a block of text in the user message.

        Returns:
            [T] token ids that go right after the terminator: separator, messages, generation prompt.
        """

    @abstractmethod
    def parse(self, token_ids: Sequence[int]) -> ParsedAssistant:
        """Read a sampled turn. Never raises because of what was sampled.

        Args:
            token_ids: Sampled ids; what stands behind the first terminator is ignored.

        Returns:
            The turn, with one error for each malformed call.
        """

    @abstractmethod
    def digest(self) -> str:
        """Identity of the rendering: SHA-256 over policy, template and terminator, as 64 hexadecimal digits."""
