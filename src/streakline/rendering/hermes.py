r"""The Hermes format of tool calls: `<tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>`.

What a policy writes is data: a call is a name and literal arguments, never code, and a malformed block becomes a text
that is fed back to the policy. Nothing in here raises because of what a policy wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from streakline.types import JSON, Message, Role, ToolCall

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"
CALL_OPEN = "<tool_call>"
CALL_CLOSE = "</tool_call>"
MARKERS = (THINK_OPEN, THINK_CLOSE, CALL_OPEN, CALL_CLOSE)
"""Texts that give structure to an assistant turn."""

_MARKER = re.compile("|".join(map(re.escape, MARKERS)))
_SPACE = re.compile(r"\s*")
_UNSAFE_NAME = re.compile(r'["\\\x00-\x1f]')


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAssistant:
    """An assistant turn, and what was wrong with it."""

    message: Message
    """The turn: thinking, text, and the calls that could be read. Malformed blocks stay in its text."""
    errors: tuple[str, ...] = ()
    """One text a malformed block, in order, to be fed back to the policy; empty = nothing was malformed."""
    open_thinking: bool = False
    """Whether its thinking never ends."""


def parse_assistant(text: str, *, close_thinking: bool = False) -> ParsedAssistant:
    r"""Read a decoded turn without its terminator. Never raises.

    A call inside thinking is a draft and no call. A `</think>` without its opening tag means that the prompt opened
    the thinking, so all that stands before it is thinking. A block that is not closed is malformed, however valid its
    JSON: the policy was cut off, or went on writing.

    With `close_thinking`, a whole call in thinking that never ends is a call: the policy acted without closing it. What
    else stands there, malformed blocks too, is thinking.

    Example:
        >>> parsed = parse_assistant('Hm.<tool_call>{"name": "ls", "arguments": "{\\"a\\": true}"}</tool_call>')
        >>> parsed.message.content, parsed.message.tool_calls[0].arguments
        ('Hm.', {'a': True})
        >>> parse_assistant("<tool_call>ls()</tool_call>").errors
        ('Malformed tool call: Expecting value at character 0.',)
    """
    scan = _Scan(text, close_thinking=close_thinking)
    position = 0
    while match := _MARKER.search(text, position):
        scan.content.append(text[position : match.start()])
        position = scan.step(match.group(), match.start(), match.end())
    scan.content.append(text[position:])
    if scan.opened is not None:
        scan.end_thinking(*scan.opened)
    message = Message(
        role=Role.ASSISTANT,
        content="".join(scan.content).strip(),
        thinking="\n".join(scan.thinking).strip(),
        tool_calls=tuple(scan.calls),
    )
    return ParsedAssistant(message=message, errors=tuple(scan.errors), open_thinking=scan.opened is not None)


def serialize_calls(calls: Sequence[ToolCall]) -> str:
    """Write calls as Hermes blocks, one below the other, with UTF-8 kept as it is."""
    return "\n".join(f"{CALL_OPEN}\n{_call_json(call)}\n{CALL_CLOSE}" for call in calls)


def serialize_assistant(message: Message) -> str:
    """Write an assistant message as a policy would, without terminator; `parse_assistant` reads it back."""
    said = "\n".join(part for part in (message.content, serialize_calls(message.tool_calls)) if part)
    thinking = f"{THINK_OPEN}\n{message.thinking}\n{THINK_CLOSE}" if message.thinking else ""
    return "\n\n".join(part for part in (thinking, said) if part)


def _call_json(call: ToolCall) -> str:
    return json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)


@dataclass(slots=True)
class _Scan:
    """What has been read so far; `step` handles one marker and returns where to go on."""

    text: str
    close_thinking: bool
    opened: tuple[int, int] | None = None  # parts of the content and errors before thinking that never ends
    content: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def step(self, marker: str, start: int, end: int) -> int:
        if marker == THINK_OPEN:
            return self._read_thinking(end)
        if marker == THINK_CLOSE:
            return self._take_back(start, end)
        if marker == CALL_OPEN:
            return self._read_call(start, end)
        return self._reject(start, end, f"{CALL_CLOSE} without {CALL_OPEN}")

    def _read_thinking(self, end: int) -> int:
        self._leave_gap()
        close = self.text.find(THINK_CLOSE, end) if self.opened is None else -1
        if close >= 0:
            self.thinking.append(self.text[end:close])
            return close + len(THINK_CLOSE)
        self.opened = self.opened or (len(self.content), len(self.errors))
        if self.close_thinking:
            return end
        self.content.append(self.text[end:])
        return len(self.text)

    def end_thinking(self, num_parts: int, num_errors: int) -> None:
        """Count what was read since thinking began as thinking, but for the calls."""
        self.thinking.append("".join(self.content[num_parts:]))
        del self.content[num_parts:], self.errors[num_errors:]

    def _take_back(self, start: int, end: int) -> int:
        self.content, self.calls, self.errors = [], [], []
        self.thinking = [self.text[:start].replace(THINK_OPEN, "\n").replace(THINK_CLOSE, "\n")]
        return end

    def _read_call(self, start: int, end: int) -> int:
        # Decoding finds the end of the JSON by itself, so that a string inside it may spell any of the markers.
        try:
            value, after = _DECODER.raw_decode(self.text, _after_space(self.text, end))
        except (ValueError, RecursionError) as error:
            return self._reject_block(start, end, _reason(error, end))
        close = _after_space(self.text, after)
        if not self.text.startswith(CALL_CLOSE, close):
            return self._reject_block(start, after, "text after the JSON object")
        close += len(CALL_CLOSE)
        try:
            self.calls.append(_to_call(value))
        except (ValueError, RecursionError) as error:
            return self._reject(start, close, _reason(error, end))
        self._leave_gap()
        return close

    def _reject_block(self, start: int, end: int, reason: str) -> int:
        marker = _MARKER.search(self.text, end)
        if marker is not None and marker.group() == CALL_CLOSE:
            return self._reject(start, marker.end(), reason)
        return self._reject(start, marker.start() if marker else len(self.text), f"no closing {CALL_CLOSE}")

    def _leave_gap(self) -> None:
        # What stood around a part that is taken out must not join up, least of all to a marker.
        self.content.append("\n")

    def _reject(self, start: int, end: int, reason: str) -> int:
        self.content.append(self.text[start:end])
        self.errors.append(f"Malformed tool call: {reason}.")
        return end


def _reason(error: ValueError | RecursionError, start: int) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {max(error.pos - start, 0)}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _after_space(text: str, position: int) -> int:
    return _SPACE.match(text, position).end()  # type: ignore[union-attr]  # it matches the empty text too


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


def _to_call(value: JSON) -> ToolCall:
    if not isinstance(value, Mapping):
        raise ValueError("expected an object with `name` and `arguments`")
    name = value.get("name")
    if not isinstance(name, str) or not name.strip() or _UNSAFE_NAME.search(name):
        raise ValueError("expected `name` to be the name of a tool")
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        arguments = _decode_again(arguments)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise ValueError("expected `arguments` to be an object")
    call = ToolCall(name=name, arguments=arguments)
    try:
        _call_json(call).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is not text") from None
    return call


def _decode_again(arguments: str) -> JSON:
    # Models trained on OpenAI's wire format write the object as a string.
    try:
        value: JSON = _DECODER.decode(arguments) if arguments.strip() else {}
    except json.JSONDecodeError:
        return arguments
    return value
