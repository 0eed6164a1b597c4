"""Stands for a world that could not be built, so that its episode ends with the reason and its siblings go on."""

from __future__ import annotations

from typing import NoReturn, final

from streakline.environment.base import Environment
from streakline.types import JSON, ToolCall


@final
class FailedEnvironment(Environment):
    """Raises, at the first touch, what the factory raised."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def begin_user_turn(self, index: int) -> NoReturn:
        """Raise the error."""
        raise self._error

    def execute(self, call: ToolCall) -> NoReturn:
        """Raise the error."""
        raise self._error

    def state(self) -> dict[str, JSON]:
        """An empty world."""
        return {}

    @property
    def done(self) -> bool:
        """Always: there is nothing to go on with."""
        return True
