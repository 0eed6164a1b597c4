"""How a judge is asked: how many at once, how often again, how long to wait for one that is out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import final

from streakline.errors import ConfigError

BREAK_AFTER = 10
"""Failures of the server in a row after which nothing more is sent before it has been seen to answer. At 30% failures
that happens by chance once in 170,000 calls, and then costs one small call."""
_TELL_EVERY_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server, and a run, can be asked to bear."""

    concurrency: int = 32
    """Requests of one process under way at once."""
    timeout_s: float = 60.0
    """Seconds that one request may take."""
    attempts: int = 4
    """Times that a request is sent before it counts as failed; those that met a busy server (429) don't count. Where
    the server answers others, once as many again."""
    backoff_s: float = 1.0
    """Seconds before the second attempt, doubled before each further one; up to as many more by chance."""
    max_backoff_s: float = 30.0
    """Upper bound of that. What the server asks for (`Retry-After`) goes before it."""
    requests_per_minute: float | None = None
    """Rate of requests; None = as fast as they come back."""
    patience_s: float = 600.0
    """Seconds to wait for a server that answers nothing. Several processes wait for each other meanwhile, and most
    backends of torch give up after 600 to 1800."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        counts, positive = {"concurrency", "attempts"}, {"timeout_s", "requests_per_minute"}
        for name, value in asdict(self).items():
            if value is None and name == "requests_per_minute":
                continue
            expected = "at least 1" if name in counts else "positive" if name in positive else "at least 0"
            least = 1 if name in counts else 0
            if not isinstance(value, int | float) or value < least or (value == 0 and name in positive):
                raise ConfigError(f"Expected `limits.{name}` to be {expected}, but got {value!r}")


@final
class Gate:
    """Lets requests pass: so many at once, at this rate, and none before the time that the server asked for."""

    def __init__(self, limits: Limits) -> None:
        self._semaphore = asyncio.Semaphore(limits.concurrency)
        self._spacing_s = 60.0 / limits.requests_per_minute if limits.requests_per_minute else 0.0
        self._opens_at = 0.0

    def hold(self, seconds: float) -> None:
        """Let nothing pass for a while."""
        self._opens_at = max(self._opens_at, time.monotonic() + seconds)

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Wait for a place."""
        async with self._semaphore:
            while (wait_s := self._opens_at - time.monotonic()) > 0:
                await asyncio.sleep(wait_s)
            self._opens_at = max(self._opens_at, time.monotonic()) + self._spacing_s if self._spacing_s else 0.0
            yield


async def wait_for_server(answers: Callable[[], Awaitable[str]], *, limits: Limits, judge: str, error: str) -> str:
    """Wait, saying so, until a server answers again or patience is at its end.

    Args:
        answers: Tries it once; gives the error, empty = it answered.
        limits: How long, and how often to try.
        judge: Name of the judge, for the message.
        error: What it said last.

    Returns:
        What it said last; empty = it is back.
    """
    start = told = time.monotonic()
    pause = limits.backoff_s
    print(f"judge {judge} does not answer ({error}): waiting for up to {limits.patience_s:g} s", flush=True)
    while error and (left := start + limits.patience_s - time.monotonic()) > 0:
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, limits.max_backoff_s)
        error = await answers()
        now = time.monotonic()
        if error and now - told >= _TELL_EVERY_S:
            told = now
            print(f"judge {judge} still does not answer after {now - start:.0f} s ({error})", flush=True)
    if not error:
        print(f"judge {judge} is back after {time.monotonic() - start:.0f} s", flush=True)
    return error
