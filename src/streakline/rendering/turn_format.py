"""How a chat template writes an assistant turn, found by asking it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streakline.errors import ConfigError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.hermes import THINK_CLOSE, THINK_OPEN, parse_assistant, serialize_assistant
from streakline.rendering.jinja import ChatTemplate, TemplateMessage
from streakline.rendering.parse_turn import map_message
from streakline.types import JSON, Message, Role, ToolCall

PROBE = "probe-text"
"""Text of probing messages: plain, and nothing that a template treats in a special way."""

USER: TemplateMessage = {"role": "user", "content": "Hello"}
"""Request before a probed turn."""

_CALLS = (ToolCall(name="probe_a", arguments={"a": {"b": [1, "two"]}}), ToolCall(name="probe_b"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFormat:
    """How a chat template writes an assistant turn."""

    header: str
    """The generation prompt: what stands between the terminator of a user message and the policy's first token."""
    opening: str
    """A short conversation up to and including its generation prompt."""
    terminator: str
    """Text of the token that ends the turn."""
    terminator_id: int
    """Id of the token that ends the turn."""
    native_thinking: bool
    """Whether the template writes `reasoning_content`; else thinking is put into the content in `<think>` tags."""
    native_calls: bool
    """Whether the template writes `tool_calls` as Hermes blocks; else the blocks are put into the content."""

    @property
    def opens_thinking(self) -> bool:
        """Whether the generation prompt leaves thinking open, so that a turn begins inside it."""
        return self.header.rfind(THINK_OPEN) > self.header.rfind(THINK_CLOSE)


def template_message(
    message: Message, encoder: GuardedEncoder, *, native_thinking: bool, native_calls: bool
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
    said = replace(
        escaped,
        thinking="" if native_thinking else escaped.thinking,
        tool_calls=() if native_calls else escaped.tool_calls,
    )
    entry["content"] = serialize_assistant(said)
    if native_thinking and escaped.thinking:
        entry["reasoning_content"] = escaped.thinking
    if native_calls and escaped.tool_calls:
        entry["tool_calls"] = [_call_entry(call) for call in escaped.tool_calls]
    return entry


def find_turn_format(template: ChatTemplate, encoder: GuardedEncoder) -> TurnFormat:
    """Ask a chat template how it writes an assistant turn.

    Raises:
        ConfigError: If a turn doesn't go on from the generation prompt, or doesn't end with one special token.
    """
    opening = template.render([USER])
    whole = template.render([USER, {"role": "assistant", "content": PROBE}], generation_prompt=False)
    if not whole.startswith(opening) or PROBE not in whole:
        raise ConfigError(
            "Expected a chat template that writes an assistant turn right after its generation prompt, "
            f"but got {_tail(whole)!r} where the prompt is {_tail(opening)!r}"
        )
    terminator = _terminator(whole[whole.index(PROBE) + len(PROBE) :], template, encoder)
    user_end = opening.index("Hello") + len("Hello")
    found = TurnFormat(
        header=opening[user_end:],
        opening=opening,
        terminator=terminator,
        terminator_id=encoder.token_ids[terminator],
        native_thinking=True,
        native_calls=True,
    )
    thinking = Message(role=Role.ASSISTANT, content=PROBE, thinking="probe-thinking")
    calls = Message(role=Role.ASSISTANT, tool_calls=_CALLS)
    return replace(
        found,
        native_thinking=_writes(thinking, template, found, encoder),
        native_calls=_writes(calls, template, found, encoder),
    )


def _writes(message: Message, template: ChatTemplate, found: TurnFormat, encoder: GuardedEncoder) -> bool:
    try:
        entry = template_message(message, encoder, native_thinking=True, native_calls=True)
        text = template.render([USER, entry], generation_prompt=False)
    except ConfigError:
        return False
    turn = text[len(found.opening) : text.rfind(found.terminator)]
    prefix = THINK_OPEN if found.opens_thinking else ""
    return text.startswith(found.opening) and parse_assistant(prefix + turn).message == message


def _terminator(rest: str, template: ChatTemplate, encoder: GuardedEncoder) -> str:
    candidates = [token for token in encoder.token_ids if rest.lstrip().startswith(token)]
    if not candidates:
        raise ConfigError(
            "Expected the chat template to end an assistant turn with a special token of tokenizer "
            f"{template.name!r}, but it ends with {rest!r}"
        )
    return max(candidates, key=len)


def _tail(text: str) -> str:
    return text[-60:]


def _call_entry(call: ToolCall) -> JSON:
    entry: dict[str, JSON] = {"type": "function", "function": {"name": call.name, "arguments": dict(call.arguments)}}
    return {**entry, "id": call.id} if call.id else entry
