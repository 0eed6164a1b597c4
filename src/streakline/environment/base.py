"""What the agent loop needs of a world in which tool calls are executed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from streakline.types import JSON, Task, ToolCall, ToolResult


class Environment(ABC):
    """One episode of one task. Single use: make a new one for each trajectory.

    To add one, implement the four members below; `execute` must answer, not raise, whatever the model wrote.
    """

    @abstractmethod
    def begin_user_turn(self, index: int) -> None:
        """Start a 0-based user turn, which may reveal tools. Called once for each, in order, before its calls."""

    @abstractmethod
    def execute(self, call: ToolCall) -> ToolResult:
        """Run one call, whose name and arguments can be anything.

        Never raises for what the model did: an error result tells the model what to mend. Any other error ends this
        episode alone, but a `StreaklineError` the whole rollout: it is one that a person has to mend.
        """

    @abstractmethod
    def state(self) -> dict[str, JSON]:
        """Plain JSON picture of the world by simulator name, equal for worlds that are equal."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the world has closed the episode, so that further calls make no sense."""

    def seed_draws(self, seed: int) -> None:  # noqa: B027
        """Take the seed of the episode, before its first call; a world without chance leaves it aside."""


EnvironmentFactory: TypeAlias = Callable[[Task], Environment]
"""Makes a fresh world for a task; called once for each trajectory."""
