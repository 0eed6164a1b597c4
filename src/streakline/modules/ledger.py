"""Where the seconds of a step went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from streakline.environment.base import Environment, EnvironmentFactory
from streakline.types import JSON, Task, ToolCall, ToolResult

__all__ = ["TimeLedger"]


@final
class TimeLedger:
    """Adds up wall-clock seconds under names. Names may nest: the inner seconds are then in both."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the time spent inside the block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self[name] + time.perf_counter() - start

    def __getitem__(self, name: str) -> float:
        """Seconds so far; 0 for an unknown name."""
        return self._seconds.get(name, 0.0)

    def timed(self, make_environment: EnvironmentFactory) -> EnvironmentFactory:
        """Wrap a factory so that the time in its worlds counts as `tool`."""

        def make(task: Task) -> Environment:
            with self.measure("tool"):
                return _TimedEnvironment(make_environment(task), self)

        return make


@final
class _TimedEnvironment(Environment):
    def __init__(self, inner: Environment, ledger: TimeLedger) -> None:
        self._inner = inner
        self._ledger = ledger

    def begin_user_turn(self, index: int) -> None:
        self._inner.begin_user_turn(index)

    def execute(self, call: ToolCall) -> ToolResult:
        with self._ledger.measure("tool"):
            return self._inner.execute(call)

    def state(self) -> dict[str, JSON]:
        return self._inner.state()

    @property
    def done(self) -> bool:
        return self._inner.done
