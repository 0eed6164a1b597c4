"""The answer as a judge sees it, as a reward term."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Final, Literal, final

from typing_extensions import override

from streakline.errors import JudgeOutageError
from streakline.rewards.base import RewardTerm, Tally
from streakline.rewards.judge.agreement import krippendorff_alpha
from streakline.rewards.judge.base import MAX_SCORE, Judge, Judgment
from streakline.rewards.judge.case import case_of
from streakline.types import Task, Trajectory

_MAX_NOTE: Final = 400
"""Characters of a reason that are kept with the trajectory."""


@final
class JudgedAnswer(RewardTerm):
    """Score of a judge, 0 ... 5 divided by 5; None where there is none.

    Counted under `judge/`: `failed`, share of the requests that brought no verdict; `unscored`, share of the answers
    without a score; `cached`, share of those that had been judged before; `calls` and `tokens`; `seconds`, mean of a
    request; `agreement` of the judges of a panel, Krippendorff's alpha over the answers of a step (nan for one judge).

    Args:
        judge: Who scores.
        on_outage: What to do about a judge that is out for good or has spent its budget: end the run, which can be
            resumed, or leave answers unscored that it has not judged yet, with one warning.
    """

    def __init__(self, judge: Judge, on_outage: Literal["pause", "unscored"] = "pause") -> None:
        self._judge = judge
        self._on_outage = on_outage
        self._is_out = False
        self._judgments: list[Judgment] = []
        self._notes: tuple[str, ...] = ()

    @override
    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Score of one trajectory."""
        return self.score_all([(task, trajectory)])[0]

    @override
    def score_all(self, episodes: Sequence[tuple[Task, Trajectory]]) -> list[float | None]:
        """Scores of all trajectories of a step, judged side by side.

        Raises:
            JudgeOutageError: The judge is out, and `on_outage` says `pause`.
        """
        judgments = self._judge_all(episodes) if episodes else []
        self._judgments += judgments
        self._notes = tuple(map(_note, judgments))
        if judgments and not self._is_out and all(judgment.score is None for judgment in judgments):
            failure = judgments[0].failure
            warnings.warn(f"judge {self._judge.name} scored none of {len(judgments)} answers: {failure}", stacklevel=2)
        return [None if judgment.score is None else judgment.score / MAX_SCORE for judgment in judgments]

    @override
    def notes(self) -> Sequence[str]:
        """The reason of each score, or why there is none."""
        return self._notes

    @override
    def metrics(self) -> Mapping[str, Tally]:
        """See the class."""
        judgments, self._judgments = self._judgments, []
        count = float(len(judgments))
        calls = float(sum(judgment.calls for judgment in judgments))
        rated = [judgment.parts for judgment in judgments if judgment.parts]
        alpha = krippendorff_alpha(list(zip(*rated, strict=True))) if rated else None
        weight = 0.0 if alpha is None else float(len(rated))
        return {
            "judge/failed": Tally(total=sum(judgment.failed_calls for judgment in judgments), per=calls),
            "judge/unscored": Tally(total=sum(judgment.score is None for judgment in judgments), per=count),
            "judge/cached": Tally(total=sum(judgment.cached for judgment in judgments), per=count),
            "judge/calls": Tally(total=calls),
            "judge/tokens": Tally(total=sum(judgment.tokens for judgment in judgments)),
            "judge/seconds": Tally(total=sum(judgment.seconds for judgment in judgments), per=calls),
            "judge/agreement": Tally(total=weight * (alpha or 0.0), per=weight),
        }

    def _judge_all(self, episodes: Sequence[tuple[Task, Trajectory]]) -> list[Judgment]:
        try:
            judgments = self._judge.judge_all([case_of(task, trajectory) for task, trajectory in episodes])
        except JudgeOutageError as outage:
            if self._on_outage == "pause":
                raise
            if not self._is_out:
                warnings.warn(f"{outage}; answers stay unscored until it is back", stacklevel=3)
            self._is_out = True
            kept = [judgment for judgment in outage.judgments if isinstance(judgment, Judgment)]
            return kept or [Judgment(score=None, failure=str(outage)) for _ in episodes]
        if self._is_out and any(judgment.calls for judgment in judgments):
            self._is_out = False
            print(f"judge {self._judge.name} is back", flush=True)
        return judgments


def _note(judgment: Judgment) -> str:
    text = judgment.reason if judgment.score is not None else f"no score: {judgment.failure}"
    return text if len(text) <= _MAX_NOTE else f"{text[:_MAX_NOTE]} [... {len(text) - _MAX_NOTE} characters]"
