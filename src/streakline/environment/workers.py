"""Runs a function with a time limit on a reused daemon thread.

Handing a call over and back costs some tens of microseconds. A thread can't be killed: one that overruns
is abandoned and ends with its call, and the caller gets a `TimeoutError` at once. Context variables (the frozen
clock) are those of the caller.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

_Jobs: TypeAlias = SimpleQueue[tuple[Callable[[], Any], SimpleQueue[tuple[Any, BaseException | None]]]]
"""What a worker is to run, and where the value or the error goes."""

_idle: deque[_Jobs] = deque()
"""Queues of the workers that wait for a job. `deque.append` and `pop` are atomic."""

os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork


def run_with_timeout(function: Callable[[], T], *, timeout_s: float) -> T:
    """Run `function` on another thread, and return or raise what it does.

    After `timeout_s` seconds that is a `TimeoutError`, although it may still be running.
    """
    try:
        jobs = _idle.pop()
    except IndexError:
        jobs = SimpleQueue()
        Thread(target=_serve, args=(jobs,), name="streakline-tool", daemon=True).start()
    answer: SimpleQueue[tuple[T, BaseException | None]] = SimpleQueue()
    jobs.put((partial(copy_context().run, function), answer))
    try:
        value, error = answer.get(timeout=timeout_s)
    except Empty:
        raise TimeoutError(f"Expected an answer within {timeout_s:g} s, but got none") from None
    if error is not None:
        raise error
    return value


def _serve(jobs: _Jobs) -> None:
    while True:
        run, answer = jobs.get()
        try:
            outcome: tuple[Any, BaseException | None] = run(), None
        except BaseException as error:  # carried over to the caller, who decides
            outcome = None, error
        del run  # what it holds isn't kept until the next job
        _idle.append(jobs)
        answer.put(outcome)
        del outcome, answer
