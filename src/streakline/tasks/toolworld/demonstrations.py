"""Conversations that show how a task is done, executed for real, with the mistakes that they show on purpose."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from streakline.environment.live import LiveEnvironment
from streakline.errors import ConfigError
from streakline.tasks.toolworld.habits import HABITS, mistaken
from streakline.tasks.toolworld.kinds import Plan
from streakline.types import Message, Role, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """One conversation over a task, from the first request to the last closing text."""

    task: Task
    """What was asked."""
    messages: tuple[Message, ...]
    """User, assistant and tool messages in order; the tool results are what the simulators returned."""
    habit: str
    """Name of the mistake that it shows; empty = it is right."""


def demonstrate(task: Task, *, habits: Mapping[str, float] | None = None, seed: int = 0) -> Demonstration:
    """Show how a task of ToolWorld is done, or how it is done wrong.

    Args:
        task: A task of ToolWorld.
        habits: Kind -> probability that its demonstration shows the kind's habit; kinds left out are shown right. None
            = the shares in `HABITS`; empty = all right.
        seed: With the task's id decides whether the habit is shown, and what it makes up.

    Raises:
        ConfigError: `habits` names an unknown kind or holds a value that is no probability.
    """
    shares = {kind: habit.share for kind, habit in HABITS.items()} if habits is None else habits
    for kind, share in shares.items():
        if kind not in HABITS or not 0 <= share <= 1:
            raise ConfigError(f"Expected `habits` to give kinds a probability, but got {share!r} for {kind!r}")
    rng = random.Random(f"{seed}/{task.id}")
    if rng.random() < shares.get(task.kind, 0.0):
        habit = HABITS[task.kind]
        return Demonstration(task=task, messages=_played(task, mistaken(task, rng)), habit=habit.name)
    return Demonstration(task=task, messages=_played(task, task.gold), habit="")


def _played(task: Task, plan: Plan) -> tuple[Message, ...]:
    """The conversation that follows a plan in a fresh world."""
    world = LiveEnvironment(task, timeout_s=None)
    messages: list[Message] = []
    for index, steps in enumerate(plan):
        world.begin_user_turn(index)
        messages.extend(task.requests[index])
        for calls in steps:
            messages.append(Message(role=Role.ASSISTANT, tool_calls=calls))
            results = [world.execute(call) for call in calls]
            messages.extend(Message(role=Role.TOOL, content=result.content, name=result.name) for result in results)
        right = bool(steps) == bool(task.gold[index])
        messages.append(Message(role=Role.ASSISTANT, content=task.replies[index] if right else "Done."))
    return tuple(messages)
