"""One clear line for what a user can mend; a traceback is for faults of the program."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from streakline.errors import StreaklineError

_KEY = re.compile(r'Parser key "(.+?)"(?: element \d+)?:')
_WRAPPING = re.compile(
    r"Parser key \".+?\"(?: element \d+)?:|Problem with given class_path '.*?':"
    r"|Type .* expects a function or a callable class:|Does not validate against any of the Union subtypes|Subtypes: .*"
    r"|Errors:$|Expected a <class 'NoneType'>.*|Expected a path but .* either not accessible or invalid|Given value.*"
    r"|Unexpected import path format: .*|Subclass types expect one of:|a class path \(str\)|a dict with.*"
)
"""What jsonargparse says on the way to the reason, and of alternatives that nobody meant."""
_ABSTRACT = re.compile(r"given class_path 'lightning\.[\w.]*Module'")
_FILE = re.compile(r"(?:given class_path '|Unable to load config '|Expected a path but )(\S+\.ya?ml)")
_UNKNOWN = re.compile(r"Expected an option, but got `(.+?)`(.*)")
_REQUIRED = re.compile(r"the following arguments are required: (.+)")
_TYPE = re.compile(
    r"Expected an? (?:<class '(?:\w+\.)*(\w+)'>|typing\.(Literal\[.+\])|(\S.+?))(?:[.:] (?:Got value: )?(.*))?"
)
_COMMAND = re.compile(r"^(?:fit|validate|test|predict)\.")
_GIVEN = re.compile(r"Given value: (?:NestedArg\(key='.*?', val='?(.*?)'?\)|(.*))$", re.MULTILINE)


def error_line(error: BaseException) -> str | None:
    """Say in one line what was wrong, if it is something that a user can mend; None = this is a fault of the program.

    Example::

        >>> error_line(FileNotFoundError(2, "No such file or directory", "tasks.jsonl"))
        "Expected to use 'tasks.jsonl', but got: No such file or directory"
    """
    own = own_error(error)
    if own is not None:
        return _joined(str(own))
    if isinstance(error, argparse.ArgumentError):
        return read_parse_error(str(error))[1]
    if isinstance(error, OSError) and error.strerror:
        what = f"use {error.filename!r}" if error.filename else "read and write"
        return f"Expected to {what}, but got: {error.strerror}"
    if type(error).__name__ == "MisconfigurationException":
        return _joined(str(error))
    return None


def own_error(error: BaseException) -> StreaklineError | None:
    """Find the innermost error of ours that one was raised from: jsonargparse wraps what a constructor raises."""
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


def read_parse_error(text: str) -> tuple[str, str]:
    """Find in jsonargparse's tree of alternatives which option was wrong, and say why in one line.

    Returns:
        The dotted name, empty where no option is named; the line.
    """
    text = re.sub(r"\. Got value: Namespace\(.*", "", text)
    names, reasons = _branch(text)
    option = ".".join(names)
    if names and _ABSTRACT.search(text):
        return option, f"Expected `{option}.class_path` before its arguments, here or in an earlier --config"
    for reason in reasons:
        if found := _UNKNOWN.fullmatch(reason):
            option = ".".join([*names, found[1]])
            return option, f"Expected an option, but got `{option}`{found[2]}"
        if found := _REQUIRED.fullmatch(reason):
            missing = [".".join([*names, _COMMAND.sub("", name)]) for name in found[1].split(", ")]
            hint = "" if names else ", for instance by --config configs/experiment/<name>.yaml"
            return option, f"Expected {' and '.join(f'`{name}`' for name in missing)} to be given{hint}"
    if names and (found := _FILE.search(text)):
        return option, f"Expected `{option}` to name a file of options, but got {found[1]!r}"
    return option, _reason_line(option, reasons, text) if names else _joined(text)


def _branch(text: str) -> tuple[list[str], list[str]]:
    """Names of the nested options down to the first reason; all reasons."""
    names: list[str] = []
    reasons: list[str] = []
    for line in text.splitlines():
        # Below the first reason come the other alternatives.
        names += [] if reasons else [name for name in _KEY.findall(line) if names[-1:] != [name]]
        reason = _WRAPPING.sub("", line.strip().removeprefix("- ")).strip(" -")
        reasons += [reason] if reason else []
    return names, reasons


def _reason_line(option: str, reasons: Sequence[str], text: str) -> str:
    told = [reason.split(". Got value: ")[0] for reason in reasons if not _TYPE.fullmatch(reason)]
    if told or not reasons:
        return _joined(f"Expected a usable `{option}`, but got: {min(told or [text], key=_is_vague)}")
    found = [match for reason in reasons if (match := _TYPE.fullmatch(reason))]
    types = dict.fromkeys(
        match[1] or match[2] or match[3].replace("dot import path string", "class path") for match in found
    )
    given = _GIVEN.search(text)
    value = found[0][4] or (given and (given[1] or given[2])) or "another"
    return _joined(f"Expected `{option}` to be of type {' or '.join(types)}, but got {value!r}")


def _is_vague(reason: str) -> bool:
    return reason.startswith(("Unable to load config", "Not a valid subclass of"))


def _joined(text: str) -> str:
    return " ".join(text.split())
