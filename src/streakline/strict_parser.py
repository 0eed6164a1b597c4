"""A parser that refuses what it would otherwise ignore, and says in which file and line it stands."""

from __future__ import annotations

import argparse
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import Namespace
from lightning.pytorch.cli import LightningArgumentParser
from typing_extensions import override

from streakline.config_file import find_line, refuse_unreadable
from streakline.error_line import read_parse_error
from streakline.errors import ConfigError

_UNKNOWN = re.compile(
    r"unrecognized arguments: --(?P<option>[^\s=]+).*|Option '(?P<key>.+)' is not accepted"
    r"|(?:Group '(?P<group>.+)'|Subcommand '.+') does not accept option '(?P<sub>.+)'",
    re.DOTALL,
)


class StrictParser(LightningArgumentParser):
    """Takes no abbreviation, at any depth: a misspelt `--trainer.max_epoch` is not the option that it begins.

    A class of its own, because jsonargparse makes the parsers of nested classes from the class of the outer one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, whatever Lightning and jsonargparse pass
        super().__init__(*args, **{"allow_abbrev": False, "exit_on_error": False, **kwargs})

    @override
    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise; an unknown option comes with those of similar names."""
        if found := _UNKNOWN.fullmatch(message):
            name = ".".join(part for part in (found["group"], found["option"] or found["key"] or found["sub"]) if part)
            message = f"Expected an option, but got {self._unknown_part(name)}"
        elif "Config file loop detected" in message and (first := _before_loop(ex)):
            message = f"{message.splitlines()[0]}\n{first}"
        super().error(message, ex)

    @override
    def parse_path(self, path: str, **kwargs: Any) -> Namespace:
        """Parse a file, and name it in what is said of it.

        Raises:
            ConfigError: If it can't be read, or says what is no option.
        """
        file = Path(path)
        refuse_unreadable(file)
        try:
            parsed: Namespace = super().parse_path(path, **kwargs)
            self._refuse_unknown(parsed)
        except argparse.ArgumentError as error:
            option, line = read_parse_error(str(error))
            raise ConfigError(f"{line} ({find_line(option, file)})") from error
        return parsed

    @override
    def parse_object(self, obj: Namespace | dict[str, Any] | None, *args: Any, **kwargs: Any) -> Namespace:
        """Parse the arguments of a nested class."""
        if obj is None:
            self.error("no arguments")
        self._refuse_empty(Namespace(obj))  # type: ignore[no-untyped-call]
        parsed: Namespace = super().parse_object(obj, *args, **kwargs)
        return parsed

    def _refuse_unknown(self, parsed: Namespace) -> None:
        try:
            self.validate(parsed, skip_required=True)
        except (KeyError, TypeError) as error:
            self.error(str(error), error)
        self._refuse_empty(parsed)

    def _refuse_empty(self, given: Namespace) -> None:
        """Refuse a name under which nothing stands where options belong, or whose own name nobody misses then."""
        options = [f"{action.dest}." for action in self._actions]
        for name, value in given.items(branches=True):
            if value is None and name in (self.groups or ()):
                self.error(f'Parser key "{name}": no options')
            is_known = any(known.startswith(f"{name}.") or f"{name}.".startswith(known) for known in options)
            if isinstance(value, Namespace | dict) and not value and not is_known:
                self.error(f"Option '{name}' is not accepted")

    def _unknown_part(self, name: str) -> str:
        """Name an unknown option up to its first unknown part, and what that part could have been."""
        options = [action.dest.split(".") for action in self._actions]
        parts = name.split(".")
        for depth, part in enumerate(parts):
            names = {option[depth] for option in options if len(option) > depth and option[:depth] == parts[:depth]}
            if part not in names:
                shown = f"`{'.'.join(parts[: depth + 1])}`"
                # These two are names in any class.
                close = get_close_matches(part, [*names, *({"class_path", "init_args"} - {part})])
                if close:
                    return f"{shown}: did you mean {_listed(close, 'or')}?"
                names -= {"help", "print_config"}
                return f"{shown}: there are {_listed(sorted(names), 'and')}" if 0 < len(names) < 20 else shown
        return f"`{name}`"


def _before_loop(error: BaseException | None) -> BaseException | None:
    """What was wrong with a file before jsonargparse tried to read it again as a class path."""
    while error is not None and "Config file loop detected" in str(error):
        error = error.__cause__ or error.__context__
    return error


def _listed(names: list[str], word: str) -> str:
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} {word} {last}" if first else last
