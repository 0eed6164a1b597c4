"""Several judges, one score."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Literal, final

from typing_extensions import override

from streakline.errors import ConfigError, JudgeOutageError
from streakline.rewards.judge.base import Judge, Judgment
from streakline.rewards.judge.case import JudgeCase


@final
class JudgePanel(Judge):
    """Mean or median of the judges that scored an answer. They are asked one after the other.

    Args:
        judges: At least two.
        combine: How scores are put together.
        min_scores: An answer that fewer judges scored is unscored; None = all must. Where an outage leaves fewer
            judges than that, it is one of the panel.
    """

    def __init__(
        self, judges: list[Judge], combine: Literal["mean", "median"] = "mean", min_scores: int | None = None
    ) -> None:
        if len(judges) < 2:
            raise ConfigError(f"Expected `judges` to hold at least two judges, but got {len(judges)}")
        least = len(judges) if min_scores is None else min_scores
        if not 1 <= least <= len(judges):
            raise ConfigError(f"Expected `min_scores` to be in 1 ... {len(judges)}, but got {min_scores}")
        self.judges = tuple(judges)
        self._combine: Callable[[Sequence[float]], float] = fmean if combine == "mean" else median
        self._least = least
        # Told of once an outage.
        self._out: frozenset[str] = frozenset()

    @property
    @override
    def name(self) -> str:
        return " + ".join(judge.name for judge in self.judges)

    @override
    def judge_all(self, cases: Sequence[JudgeCase]) -> list[Judgment]:
        """See `Judge.judge_all`."""
        columns: list[list[Judgment]] = []
        outages: dict[str, JudgeOutageError] = {}
        for judge in self.judges:
            try:
                columns.append(judge.judge_all(cases))
            except JudgeOutageError as outage:
                outages[judge.name] = outage
                if len(self.judges) - len(outages) < self._least:
                    # What one judge has scored is no score of the panel.
                    raise JudgeOutageError(str(outage)) from outage
                columns.append([Judgment(score=None, failure=str(outage)) for _ in cases])
        for name in outages.keys() - self._out:
            warnings.warn(f"{outages[name]}; the panel goes on without it", stacklevel=2)
        self._out = frozenset(outages)
        return [self._joined(row) for row in zip(*columns, strict=True)]

    def _joined(self, row: Sequence[Judgment]) -> Judgment:
        scores = [one.score for one in row if one.score is not None]
        is_scored = len(scores) >= self._least
        failures = [f"{judge.name}: {one.failure}" for judge, one in zip(self.judges, row, strict=True) if one.failure]
        return Judgment(
            score=float(self._combine(scores)) if is_scored else None,
            reason=next((one.reason for one in row if one.score is not None), ""),
            failure="" if is_scored else "; ".join(failures),
            parts=tuple(one.score for one in row),
            calls=sum(one.calls for one in row),
            failed_calls=sum(one.failed_calls for one in row),
            tokens=sum(one.tokens for one in row),
            seconds=sum(one.seconds for one in row),
            cached=all(one.cached for one in row),
        )
