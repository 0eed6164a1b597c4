"""A world whose tools really run: the simulators of one task, for one episode."""

from __future__ import annotations

import decimal
import difflib
import json
from collections.abc import Callable, Mapping
from typing import final

from streakline.environment.base import Environment
from streakline.environment.clock import frozen_clock, parse_clock
from streakline.environment.guards import growth_refusal
from streakline.environment.json_schema import argument_errors
from streakline.environment.simulators import (
    create_simulator,
    mutable_defaults,
    plain_copy,
    state_snapshot,
    to_plain,
    tool_functions,
)
from streakline.environment.workers import run_with_timeout
from streakline.errors import ConfigError, DataError
from streakline.types import JSON, Task, ToolCall, ToolResult, ToolSchema

_SHOWN_NAME = 80
"""Characters of an unknown name that an error repeats to the model."""
_MAX_DIGITS = 1000
"""Digits of precision that a calculation may ask for."""
_MAX_POWER_BITS = 14_000
"""Size of an integer power: just under the 4300 digits that Python converts to text."""


@final
class LiveEnvironment(Environment):
    """Executes calls by allow-list: the tools visible now, literal arguments that fit the schema, nothing else.

    Errors go to the model as `{"error": "..."}`. A tool that overruns its time closes the episode, because its thread
    may still change the world. A task without simulators has calls as its outcome, not a world: a valid call is
    acknowledged, and the episode is done.
    """

    def __init__(self, task: Task, *, timeout_s: float | None = 5.0) -> None:
        """Build the world of a task.

        Args:
            task: Names the simulators, their scenarios, the visible tools and the clock.
            timeout_s: Seconds that one call may take; None = no limit, and no thread hand-over (for trusted calls).

        Raises:
            DataError: The task names a tool that none of its simulators has, or a scenario that can't be loaded.
            ConfigError: `timeout_s` is not positive, or a simulator is unknown.
        """
        if timeout_s is not None and not timeout_s > 0:
            raise ConfigError(f"Expected `timeout_s` to be positive, but got {timeout_s}")
        self._task = task
        self._timeout_s = timeout_s
        self._moment = parse_clock(task.clock)
        self._visible: dict[str, ToolSchema] = {schema.name: schema for schema in task.tools}
        self._done = False
        self._simulators: dict[str, object] = {}
        # Of two simulators with a tool of the same name the later one answers, as upstream.
        self._owners: dict[str, tuple[Callable[..., object], object, dict[str, object]]] = {}
        with frozen_clock(self._moment):
            for name in task.simulators:
                self._add_simulator(name)
        if task.simulators:
            self._check_tools()

    def begin_user_turn(self, index: int) -> None:
        """Reveal the tools that the task holds back until this user turn."""
        self._visible.update({schema.name: schema for schema in self._task.revealed_tools.get(index, ())})

    def execute(self, call: ToolCall) -> ToolResult:
        """Run one call. See `Environment.execute`."""
        fault = call_fault(call, visible=self._visible)
        if fault:
            return error_result(call, fault)
        if self._done:
            return error_result(call, "The episode is closed")
        if not self._task.simulators:
            self._done = True
            return _result(call, '{"status": "received"}', is_error=False)
        fault = growth_refusal(call, simulator=self._owners[call.name][1])
        if fault:
            return error_result(call, fault)
        return self._run(call)

    def state(self) -> dict[str, JSON]:
        """Public state by simulator name. See `Environment.state`."""
        return {name: state_snapshot(instance) for name, instance in self._simulators.items()}

    @property
    def done(self) -> bool:
        """Whether a tool overran its time, or the one call of a task without a world was made."""
        return self._done

    def simulator(self, tool: str) -> object:
        """The instance that answers a tool of the task."""
        return self._owners[tool][1]

    def _add_simulator(self, name: str) -> None:
        scenario = self._task.initial_state.get(name, {})
        if not isinstance(scenario, Mapping):
            raise DataError(
                f"Expected the scenario of {name} in task {self._task.id} to be an object, but got {scenario!r}"
            )
        instance = create_simulator(name, scenario=scenario, long_context=self._task.long_context)
        self._simulators[name] = instance
        for tool, function in tool_functions(name).items():
            defaults = {key: plain_copy(value) for key, value in mutable_defaults(name)[tool].items()}
            self._owners[tool] = function, instance, defaults

    def _check_tools(self) -> None:
        revealed = (schema for schemas in self._task.revealed_tools.values() for schema in schemas)
        for schema in (*self._task.tools, *revealed):
            if schema.name not in self._owners:
                raise DataError(
                    f"Expected tool `{schema.name}` of task {self._task.id} to belong to "
                    f"{', '.join(self._task.simulators)}, but got none that has it"
                )

    def _run(self, call: ToolCall) -> ToolResult:
        if self._timeout_s is None:
            content, is_error = self._call_tool(call)
        else:
            try:
                content, is_error = run_with_timeout(lambda: self._call_tool(call), timeout_s=self._timeout_s)
            except TimeoutError:
                self._done = True
                message = f"Expected `{call.name}` to answer within {self._timeout_s:g} s, but got nothing"
                return error_result(call, message)
        return _result(call, content, is_error=is_error)

    def _call_tool(self, call: ToolCall) -> tuple[str, bool]:
        """Content and whether it is an error. Serialised here, since a result may hold parts of the living world."""
        function, instance, defaults = self._owners[call.name]
        # Some tools store the very list that they were given, or that is their default, and change it later.
        arguments = defaults | {name: plain_copy(argument) for name, argument in call.arguments.items()}
        try:
            # The maths tools set the precision of the thread's decimal context.
            with frozen_clock(self._moment), decimal.localcontext():
                value = function(instance, **arguments)
                is_error = isinstance(value, dict) and "error" in value
                return _content(value), is_error
        except Exception as error:  # whatever a tool raises is an answer to the model
            return _error_content(f"{type(error).__name__}: {error}"), True


