"""Values that differ between the splits by construction: made-up words, and numbers.

Each value belongs to exactly one split, by a hash of its text. A split draws until it gets one of its own, so a name
or a number of the test split occurs in no other split, whatever the seeds and sizes. Values with few choices (a
priority from 1 to 5, a mode, `Buy`) are shared.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, TypeVar, final

from streakline.errors import ConfigError
from streakline.types import Task

Split: TypeAlias = Literal["base", "train", "validation", "test"]
T = TypeVar("T")
Value = TypeVar("Value", str, int, float)

SPLITS: tuple[Split, ...] = ("base", "train", "validation", "test")
"""`base` is for the tasks that tools/make_base.py trains on; the others are the task proper."""

_OWNERS: tuple[Split, ...] = ("base", "base", "base", "base", "train", "train", "validation", "test")
_DRAWS = 10_000
"""Draws before a range counts as used up."""
_ONSETS = "bdfgklmnprstvz"
_VOWELS = "aeiou"
_CODAS = ("", "", "n", "r", "s", "l")
_SUFFIXES = ("txt", "md", "csv")


def owner(value: str | float) -> Split:
    """Split that a word (whatever its case) or a number belongs to.

    >>> owner("Mira") == owner("mira")
    True
    """
    # A CRC would be faster, but leaves some splits without any two-digit number.
    return _OWNERS[hashlib.sha256(str(value).lower().encode()).digest()[0] % len(_OWNERS)]


def split_of(task: Task) -> Split:
    """Split that a task of this generator belongs to, read from its id.

    Raises:
        ConfigError: The task comes from elsewhere.
    """
    for split in SPLITS:
        if task.id.startswith(f"toolworld/{split}/"):
            return split
    raise ConfigError(f"Expected a task of ToolWorld, but got {task.id!r}")


@final
class Values:
    """Draws values of one split for one task, no value twice. Each draw advances `rng`."""

    def __init__(self, rng: random.Random, *, split: Split) -> None:
        self.rng = rng
        self.split = split
        self._used: set[str] = set()

    def pick(self, choices: Sequence[T]) -> T:
        """One of a few shared choices."""
        return choices[int(self.rng.random() * len(choices))]

    def word(self, syllables: int = 2) -> str:
        """Made-up lower-case word such as `miran`."""
        return self._own(lambda: self._syllables(syllables) + self.pick(_CODAS))

    def name(self) -> str:
        """Made-up name of a person such as `Miran`."""
        return self.word().capitalize()

    def symbol(self) -> str:
        """Made-up stock symbol such as `MIRA`."""
        return self._own(lambda: self._syllables(2)).upper()

    def file(self) -> str:
        """File name such as `miran.txt`."""
        return f"{self.word()}.{self.pick(_SUFFIXES)}"

    def text(self) -> str:
        """Two words."""
        return f"{self.word()} {self.word()}"

    def number(self, low: int, high: int) -> int:
        """Integer in [low, high]."""
        return self._own(lambda: low + int(self.rng.random() * (high - low + 1)))

    def digits(self, count: int) -> int:
        """Positive integer of `count` digits."""
        return self.number(10 ** (count - 1), 10**count - 1)

    def decimal(self, low: int, high: int) -> float:
        """Number in (low, high) with one decimal place, which is never 0."""
        return self._own(lambda: low + int(self.rng.random() * (high - low)) + (1 + int(self.rng.random() * 9)) / 10)

    def addends(self) -> tuple[int, int, int]:
        """Two numbers and their sum, which becomes an argument and so has to belong to the split too."""
        while True:
            first, second = self.number(10, 999), self.number(10, 999)
            if owner(first + second) == self.split:
                return first, second, first + second

    def user_id(self) -> str:
        """Id of a user of the message app such as `USR417`."""
        return f"USR{self.digits(3)}"

    def _syllables(self, count: int) -> str:
        return "".join(self.pick(_ONSETS) + self.pick(_VOWELS) for _ in range(count))

    def _own(self, draw: Callable[[], Value]) -> Value:
        for _ in range(_DRAWS):
            value = draw()
            key = str(value)
            if owner(key) == self.split and key not in self._used:
                self._used.add(key)
                return value
        raise RuntimeError(f"Expected a range that holds enough values of split {self.split}, but got one without")
