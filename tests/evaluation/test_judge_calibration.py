"""A judge beside labels."""

import json
from pathlib import Path

import pytest

from streakline.errors import DataError
from streakline.evaluation.judge_calibration import (
    calibration_json,
    compare_raters,
    judge_labels,
    read_labels,
    render_calibration,
)
from streakline.rewards.judge.offline import ExactAnswer, F1Answer, RubricAnswer, RubricItem
from streakline.rewards.judge.panel import JudgePanel
from streakline.types import Role

EXAMPLE = Path(__file__).resolve().parents[2] / "data" / "judge_labels.jsonl"


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_are_read_in_short_and_as_conversations(tmp_path):
    messages = [
        {"role": "user", "content": "Close it."},
        {"role": "assistant", "tool_calls": [{"function": {"name": "close", "arguments": {"id": 1}}}]},
        {"role": "tool", "content": "{}", "name": "close"},
        {"role": "assistant", "content": "Closed."},
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "Bye."},
    ]
    path = write(
        tmp_path / "labels.jsonl",
        {"request": "Hi?", "answer": "Hello.", "reference": "Hello!", "label": 5},
        {"task_id": "a/1", "messages": messages, "references": ["Closed.", "Bye."], "label": 0},
    )

    short, whole = read_labels(path)

    assert (short.label, short.case.final_answer, short.case.references) == (5, "Hello.", ("Hello!",))
    assert [message.role for message in short.case.messages] == [Role.USER, Role.ASSISTANT]
    assert (whole.label, whole.case.id, whole.case.answers) == (0, "a/1", ("Closed.", "Bye."))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"request": "a", "answer": "b"},
            r"Expected `label` to be a whole number of 0 \.\.\. 5 in .*, line 1, but got None",
        ),
        ({"request": "a", "answer": "b", "label": 6}, "but got 6"),
        ({"request": "a", "answer": "b", "label": True}, "but got True"),
        ({"request": "a", "label": 1}, r"Expected `messages`, or `request` and `answer` as texts, in .*, line 1"),
        (
            {"request": "a", "answer": "b", "label": 1, "reference": 3},
            r"Expected `references` to be texts in .*, line 1",
        ),
        ({"messages": [], "label": 1}, "Expected `messages` with an assistant message in"),
    ],
)
def test_a_malformed_row_is_one_clear_line(tmp_path, row, said):
    with pytest.raises(DataError, match=said):
        read_labels(write(tmp_path / "labels.jsonl", row))


def test_an_empty_file_is_one_clear_line(tmp_path):
    with pytest.raises(DataError, match="to hold at least one labelled answer, but got none"):
        read_labels(write(tmp_path / "labels.jsonl"))


def test_figures_are_those_counted_by_hand():
    found = compare_raters([0, 1, 2, 5, 5, 4], [0, 2, 2, 3, None, 4.5])

    assert (found.count, found.unscored) == (5, 1)
    assert found.exact.estimate == pytest.approx(2 / 5)
    # 4.5 counts as 5.
    assert found.within_one.estimate == pytest.approx(4 / 5)
    assert found.difference.estimate == pytest.approx((0 + 1 + 0 - 2 + 0.5) / 5)
    assert found.confusion[1] == (0, 0, 1, 0, 0, 0)
    assert found.confusion[4] == (0, 0, 0, 0, 0, 1)
    assert sum(map(sum, found.confusion)) == 5


def test_nothing_scored_is_said_as_such():
    found = compare_raters([1, 2], [None, None])

    assert (found.count, found.unscored) == (0, 2)
    assert (found.exact, found.difference, found.kappa, found.alpha) == (None, None, None, None)
    row = next(line for line in render_calibration({"labels": [1.0], "mute": [None]}).splitlines() if "mute" in line)
    assert [cell.strip() for cell in row.split("|")[1:-1]] == ["mute", "0", "1", *["-"] * 6]


def test_the_example_runs_with_a_rule_and_shows_what_it_is_worth():
    labelled = read_labels(EXAMPLE)
    ratings = judge_labels(F1Answer(), labelled)

    assert len(labelled) == len(ratings["F1Answer"]) == 22
    assert {one.label for one in labelled} == {0, 1, 2, 3, 4, 5}
    text = render_calibration(ratings)
    assert "Against the labels" in text
    assert "Between judges" not in text
    assert text.isascii()


def test_the_judges_of_a_panel_are_compared_with_each_other():
    rubric = RubricAnswer([RubricItem(pattern=r"\d", points=1)])
    panel = JudgePanel([ExactAnswer(), F1Answer(), rubric])

    ratings = judge_labels(panel, read_labels(EXAMPLE))
    text = render_calibration(ratings)

    assert list(ratings) == [
        "labels",
        "1. ExactAnswer",
        "2. F1Answer",
        "3. RubricAnswer",
        "ExactAnswer + F1Answer + RubricAnswer",
    ]
    assert "Between judges; Krippendorff's alpha of all" in text
    assert "1. ExactAnswer / 3. RubricAnswer" in text
    kept = json.loads(calibration_json(ratings))
    assert kept["scores"]["labels"] == ratings["labels"]
    assert kept["against_labels"]["2. F1Answer"]["count"] == 22
