"""Judges that are rules: for those without an API, and for tests."""

from __future__ import annotations

import re
import unicodedata
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import fmean
from typing import final

from typing_extensions import override

from streakline.errors import ConfigError
from streakline.rewards.judge.base import MAX_SCORE, Judge, Judgment
from streakline.rewards.judge.case import JudgeCase

_WORD = re.compile(r"\w+(?:[.,:]\w+)*")


def words(text: str) -> list[str]:
    """Words and numbers of a text, without case and punctuation.

    Example:
        >>> words("It's 3.50 EUR, Anna!")
        ['it', 's', '3.50', 'eur', 'anna']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


class RuleJudge(Judge):
    """Base of the judges that score each answer by itself."""

    @property
    @override
    def name(self) -> str:
        return type(self).__name__

    @override
    def judge_all(self, cases: Sequence[JudgeCase]) -> list[Judgment]:
        """See `Judge.judge_all`."""
        return [self._judge(case) for case in cases]

    @abstractmethod
    def share(self, case: JudgeCase) -> float | None:
        """How right an answer is, in [0, 1]; None = the rules say nothing of it."""

    def _judge(self, case: JudgeCase) -> Judgment:
        share = self.share(case)
        if share is None:
            return Judgment(score=None, failure=f"nothing to compare the answer of {case.id} with")
        return Judgment(score=MAX_SCORE * share)


@final
class ExactAnswer(RuleJudge):
    """Share of the user turns whose answer has the words of the right one, in their order."""

    @override
    def share(self, case: JudgeCase) -> float | None:
        """See `RuleJudge.share`."""
        return _mean([float(words(answer) == words(right)) for answer, right in _pairs(case)])


@final
class F1Answer(RuleJudge):
    """Mean over user turns of the F1 of words shared with the right answer, as in SQuAD (arXiv 1606.05250)."""

    @override
    def share(self, case: JudgeCase) -> float | None:
        """See `RuleJudge.share`."""
        return _mean([_f1(words(answer), words(right)) for answer, right in _pairs(case)])


@dataclass(frozen=True, kw_only=True)
class RubricItem:
    """Something that an answer should, or should not, say."""

    pattern: str
    """Regular expression that is looked for in the final answer, without regard to case."""
    points: float = 1.0
    """What it earns; negative = what it costs."""
    tasks: str = "*"
    """Pattern of the task ids that it is about."""


@final
class RubricAnswer(RuleJudge):
    """Points of the final answer, as a share of those that could be earned.

    Args:
        items: What is looked for. A task that no item with positive points is about is unscored.
    """

    def __init__(self, items: list[RubricItem]) -> None:
        self._items = [(item, _compiled(item.pattern)) for item in items]

    @override
    def share(self, case: JudgeCase) -> float | None:
        """See `RuleJudge.share`."""
        items = [(item.points, pattern) for item, pattern in self._items if fnmatchcase(case.id, item.tasks)]
        best = sum(points for points, _ in items if points > 0)
        earned = sum(points for points, pattern in items if pattern.search(case.final_answer))
        return min(max(earned / best, 0.0), 1.0) if best else None


def _pairs(case: JudgeCase) -> list[tuple[str, str]]:
    return list(zip(case.answers, case.references, strict=False))


def _f1(answer: Sequence[str], right: Sequence[str]) -> float:
    shared = (Counter(answer) & Counter(right)).total()
    if not answer or not right:
        return float(answer == right)
    return 2 * shared / (len(answer) + len(right))


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ConfigError(f"Expected `pattern` to be a regular expression, but got {pattern!r}: {error}") from error
