"""What every source of tasks offers: a fixed number of tasks by index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import final

from streakline.errors import DataError
from streakline.types import Task


class TaskSet(ABC):
    """A sized source of tasks. The same index always gives an equal task, in every process.

    To add one, implement the two methods below and give tasks stable, unique ids.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number of tasks."""

    @abstractmethod
    def __getitem__(self, index: int) -> Task:
        """Task at `index`, in [0, len). Raises `IndexError` outside it."""

    def __iter__(self) -> Iterator[Task]:
        """Tasks in order of their index."""
        return (self[index] for index in range(len(self)))

    def tasks(self) -> tuple[Task, ...]:
        """All tasks in order of their index."""
        return tuple(self)


@final
class ListTaskSet(TaskSet):
    """Tasks that are already in memory.

    Args:
        tasks: In the order in which they are indexed.

    Raises:
        DataError: Two of them have the same id.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)
        seen: set[str] = set()
        for task in self._tasks:
            if task.id in seen:
                raise DataError(f"Expected task ids to be unique, but got {task.id!r} twice")
            seen.add(task.id)

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> Task:
        return self._tasks[index]
