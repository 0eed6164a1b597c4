"""The interface of everything that scores an answer from 0 to 5."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streakline.rewards.judge.case import JudgeCase

MAX_SCORE: Final = 5
"""Scores are 0 ... 5 (paper B)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """What a judge made of one answer, and what that took."""

    score: float | None
    """In [0, 5]; None = it could not be scored, and `failure` says why."""
    reason: str = ""
    """The judge's own words; empty = it gave none."""
    failure: str = ""
    """Why there is no score; empty = there is one."""
    parts: tuple[float | None, ...] = ()
    """Score of each judge of a panel; empty = one judge alone."""
    calls: int = 0
    """Requests that were sent for it, retries included."""
    failed_calls: int = 0
    """Those that brought no verdict."""
    tokens: int = 0
    """Tokens of all these requests and replies, as the server counts them."""
    seconds: float = 0.0
    """Time that its requests took, without the waits between them."""
    cached: bool = False
    """Whether it had been judged before."""


class Judge(ABC):
    """Scores answers from 0 to 5. What it can't score is None, never 0."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in messages and tables."""

    @abstractmethod
    def judge_all(self, cases: Sequence[JudgeCase]) -> list[Judgment]:
        """Judge answers side by side.

        Raises:
            JudgeOutageError: It can't be reached, and waiting did not help, or its budget is spent.
        """
