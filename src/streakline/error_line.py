"""One clear line for what a user can mend; a traceback is for faults of the program."""

from __future__ import annotations

import argparse
import re

from streakline.errors import StreaklineError

__all__ = ["error_line", "own_error"]

_NOISE = re.compile(
    r"Does not validate against any of the Union subtypes|Subtypes: .*|Errors:$|- Expected a <class 'NoneType'>.*"
    r"|Given value type: .*|Given value: .*|Unexpected import path format: .*"
)


def error_line(error: BaseException) -> str | None:
    """Say in one line what was wrong, if it is something that a user can mend.

    Args:
        error: What was raised.

    Returns:
        The line; None = this is a fault of the program, whose traceback is needed.

    Example::

        >>> error_line(FileNotFoundError(2, "No such file or directory", "tasks.jsonl"))
        "Expected to use 'tasks.jsonl', but got: No such file or directory"
    """
    own = own_error(error)
    if own is not None:
        return _joined(str(own))
    if isinstance(error, argparse.ArgumentError):
        return _parse_error_line(str(error))
    if isinstance(error, OSError) and error.strerror:
        what = f"use {error.filename!r}" if error.filename else "read and write"
        return f"Expected to {what}, but got: {error.strerror}"
    if type(error).__name__ == "MisconfigurationException":
        return _joined(str(error))
    return None


def own_error(error: BaseException) -> StreaklineError | None:
    """Find the error of ours that another one was raised from: jsonargparse wraps what a constructor raises.

    Args:
        error: What was raised.

    Returns:
        The innermost one of ours in its chain of causes; None = there is none.
    """
    found: StreaklineError | None = None
    # Anything but these while one of ours is handled is a fault of the program, and needs its traceback.
    link: BaseException | None = (
        error if isinstance(error, StreaklineError | ValueError | argparse.ArgumentError) else None
    )
    while link is not None:
        if isinstance(link, StreaklineError):
            found = link
        link = link.__cause__ or link.__context__
    return found


def _parse_error_line(text: str) -> str:
    """Leave out of jsonargparse's tree of alternatives what only says that None would have been fine too."""
    kept = [_NOISE.sub("", line.strip()).strip() for line in text.splitlines()]
    return _joined(" ".join(line.removeprefix("- ") for line in kept if line))


def _joined(text: str) -> str:
    return " ".join(text.split())
