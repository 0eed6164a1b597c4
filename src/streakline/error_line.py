"""One clear line for what a user can mend; a traceback is for faults of the program."""

from __future__ import annotations

import argparse
import re

from streakline.errors import StreaklineError

__all__ = ["error_line"]

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
    if isinstance(error, argparse.ArgumentError):
        return _parse_error_line(str(error))
    if isinstance(error, StreaklineError):
        return _joined(str(error))
    if isinstance(error, OSError) and error.strerror:
        what = f"use {error.filename!r}" if error.filename else "read and write"
        return f"Expected to {what}, but got: {error.strerror}"
    if type(error).__name__ == "MisconfigurationException":
        return _joined(str(error))
    return None


def _parse_error_line(text: str) -> str:
    """Leave out of jsonargparse's tree of alternatives what only says that None would have been fine too."""
    kept = [_NOISE.sub("", line.strip()).strip() for line in text.splitlines()]
    return _joined(" ".join(line.removeprefix("- ") for line in kept if line))


def _joined(text: str) -> str:
    return " ".join(text.split())
