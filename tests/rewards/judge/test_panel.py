"""Several judges."""

import pytest

from streakline.errors import ConfigError, JudgeOutageError
from streakline.rewards.judge.base import Judge, Judgment
from streakline.rewards.judge.case import JudgeCase
from streakline.rewards.judge.panel import JudgePanel

CASES = [JudgeCase(id=f"test/{number}", messages=(), answers=("",)) for number in range(3)]


class Fixed(Judge):
    """Gives its scores in order; None = it could not; an outage where there are no scores."""

    def __init__(self, name, *scores):
        self._name, self.scores = name, scores

    @property
    def name(self):
        return self._name

    def judge_all(self, cases):
        if not self.scores:
            raise JudgeOutageError(f"Expected judge {self._name} to answer")
        found = zip(self.scores, cases, strict=True)
        return [
            Judgment(score=score, failure="" if score is not None else "mute", calls=1, tokens=10, cached=bool(score))
            for score, _ in found
        ]


def scores(judgments):
    return [judgment.score for judgment in judgments]


def test_the_mean_or_the_median_of_all_counts():
    judges = [Fixed("a", 0.0, 1.0, 5.0), Fixed("b", 1.0, 1.0, 5.0), Fixed("c", 5.0, 1.0, 2.0)]

    assert scores(JudgePanel(judges).judge_all(CASES)) == [2.0, 1.0, 4.0]
    found = JudgePanel(judges, combine="median").judge_all(CASES)
    assert scores(found) == [1.0, 1.0, 5.0]
    assert found[0].parts == (0.0, 1.0, 5.0)
    assert (found[0].calls, found[0].tokens, found[0].cached) == (3, 30, False)
    assert JudgePanel(judges).name == "a + b + c"


def test_fewer_scores_than_wanted_are_none():
    judges = [Fixed("a", 4.0, None, None), Fixed("b", None, None, 2.0)]

    assert scores(JudgePanel(judges).judge_all(CASES)) == [None, None, None]
    found = JudgePanel(judges, min_scores=1).judge_all(CASES)
    assert scores(found) == [4.0, None, 2.0]
    assert found[1].failure == "a: mute; b: mute"


def test_an_outage_of_one_is_told_once_where_the_others_suffice():
    away = Fixed("b")
    panel = JudgePanel([Fixed("a", 1.0, 2.0, 3.0), away], min_scores=1)

    with pytest.warns(UserWarning, match="Expected judge b to answer; the panel goes on without it"):
        assert scores(panel.judge_all(CASES)) == [1.0, 2.0, 3.0]
    assert scores(panel.judge_all(CASES)) == [1.0, 2.0, 3.0]
    away.scores = (3.0, 4.0, 5.0)
    assert scores(panel.judge_all(CASES)) == [2.0, 3.0, 4.0]


def test_an_outage_of_too_many_is_one_of_the_panel():
    with pytest.raises(JudgeOutageError, match="Expected judge b to answer"):
        JudgePanel([Fixed("a", 1.0, 2.0, 3.0), Fixed("b")]).judge_all(CASES)


def test_bad_options_are_one_clear_line():
    with pytest.raises(ConfigError, match="Expected `judges` to hold at least two judges, but got 1"):
        JudgePanel([Fixed("a")])
    with pytest.raises(ConfigError, match=r"Expected `min_scores` to be in 1 \.\.\. 2, but got 3"):
        JudgePanel([Fixed("a"), Fixed("b")], min_scores=3)
