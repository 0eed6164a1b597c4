"""Judges that are rules."""

import pytest
from torchmetrics.functional.text import squad

from streakline.errors import ConfigError
from streakline.rewards.judge.case import JudgeCase
from streakline.rewards.judge.offline import ExactAnswer, F1Answer, RubricAnswer, RubricItem


def case(*answers, references=("Order 12 was cancelled.",), name="test/1"):
    return JudgeCase(id=name, messages=(), answers=answers, references=references)


def score(judge, one):
    return judge.judge_all([one])[0].score


@pytest.mark.parametrize(
    ("answer", "exact"),
    [("order 12 was cancelled", 5), ("Order 12 was CANCELLED!", 5), ("Order 13 was cancelled.", 0), ("", 0)],
)
def test_an_exact_answer_has_the_same_words(answer, exact):
    assert score(ExactAnswer(), case(answer)) == exact


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("order 12 is cancelled", "order 12 was cancelled today"),
        ("it costs 3", "it costs 4"),
        ("yes yes yes", "yes"),
        ("nothing shared", "other words"),
        ("same words", "same words"),
    ],
)
def test_f1_is_that_of_squad(answer, reference):
    predicted = [{"prediction_text": answer, "id": "1"}]
    target = [{"answers": {"answer_start": [0], "text": [reference]}, "id": "1"}]
    expected = float(squad(predicted, target)["f1"]) / 100

    assert score(F1Answer(), case(answer, references=(reference,))) == pytest.approx(5 * expected)


def test_user_turns_are_averaged_and_unreached_ones_count_nothing():
    two = case("Which file?", "", references=("Which file?", "Done."))

    assert score(ExactAnswer(), two) == score(F1Answer(), two) == 2.5


def test_without_a_right_answer_there_is_no_score():
    (judgment,) = F1Answer().judge_all([case("Done.", references=())])

    assert judgment.score is None
    assert judgment.failure == "nothing to compare the answer of test/1 with"


def test_a_rubric_adds_points_of_what_it_is_about():
    judge = RubricAnswer(
        [
            RubricItem(pattern=r"\border 12\b", points=3),
            RubricItem(pattern="cancel"),
            RubricItem(pattern="sorry", points=-2),
            RubricItem(pattern="ticket", tasks="tickets/*"),
        ]
    )

    assert score(judge, case("Order 12 was cancelled.")) == 5
    assert score(judge, case("Order 12 is gone.")) == 5 * 3 / 4
    assert score(judge, case("Sorry, order 12 is gone.")) == 5 * 1 / 4
    assert score(judge, case("Sorry.")) == 0
    assert score(RubricAnswer([RubricItem(pattern="a", tasks="other/*")]), case("a")) is None


def test_a_bad_pattern_is_one_clear_line():
    with pytest.raises(ConfigError, match=r"Expected `pattern` to be a regular expression, but got '\('"):
        RubricAnswer([RubricItem(pattern="(")])
