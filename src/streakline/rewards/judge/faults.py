"""What can become of a request in place of a verdict: each kind is met in another way."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import final


class Fault(Exception):  # noqa: N818 - it is a result, caught where it is expected
    """A call that brought nothing, and is worth another try."""


@final
class ServerFault(Fault):
    """The server did not answer, or says that it can't now.

    Args:
        message: What it said.
        wait_s: Seconds for which it asks to be left alone.
        is_busy: Whether it turned the request away because there are too many.
    """

    def __init__(self, message: str, *, wait_s: float = 0.0, is_busy: bool = False) -> None:
        super().__init__(message)
        self.wait_s = wait_s
        self.is_busy = is_busy


@final
class RequestFault(Fault):
    """The server does not take this one request: no use to repeat it."""


@final
class RefusalFault(Fault):
    """The server takes no request of ours: a wrong key, an unknown model, an empty account.

    Args:
        message: What it said.
        is_certain: Whether it is about all requests. A gateway turns away single ones, too, for what they say.
    """

    def __init__(self, message: str, *, is_certain: bool) -> None:
        super().__init__(message)
        self.is_certain = is_certain


_BUSY = 429
_REFUSALS = {401, 402}
_PERHAPS_REFUSALS = {403, 404, 405}
_REQUEST_FAULTS = {400, 413, 415, 422}


def status_fault(status: int, *, code: str | None, message: str, retry_after: str | None) -> Fault:
    """What a status other than success means."""
    if status in _REFUSALS or code == "insufficient_quota":
        return RefusalFault(message, is_certain=True)
    if status in _PERHAPS_REFUSALS:
        return RefusalFault(message, is_certain=False)
    if status in _REQUEST_FAULTS:
        return RequestFault(message)
    return ServerFault(message, wait_s=_seconds(retry_after), is_busy=status == _BUSY)


def _seconds(retry_after: str | None) -> float:
    """Seconds that a server asks to wait; what is neither a number nor a date is left to the backoff."""
    text = retry_after or "0"
    try:
        seconds = float(text)
    except ValueError:
        seconds = _seconds_until(text)
    return seconds if 0 < seconds < float("inf") else 0.0


def _seconds_until(date: str) -> float:
    try:
        at = parsedate_to_datetime(date)
        return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return 0.0
