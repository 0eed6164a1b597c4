"""How a judge is asked: how many at once, how often again, how long to wait for one that is out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import cast, final

from streakline.errors import ConfigError
from streakline.rewards.judge.faults import Fault, ServerFault

BREAK_AFTER = 10
"""Failures of the server in a row after which nothing more is sent before it has been seen to answer. At 30% failures
that happens by chance once in 170,000 calls, and then costs one small call."""
_TELL_EVERY_S = 60.0
_TELL_AFTER_S = 3.0


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
    """Seconds to wait for a server that answers nothing, from its first failure on. Several processes wait for each
    other meanwhile, and most backends of torch give up after 600 to 1800."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        counts, positive = {"concurrency", "attempts"}, {"timeout_s", "requests_per_minute"}
        for name, value in asdict(self).items():
            if value is None and name == "requests_per_minute":
                continue
            expected = (
                "a whole number of at least 1" if name in counts else "positive" if name in positive else "at least 0"
            )
            kind, least = (int, 1) if name in counts else (int | float, 0)
            is_number = isinstance(value, kind) and not isinstance(value, bool)
            # Not `value < least`: nan is neither.
            if not is_number or not value >= least or (value == 0 and name in positive):
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


@final
class Silence:
    """One clock for all requests: how long a server has brought nothing, which the user is told of.

    Args:
        limits: Of them the patience.
        judge: Name of the judge, for the messages.
    """

    def __init__(self, limits: Limits, *, judge: str) -> None:
        self._patience_s, self._judge = limits.patience_s, judge
        self._heard = 0.0
        self._began: float | None = None
        self._told: float | None = None

    @property
    def left_s(self) -> float:
        """Seconds of patience that are left; at least 0."""
        passed_s = 0.0 if self._began is None else time.monotonic() - self._began
        return max(self._patience_s - passed_s, 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the server has failed, and patience is at its end."""
        return self._began is not None and self.left_s == 0

    def note(self, error: object, *, since: float, wait_s: float = 0.0) -> None:
        """Note that a request failed which was sent at `since`, and that none may pass for `wait_s`."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        if self._told is None and now + wait_s - min(self._began, max(self._heard, since)) >= _TELL_AFTER_S:
            self.tell(error)
        elif self._told is not None and now - self._told >= _TELL_EVERY_S:
            self._told = now
            print(f"judge {self._judge} still does not answer after {now - self._began:.0f} s ({error})", flush=True)

    def tell(self, error: object) -> None:
        """Say that the server is waited for, unless that has been said."""
        if self._told is None:
            self._told = time.monotonic()
            waiting = f"waiting for up to {self._patience_s:g} s"
            print(f"judge {self._judge} does not answer ({error}): {waiting}", flush=True)

    def end(self) -> None:
        """Note that the server has answered."""
        self._heard = time.monotonic()
        if self._told is not None and self._began is not None:
            print(f"judge {self._judge} is back after {self._heard - self._began:.0f} s", flush=True)
        self._began = self._told = None


async def wait_for_server(
    probe: Callable[[], Awaitable[Fault | None]], *, limits: Limits, silence: Silence, fault: ServerFault
) -> Fault | None:
    """Wait, saying so, until a server answers again or patience is at its end.

    Args:
        probe: Tries it once; gives what came in place of a verdict.
        limits: How often to try.
        silence: How long.
        fault: What it said last.

    Returns:
        What it said last; a `ServerFault` = it is not back.
    """
    silence.tell(fault)
    pause, said = limits.backoff_s, cast(Fault | None, fault)
    while isinstance(said, ServerFault) and not silence.is_over:
        await asyncio.sleep(min(pause, silence.left_s))
        pause = min(2 * pause, limits.max_backoff_s)
        said = await probe()
    return said
