"""A clock that stands still for the simulators, whatever the machine's time and time zone are.

The simulators stamp files with `datetime.now()`, work out ages with `datetime.today()` and draw transaction times by
way of local time stamps, so their results would drift with the day and the machine. `FrozenDatetime` takes the place
of `datetime.datetime` in their modules: it reads a context variable, so that episodes in other threads and tasks keep
their own time, and it counts naive times as UTC. Outside `frozen_clock` it tells the real time.
"""

from __future__ import annotations

import datetime as real
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Self

from streakline.errors import DataError

_MOMENT: ContextVar[FrozenDatetime | None] = ContextVar("streakline_clock", default=None)


class _AcceptsRealDatetimes(type(real.datetime)):  # type: ignore[misc]  # the metaclass of datetime is plain `type`
    """Lets a real `datetime` pass `isinstance(x, FrozenDatetime)`, as the code it is injected into expects."""

    def __instancecheck__(cls, instance: object) -> bool:
        """Whether it is any kind of datetime."""
        return isinstance(instance, real.datetime)


class FrozenDatetime(real.datetime, metaclass=_AcceptsRealDatetimes):
    """`datetime.datetime` whose present is that of `frozen_clock`, and whose naive time stamps are UTC."""

    @classmethod
    def now(cls, tz: real.tzinfo | None = None) -> Self:
        """The frozen moment, or the real one outside `frozen_clock`."""
        moment = _MOMENT.get()
        if moment is None:
            return super().now(tz)
        return cls.of(moment if tz is None else moment.replace(tzinfo=real.UTC).astimezone(tz))

    @classmethod
    def today(cls) -> Self:
        """As `now()` without a time zone."""
        return cls.now()

    @classmethod
    def fromtimestamp(cls, timestamp: float, tz: real.tzinfo | None = None) -> Self:
        """Time of a POSIX time stamp, naive UTC where no time zone is given."""
        if tz is not None:
            return super().fromtimestamp(timestamp, tz)
        return cls.of(super().fromtimestamp(timestamp, real.UTC).replace(tzinfo=None))

    def timestamp(self) -> float:
        """POSIX time stamp; a naive time is read as UTC."""
        return super().timestamp() if self.tzinfo is not None else self.replace(tzinfo=real.UTC).timestamp()

    @classmethod
    def of(cls, moment: real.datetime) -> Self:
        """The same time as an instance of this class."""
        if type(moment) is cls:
            return moment
        return cls(*moment.timetuple()[:6], moment.microsecond, moment.tzinfo, fold=moment.fold)


@contextmanager
def frozen_clock(moment: real.datetime) -> Iterator[None]:
    """Let the simulators see `moment` as the present inside the block, in this thread and context only."""
    token = _MOMENT.set(FrozenDatetime.of(moment))
    try:
        yield
    finally:
        _MOMENT.reset(token)


@lru_cache(maxsize=4096)
def parse_clock(text: str) -> FrozenDatetime:
    """Read a task's clock: ISO 8601 local time without a time zone; anything else is a `DataError`."""
    try:
        moment = real.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is not None:
        raise DataError(f"Expected `clock` to be an ISO 8601 time without a time zone, but got {text!r}")
    return FrozenDatetime.of(moment)
