"""The calls of held-out episodes: the gold calls of tasks, or those that an agent made and an evaluation wrote down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streakline.data.cache_build import paired_results
from streakline.data.conversations import read_conversation
from streakline.errors import DataError
from streakline.types import Message, Role, Task, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutCalls:
    """What one episode called."""

    task: Task
    """Task that it attempted; it has a world."""
    calls: tuple[tuple[ToolCall, ...], ...]
    """[user turns][calls] that were executed; fewer user turns than the task has = the others were not reached."""


def gold_calls(tasks: Iterable[Task]) -> list[HeldOutCalls]:
    """Take the gold calls of the tasks that have a world and gold calls."""
    return [
        HeldOutCalls(task=task, calls=tuple(tuple(call for step in steps for call in step) for steps in task.gold))
        for task in tasks
        if task.simulators and any(task.gold)
    ]


def read_calls(path: Path, *, tasks: Mapping[str, Task]) -> tuple[list[HeldOutCalls], list[str]]:
    """Read the executed calls of a `trajectories/<stage>.jsonl`, given the tasks by id.

    Returns:
        One item an episode, and one sentence for each line that was skipped: it is malformed, its task is not among
        the tasks or has no world, or its messages are not those of its task.

    Raises:
        DataError: If the file can't be read.
    """
    episodes, faults = [], []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        episodes.append(_read_line(line, where=f"{path}, line {number}", tasks=tasks))
                    except DataError as error:
                        faults.append(str(error))
    except OSError as error:
        raise DataError(f"Expected a readable file at {path}, but got: {error.strerror or error}") from error
    return episodes, faults


def _read_line(line: bytes, *, where: str, tasks: Mapping[str, Task]) -> HeldOutCalls:
    conversation = read_conversation(line, where=where)
    task = tasks.get(conversation.task_id)
    if task is None or not task.simulators:
        raise DataError(
            f"Expected the id of a held-out task with a world, but got {conversation.task_id!r}, in {where}"
        )
    turns = list(_by_user_turn(conversation.messages, task=task, where=where))
    executed = [[call for call, answer in paired_results(turn) if answer is not None] for turn in turns]
    return HeldOutCalls(task=task, calls=tuple(map(tuple, executed)))


def _by_user_turn(messages: Sequence[Message], *, task: Task, where: str) -> Iterator[Sequence[Message]]:
    """What the agent and its tools said in answer to each request."""
    position = 1 if task.system else 0
    for request in task.requests:
        if position == len(messages):
            return
        if tuple(messages[position : position + len(request)]) != request:
            raise DataError(f"Expected `messages` to hold the requests of {task.id}, but got others, in {where}")
        start = position = position + len(request)
        while position < len(messages) and messages[position].role in (Role.ASSISTANT, Role.TOOL):
            position += 1
        yield messages[start:position]
    if position < len(messages):
        raise DataError(
            f"Expected `messages` to hold {len(task.requests)} requests of {task.id}, but got more, in {where}"
        )
