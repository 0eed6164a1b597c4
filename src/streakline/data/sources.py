"""Where demonstrations come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from typing import final

from streakline.data.conversations import Conversation, read_conversations
from streakline.environment.live import LiveEnvironment
from streakline.errors import DataError
from streakline.rollout.episode import opening_messages
from streakline.tasks.base import TaskSet
from streakline.tasks.toolworld.demonstrations import demonstrate
from streakline.types import Message, Role, Task


class DemonstrationSource(ABC):
    """Conversations that show what to do. To add one, implement `conversations`."""

    @abstractmethod
    def conversations(self, *, limit: int | None = None) -> Sequence[Conversation]:
        """Read or make the first `limit` in a fixed order, when training begins; raises `DataError` if that fails."""


@final
class JsonlDemonstrations(DemonstrationSource):
    """Conversations from a file: other people's data, or what `predict` wrote.

    Args:
        path: File in the format of `data/conversations.py`.
        min_reward: Rows with a `reward` below this are left out (rejection sampling); None = all rows.
    """

    def __init__(self, path: str, *, min_reward: float | None = None) -> None:
        self._path = path
        self._min_reward = min_reward

    def conversations(self, *, limit: int | None = None) -> Sequence[Conversation]:
        """Read the file. See `DemonstrationSource.conversations`."""
        return read_conversations(self._path, limit=limit, min_reward=self._min_reward)


@final
class ToolWorldDemonstrations(DemonstrationSource):
    """Demonstrations of ToolWorld tasks, with the mistakes that they show on purpose.

    Args:
        tasks: Tasks of ToolWorld.
        habits: Kind -> probability that its demonstration shows the kind's mistake; None = ToolWorld's defaults; empty
            = all right.
        seed: Decides with the task's id whether the mistake is shown.
    """

    def __init__(self, tasks: TaskSet, *, habits: dict[str, float] | None = None, seed: int = 0) -> None:
        self._tasks = tasks
        self._habits = habits
        self._seed = seed

    def conversations(self, *, limit: int | None = None) -> Sequence[Conversation]:
        """Play the tasks. See `DemonstrationSource.conversations`."""
        return [
            _conversation(task, demonstrate(task, habits=self._habits, seed=self._seed).messages)
            for task in islice(self._tasks, limit)
        ]


@final
class GoldDemonstrations(DemonstrationSource):
    """The gold calls of any tasks that have them, played in a fresh world.

    Args:
        tasks: Tasks with gold calls.
        closing: What the assistant says at the end of a user turn whose right closing text is not known.
    """

    def __init__(self, tasks: TaskSet, *, closing: str = "Done.") -> None:
        self._tasks = tasks
        self._closing = closing

    def conversations(self, *, limit: int | None = None) -> Sequence[Conversation]:
        """Play the tasks; raises `DataError` where one has no gold calls. See `DemonstrationSource.conversations`."""
        return [_conversation(task, self._play(task)) for task in islice(self._tasks, limit)]

    def _play(self, task: Task) -> tuple[Message, ...]:
        if not task.gold:
            raise DataError(f"Expected gold calls of task {task.id}, but got none")
        world = LiveEnvironment(task, timeout_s=None)
        messages: list[Message] = []
        for index, steps in enumerate(task.gold):
            world.begin_user_turn(index)
            messages.extend(task.requests[index])
            for calls in steps:
                messages.append(Message(role=Role.ASSISTANT, tool_calls=calls))
                if not task.simulators:
                    return tuple(messages)  # the calls themselves are the outcome: nothing follows them
                results = [world.execute(call) for call in calls]
                messages.extend(Message(role=Role.TOOL, content=result.content, name=result.name) for result in results)
            reply = task.replies[index] if task.replies else self._closing
            messages.append(Message(role=Role.ASSISTANT, content=reply))
        return tuple(messages)


def _conversation(task: Task, messages: Sequence[Message]) -> Conversation:
    """What was played, opened as the agent loop opens an episode of the task."""
    given = opening_messages(task, mode="connected")
    return Conversation(
        task_id=task.id,
        messages=(*given, *messages[len(task.requests[0]) :]),
        tools=task.tools,
        revealed_tools=task.revealed_tools,
        num_given=len(given),
    )
