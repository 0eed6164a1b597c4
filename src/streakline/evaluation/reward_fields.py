"""Typed access to the objects of a row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import final

from streakline.errors import DataError
from streakline.types import JSON, Message


@final
class Fields:
    """An object of a row. What is absent or null is empty; what is of another type is a `DataError` naming `where`."""

    def __init__(self, values: Mapping[str, JSON], where: str) -> None:
        self.values = values
        self._where = where

    def text(self, name: str) -> str:
        """A text."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self._fault(name, "a text", value)
        return value or ""

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._fault(name, "true or false", value)
        return bool(value)

    def number(self, name: str) -> float | None:
        """A finite number; None = absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise self._fault(name, "a finite number", value)
        return float(value)

    def numbers(self, name: str) -> dict[str, float | None]:
        """Finite numbers by name."""
        inner = Fields(self._object(self.values.get(name) or {}, name), self._where)
        return {key: inner.number(key) for key in inner.values}

    def texts(self, name: str) -> dict[str, str]:
        """Texts by name."""
        inner = Fields(self._object(self.values.get(name) or {}, name), self._where)
        return {key: inner.text(key) for key in inner.values}

    def place(self, name: str, messages: Sequence[Message]) -> int | None:
        """The index of a message; None = absent."""
        value = self.number(name)
        if value is not None and not (value == int(value) and 0 <= value < len(messages)):
            raise self._fault(name, f"the index of one of {len(messages)} messages", self.values[name])
        return None if value is None else int(value)

    def objects(self, name: str) -> list[Fields]:
        """A list of objects."""
        return [Fields(self._object(item, name), self._where) for item in self._list(self.values.get(name), name)]

    def lists(self, name: str) -> list[list[Fields]]:
        """A list of lists of objects."""
        lists = [self._list(item, name) for item in self._list(self.values.get(name), name)]
        return [[Fields(self._object(item, name), self._where) for item in one] for one in lists]

    def _list(self, value: JSON, name: str) -> list[JSON]:
        if value is not None and not isinstance(value, list):
            raise self._fault(name, "a list", value)
        return value or []

    def _object(self, value: JSON, name: str) -> dict[str, JSON]:
        if not isinstance(value, dict):
            raise self._fault(name, "an object", value)
        return value

    def _fault(self, name: str, expected: str, value: JSON) -> DataError:
        return DataError(f"Expected `{name}` to be {expected} in {self._where}, but got {str(value)[:40]!r}")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond what a float holds
        return False
