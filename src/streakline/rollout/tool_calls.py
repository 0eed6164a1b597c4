"""The calls of one assistant turn: executed in order, with caps on what leads nowhere and a budget for each result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

from streakline.environment.base import Environment
from streakline.environment.live import call_fault
from streakline.errors import StreaklineError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.hermes import ParsedAssistant
from streakline.types import Message, Role, Termination, ToolCall, ToolResult, ToolSchema


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What the calls of one turn led to."""

    results: tuple[ToolResult, ...] = ()
    """One result a call, in order; empty = nothing was called, or the environment failed."""
    messages: tuple[Message, ...] = ()
    """What the model is told: the results, then one error for each malformed call."""
    termination: Termination | None = None
    """Why the episode ends here; None = it goes on."""
    detail: str = ""
    """More about `termination`; empty = nothing to add."""


@final
@dataclass(kw_only=True)
class CallRunner:
    """Runs the calls of one episode, and counts what would go on for ever; the limits are those of `EpisodeConfig`."""

    make_environment: Callable[[], Environment]
    encoder: GuardedEncoder
    max_invalid_calls: int
    max_repeated_calls: int
    max_result_tokens: int
    seconds: float = field(default=0.0, init=False)
    """Time spent in the environment."""
    _num_invalid: int = field(default=0, init=False)
    _num_repeated: int = field(default=0, init=False)
    _last: tuple[str, str] | None = field(default=None, init=False)

    @cached_property
    def _environment(self) -> Environment:
        # Made when it is first told of a request, so that a fault in making it is one like all others.
        return self.make_environment()

    def begin_user_turn(self, index: int) -> ToolOutcome:
        """Tell the environment of a new request; see `Environment.begin_user_turn`."""
        self._last, self._num_repeated = None, 0
        started = time.perf_counter()
        try:
            self._environment.begin_user_turn(index)
        except Exception as error:  # a fault of the world ends this episode, not its siblings
            return _failed(error, f"user turn {index}")
        finally:
            self.seconds += time.perf_counter() - started
        return ToolOutcome()

    def run(self, parsed: ParsedAssistant, *, visible: Mapping[str, ToolSchema]) -> ToolOutcome:
        """Execute all calls of a turn, then see whether the episode may go on.

        `visible` holds the tools that the policy may call, by name.
        """
        results: list[ToolResult] = []
        for call in parsed.message.tool_calls:
            started = time.perf_counter()
            try:
                result = self._environment.execute(call)
            except Exception as error:  # see begin_user_turn
                return _failed(error, f"`{call.name}`")
            finally:
                self.seconds += time.perf_counter() - started
            self._count(call, result, visible)
            results.append(fit_result(result, encoder=self.encoder, max_tokens=self.max_result_tokens))
        self._num_invalid += len(parsed.errors)
        termination, detail = self._verdict()
        return ToolOutcome(
            results=tuple(results),
            messages=_messages(results, parsed.errors),
            termination=termination,
            detail=detail,
        )

    def _count(self, call: ToolCall, result: ToolResult, visible: Mapping[str, ToolSchema]) -> None:
        if result.is_error and call_fault(call, visible=visible):
            self._num_invalid += 1
        identity = (call_identity(call), result.content)
        # A cap that was met stays met, even if the turn goes on to other calls.
        if self._num_repeated < self.max_repeated_calls:
            self._num_repeated = self._num_repeated + 1 if identity == self._last else 0
            self._last = identity

    def _verdict(self) -> tuple[Termination | None, str]:
        if self._num_invalid >= self.max_invalid_calls:
            return Termination.INVALID_CALLS, f"{self._num_invalid} malformed, unknown or ill-typed calls"
        if self._num_repeated >= self.max_repeated_calls and self._last is not None:
            return Termination.REPEATED_CALL, f"{self._num_repeated + 1} times in a row: {self._last[0]}"
        if self._environment.done:
            return Termination.ENVIRONMENT_DONE, ""
        return None, ""


def call_identity(call: ToolCall) -> str:
    """The same text for calls of the same tool with the same arguments."""
    return json.dumps([call.name, dict(call.arguments)], sort_keys=True)


def fit_result(result: ToolResult, *, encoder: GuardedEncoder, max_tokens: int) -> ToolResult:
    """Shorten a result to at most `max_tokens` tokens of content.

    A shortened one holds valid JSON that says so, `{"truncated": true, "content": "<beginning>"}`, never JSON cut in
    the middle.
    """
    # A token stands for at least one byte, so a short text needs no counting; nor does what is far too long.
    content = result.content[: max_tokens * encoder.longest_token + 1]
    is_whole = len(content) == len(result.content)
    if is_whole and (len(content.encode()) <= max_tokens or encoder.count(content) <= max_tokens):
        return result
    fits, too_long = 0, len(content)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if encoder.count(_envelope(content[:middle])) <= max_tokens:
            fits = middle
        else:
            too_long = middle
    return replace(result, content=_envelope(content[:fits]), truncated=True)


def _envelope(beginning: str) -> str:
    return json.dumps({"truncated": True, "content": beginning}, ensure_ascii=False)


def _messages(results: Sequence[ToolResult], errors: Sequence[str]) -> tuple[Message, ...]:
    answers = [
        Message(role=Role.TOOL, content=result.content, name=result.name, tool_call_id=result.call_id)
        for result in results
    ]
    faults = [Message(role=Role.TOOL, content=json.dumps({"error": text}, ensure_ascii=False)) for text in errors]
    return (*answers, *faults)


def _failed(error: Exception, where: str) -> ToolOutcome:
    if isinstance(error, StreaklineError):  # raised on purpose: a full disk, a damaged cache
        raise error
    return ToolOutcome(termination=Termination.TOOL_ERROR, detail=f"{where}: {type(error).__name__}: {error}")
