"""Runs a function with a time limit on a reused daemon thread.

Handing a call over and back costs some tens of microseconds. A thread can't be killed: one that overruns
is abandoned and ends with its call, and the caller gets a `TimeoutError` at once. Context variables (the frozen
clock) are those of the caller.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

T = TypeVar("T")

_idle: deque[_Worker] = deque()
"""Workers that wait for a job. `deque.append` and `pop` are atomic."""

os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork


class _Job(Generic[T]):
    """A function to run, and where its outcome goes."""

    __slots__ = ("context", "error", "finished", "function", "value")

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.context = copy_context()
        self.finished = threading.Lock()
        self.finished.acquire()
        self.value: T | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self.context.run(self.function)
        except BaseException as error:  # carried over to the caller, who decides
            self.error = error


class _Worker:
    """A daemon thread that runs one job at a time."""

    __slots__ = ("job", "wake")

    def __init__(self) -> None:
        self.job: _Job[object] | None = None
        self.wake = threading.Lock()
        self.wake.acquire()
        threading.Thread(target=self._serve, name="streakline-tool", daemon=True).start()

    def start(self, job: _Job[object]) -> None:
        self.job = job
        self.wake.release()

    def _serve(self) -> None:
        while True:
            self.wake.acquire()
            job, self.job = self.job, None
            if job is not None:
                job.run()
                _idle.append(self)
                job.finished.release()


def run_with_timeout(function: Callable[[], T], *, timeout_s: float) -> T:
    """Run `function` on another thread, and return or raise what it does.

    After `timeout_s` seconds that is a `TimeoutError`, although it may still be running.
    """
    job: _Job[T] = _Job(function)
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.start(job)  # type: ignore[arg-type]  # a worker doesn't look at the value
    if not job.finished.acquire(timeout=timeout_s):
        raise TimeoutError(f"Expected an answer within {timeout_s:g} s, but got none")
    if job.error is not None:
        raise job.error
    return job.value  # type: ignore[return-value]  # set where there is no error
