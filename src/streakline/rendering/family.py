"""Rendering by the `renderers` library, which writes each model family's format in code instead of a chat template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, final

from transformers import PreTrainedTokenizerFast

from streakline.errors import ConfigError, DataError, MissingDependencyError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.hermes import CALL_OPEN, THINK_CLOSE, THINK_OPEN, ParsedAssistant, parse_assistant
from streakline.rendering.jinja import TemplateMessage, template_message
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.renderer import Renderer
from streakline.rendering.tools import full_schema
from streakline.rendering.turn_texts import PROBE, USER
from streakline.types import JSON, Message, Role, ToolCall, ToolSchema

if TYPE_CHECKING:
    from renderers import ParsedToolCall, RendererConfig
    from renderers import Renderer as LibraryRenderer

_CALL = Message(role=Role.ASSISTANT, tool_calls=(ToolCall(name="probe_a", arguments={"a": {"b": [1, "two"]}}),))


@final
class FamilyRenderer(Renderer):
    """Renders as the `renderers` library does for a model family.

    It brings formats that the Hermes parser can't read (GLM, Kimi, gpt-oss, Llama 3's JSON calls). A family that writes
    Hermes blocks is parsed by our own parser, which is stricter on drafts inside thinking. Thinking that is not in
    `<think>` tags (gpt-oss's channels) ends with its message, so there `close_thinking` has nothing to close. A family
    whose generation prompt opens thinking is refused: an answer without thinking can't follow it.

    Raises:
        ConfigError: If the family is unknown, can't go on from a sampled turn, or lacks its special tokens.
        MissingDependencyError: If the library can't be imported.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, policy: RenderingPolicy) -> None:
        if policy.schema_style == "short":
            raise ConfigError("Expected `schema_style` to be 'full' with `use_family_renderer`, but got 'short'")
        super().__init__(tokenizer, policy)
        self.encoder = GuardedEncoder(tokenizer, template=str(tokenizer.chat_template or ""))
        self._family, self._library = _create(tokenizer, policy, self.encoder)
        self._native_thinking = True
        self._opening = self._render([USER], generation_prompt=True)
        self.terminator_id = self._find_terminator()
        self._turn = [*self._opening, *self.completion(Message(role=Role.ASSISTANT, content=PROBE))]
        self._native_thinking = self._writes_thinking()
        self._hermes = parse_assistant(self._decode_turn(_CALL)).message == _CALL
        self.extension([Message(role=Role.USER, content="Next.")])

    def _parse(self, token_ids: Sequence[int], *, close_thinking: bool) -> ParsedAssistant:
        if self._hermes:
            return self._parse_hermes(token_ids, opens_thinking=False, close_thinking=close_thinking)
        return read_family_response(
            self._library,
            token_ids,
            prompt_ids=self._opening,
            text=self.encoder.decode(token_ids),
            close_thinking=close_thinking,
        )

    def _encode_opening(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[int]:
        specs = [self.encoder.escape_json(full_schema(tool)) for tool in tools]
        return self._render(self._entries(messages), tools=specs, generation_prompt=True)

    def _encode_completion(self, message: Message) -> list[int]:
        ids = self._render([USER, *self._entries([message])], generation_prompt=False)
        start = len(self._opening)
        if ids[:start] != self._opening or self.terminator_id not in ids[start:]:
            raise DataError(
                f"Expected an assistant message that family {self._family!r} can write after its generation prompt, "
                f"but got {'thinking' if message.thinking else 'no thinking'} and {message.content[:40]!r}"
            )
        return ids[start : ids.index(self.terminator_id, start) + 1]

    def _encode_extension(self, messages: Sequence[Message]) -> list[int]:
        bridged = self._library.bridge_to_next_turn(
            self._opening, self._turn[len(self._opening) :], self._entries(messages)
        )
        if bridged is None or bridged.token_ids[: len(self._turn)] != self._turn:
            roles = [message.role.value for message in messages]
            raise ConfigError(
                f"Expected family {self._family!r} to go on from a sampled turn with {roles}, but it can't"
            )
        ids: list[int] = bridged.token_ids[len(self._turn) :]
        return ids

    def _identity(self) -> Sequence[JSON]:
        from renderers import __version__

        return f"renderers {__version__} {self._family}", self.terminator_id

    def _entries(self, messages: Sequence[Message]) -> list[TemplateMessage]:
        return [template_message(message, self.encoder, native_thinking=self._native_thinking) for message in messages]

    def _render(
        self, entries: list[TemplateMessage], *, generation_prompt: bool, tools: Sequence[JSON] = ()
    ) -> list[int]:
        try:
            ids: list[int] = self._library.render_ids(
                entries, tools=list(tools) or None, add_generation_prompt=generation_prompt
            )
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"Expected messages that family {self._family!r} can write, but got: {error}") from error
        return ids

    def _find_terminator(self) -> int:
        stops = set(self._library.get_stop_token_ids())
        turn = self._render([USER, {"role": "assistant", "content": PROBE}], generation_prompt=False)
        for token_id in reversed(turn[len(self._opening) :]):
            if token_id in stops:
                return int(token_id)
        raise ConfigError(f"Expected family {self._family!r} to end an assistant turn with one token, but it doesn't")

    def _writes_thinking(self) -> bool:
        try:
            return PROBE in self._decode_turn(replace(_CALL, thinking=PROBE))
        except DataError:
            # With thinking switched off the header closes it, and a turn that thinks can't follow.
            return True

    def _decode_turn(self, message: Message) -> str:
        return self.encoder.decode(self.completion(message)[:-1])


@final
class _EscapingTokenizer:
    """What the library asks of a tokenizer; it encodes escaped texts as `GuardedEncoder` does."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, encoder: GuardedEncoder) -> None:
        self.name_or_path: str = tokenizer.name_or_path
        self.unk_token_id: int | None = tokenizer.unk_token_id
        self.eos_token_id: int | None = tokenizer.eos_token_id
        self._tokenizer = tokenizer
        self._encoder = encoder

    def encode(self, text: str, **_: object) -> list[int]:
        return self._encoder.encode(text)

    def decode(self, token_ids: Sequence[int], **_: object) -> str:
        return self._encoder.decode(token_ids)

    def convert_tokens_to_ids(self, tokens: str) -> int | None:
        # The backend's own look-up: a missing token is None, never the id of the unknown token.
        token_id: int | None = self._tokenizer.backend_tokenizer.token_to_id(tokens)
        return token_id


def _create(
    tokenizer: PreTrainedTokenizerFast, policy: RenderingPolicy, encoder: GuardedEncoder
) -> tuple[str, LibraryRenderer]:
    try:
        from renderers import create_renderer
    except ImportError as error:
        raise MissingDependencyError(f"Expected `renderers` to be importable, but got: {error}") from error
    config = _config(tokenizer, policy)
    try:
        return config.name, create_renderer(_EscapingTokenizer(tokenizer, encoder), config)
    except (AssertionError, ValueError) as error:
        raise ConfigError(
            f"Expected tokenizer {tokenizer.name_or_path!r} to be of family {config.name!r}, but got: {error}"
        ) from error


def _config(tokenizer: PreTrainedTokenizerFast, policy: RenderingPolicy) -> RendererConfig:
    from renderers import config_from_name
    from renderers.base import MODEL_RENDERER_MAP

    name = policy.family or MODEL_RENDERER_MAP.get(tokenizer.name_or_path)
    if name in {None, "auto", "default"}:
        raise ConfigError(
            f"Expected `family` to name a family, since tokenizer {tokenizer.name_or_path!r} is not known by name; "
            f"one of {sorted(set(MODEL_RENDERER_MAP.values()))}"
        )
    # Whether earlier thinking stays is decided here and in the history, so the library may always go on.
    options: dict[str, JSON] = {"thinking_retention": "all", **policy.template_variables}
    try:
        return type(config_from_name(name))(**options)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"Expected `family` {name!r} to take {sorted(options)}, but got: {reason}") from error


def read_family_response(
    library: LibraryRenderer,
    token_ids: Sequence[int],
    *,
    prompt_ids: Sequence[int],
    text: str,
    close_thinking: bool = False,
) -> ParsedAssistant:
    """Let the library parse a turn of its family. Never raises because of what was sampled.

    `token_ids` come without the terminator, `text` is what they decode to, and the prompt ends as the real one does.
    Calls that could not be read become errors. In thinking that never ends all are text, unless `close_thinking` takes
    the whole ones for calls.
    """
    is_open = text.count(THINK_OPEN) > text.count(THINK_CLOSE)
    try:
        response = library.parse_response(list(token_ids), prompt_ids=list(prompt_ids))
    except Exception as error:  # The parser is not ours, and a turn that it can't read is data.
        return ParsedAssistant(
            message=Message(role=Role.ASSISTANT, content=text),
            errors=(f"Malformed tool call: {type(error).__name__}.",),
            open_thinking=is_open,
        )
    parsed = [_read_call(call) for call in response.tool_calls]
    calls = tuple(call for item in parsed for call in item.message.tool_calls)
    if is_open and not (close_thinking and calls):
        # Some of the library's parsers execute a call drafted in thinking that was never closed.
        before, _, thinking = text.rpartition(THINK_OPEN)
        message = Message(role=Role.ASSISTANT, content=before.strip(), thinking=thinking.strip())
        return ParsedAssistant(message=message, open_thinking=True)
    message = Message(
        role=Role.ASSISTANT,
        content=(response.content or "").strip(),
        thinking=(response.reasoning_content or "").strip(),
        tool_calls=calls,
    )
    errors = () if is_open else tuple(error for item in parsed for error in item.errors)
    return ParsedAssistant(message=message, errors=errors, open_thinking=is_open)


def _read_call(call: ParsedToolCall) -> ParsedAssistant:
    # Written once more as a Hermes block, a call meets the same checks of name and arguments as everywhere.
    if call.status != "ok" or call.name is None:
        return ParsedAssistant(message=Message(role=Role.ASSISTANT), errors=(f"Malformed tool call: {call.status}.",))
    block: dict[str, JSON] = {"name": call.name, "arguments": call.arguments}
    return parse_assistant(f"{CALL_OPEN}{json.dumps(block)}</tool_call>")
