import threading
import time
from contextvars import ContextVar
from functools import partial
from operator import mul

import pytest

from streakline.environment.workers import run_with_timeout

VARIABLE = ContextVar("variable", default="unset")


def test_the_value_and_the_callers_context_come_back():
    VARIABLE.set("set")
    assert run_with_timeout(lambda: (VARIABLE.get(), threading.current_thread().name), timeout_s=5) == (
        "set",
        "streakline-tool",
    )


def test_what_it_raises_reaches_the_caller():
    def fail():
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        run_with_timeout(fail, timeout_s=5)


def test_an_overrun_raises_at_once_and_does_not_block_the_next_call():
    release = threading.Event()
    started = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
        run_with_timeout(lambda: release.wait(30), timeout_s=0.05)
    assert run_with_timeout(lambda: "next", timeout_s=5) == "next"
    assert time.perf_counter() - started < 5
    release.set()


def test_many_callers_get_their_own_values():
    results = {}

    def ask(number):
        results[number] = [run_with_timeout(partial(mul, number, step), timeout_s=30) for step in range(50)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [number * step for step in range(50)] for number in range(8)}