def call_fault(call: ToolCall, *, visible: Mapping[str, ToolSchema]) -> str:
    """Say why a call may not run, in one sentence for the model; empty = it may.

    It names a tool that is not among the `visible` ones, its arguments don't fit, or its calculation would not end.
    """
    schema = visible.get(call.name)
    if schema is None:
        return _unknown_tool(call.name, visible)
    return argument_errors(call.arguments, parameters=schema.parameters) or refusal(call.name, call.arguments)


def refusal(tool: str, arguments: Mapping[str, JSON]) -> str:
    """Say why a call with arguments of the right types would hold the interpreter for hours; empty = it would not.

    No time-out can interrupt a huge integer operation.
    """
    for name in ("precision", "decimal_places"):
        value = arguments.get(name)
        if isinstance(value, int) and abs(value) > _MAX_DIGITS:
            return f"Expected `{name}` to be at most {_MAX_DIGITS}, but got {value}"
    base, exponent = arguments.get("base"), arguments.get("exponent")
    if tool == "power" and isinstance(base, int) and isinstance(exponent, int):  # powers of floats overflow at once
        num_bits = exponent * base.bit_length() if abs(base) > 1 else 0
        if num_bits > _MAX_POWER_BITS:
            return f"Expected a result of at most {_MAX_POWER_BITS} bits, but got a larger power"
    return ""


def _unknown_tool(name: str, visible: Mapping[str, ToolSchema]) -> str:
    close = difflib.get_close_matches(name, visible, n=3) if name else []
    hint = f"Did you mean {' or '.join(f'`{match}`' for match in close)}? " if close else ""
    shown = name if len(name) <= _SHOWN_NAME else name[:_SHOWN_NAME] + "..."
    return f"Unknown tool `{shown}`. {hint}Available: {', '.join(visible) or 'none'}"


def _content(value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict | list | tuple):
        return str(value)
    try:
        return json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except (ValueError, TypeError):  # NaN and infinity, a cycle, keys that are no text
        return json.dumps(_finite(to_plain(value)), ensure_ascii=False)


def _finite(value: JSON) -> JSON:
    if isinstance(value, float) and value - value != 0:  # NaN and infinity have no JSON form
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _error_content(message: str) -> str:
    return json.dumps({"error": message}, ensure_ascii=False)


def error_result(call: ToolCall, message: str) -> ToolResult:
    """Answer a call with an error, in the form that the model is shown."""
    return _result(call, _error_content(message), is_error=True)


def encodable(text: str) -> str:
    """Replace half of a surrogate pair, which JSON escapes can spell and no tokenizer takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _result(call: ToolCall, content: str, *, is_error: bool) -> ToolResult:
    return ToolResult(name=call.name, call_id=call.id, content=encodable(content), is_error=is_error)
