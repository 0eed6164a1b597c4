import pytest
from tests.fixtures.reward_rows import TERMS, conversation, old_row, result, row, scored, turn

from streakline.evaluation.reward_reasons import best_values, number, reason, summarise

BEST = {"answer": 1.0, "names": 1.0, "form": 1.0, "success": 1.0, "repeats": 0.0}
LEAKED = "Okay, let me check the folder."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "no term is below its best"),
        ({"terms": TERMS | {"answer": 0.0}}, "answer 0 x trust .60"),
        (
            {"terms": {"answer": 0.0, "names": 1.0, "form": 0.0, "process": 0.82, "trust": 0.6, "leak": 0.0}},
            "answer 0 x trust .60; process .82: form 0",
        ),
        (
            {"terms": {"answer": 1.0, "form": 0.5, "names": 0.25, "process": 0.4, "trust": 0.1}},
            "process .40: names .25, form .50",
        ),
        ({"terms": {"success": 0.0, "repeats": -0.5}}, "success 0; repeats -.50"),
        ({"terms": {"success": 1.0, "repeats": 0.0}}, "no term is below its best"),
        ({"terms": TERMS | {"leak": 1.0}, "messages": conversation(LEAKED)}, "leak in the answer: thinking aloud"),
        ({"terms": TERMS | {"leak": 1.0}}, "leak in the answer: a rule of another version"),
        (
            {"termination": "length", "detail": "Turn cut off after 64 tokens"},
            "ended by length (Turn cut off after 64 tokens)",
        ),
        ({"reward": None, "terms": {"answer": None, "names": 1.0}}, "no score from answer"),
        ({"reward": None, "terms": {}, "termination": "engine_error"}, "not scored; ended by engine_error"),
        (
            {"turns": [turn(2, result(is_error=True), malformed_calls=2), turn(4)]},
            "2 malformed calls; 1 failed call",
        ),
    ],
)
def test_one_line_says_what_was_lost_by(tmp_path, changes, words):
    terms = changes.get("terms", TERMS)
    (one,) = scored(tmp_path, row(**changes))

    assert reason(one, best={name: BEST[name] for name in terms if name in BEST}) == words.replace(
        ", repeats", "; repeats"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (1.0, "1"),
        (-1.0, "-1"),
        (0.824, ".82"),
        (-0.25, "-.25"),
        (10.5, "10.50"),
        (0.999, "1.00"),
    ],
)
def test_numbers_are_short_and_only_what_is_exact_looks_so(value, text):
    assert number(value) == text


def test_the_best_value_is_one_or_none_deducted_or_what_was_seen(tmp_path):
    terms = [{"share": 0.2, "less": -0.5, "points": 3.0, "none": None, "trust": 0.6}, {"less": 0.0, "share": 0.0}]

    assert best_values(scored(tmp_path, *(row(terms=each) for each in terms))) == {
        "share": 1.0,
        "less": 0.0,
        "points": 3.0,
    }


def test_what_trajectories_have_in_common_is_counted(tmp_path):
    rows = scored(
        tmp_path,
        row(1.0),
        row(0.0, terms=TERMS | {"answer": 0.0, "names": 0.5}, termination="length", tier="miss"),
        row(0.4, terms=TERMS | {"answer": 0.0}, tier="miss"),
        row(None, terms={}, termination="tool_error", tier="miss"),
    )
    found = summarise(rows)
    counts = {question: {name: one.count for name, one in shares.items()} for question, shares in found.items()}

    assert counts == {
        "termination": {"answer": 2, "length": 1, "tool_error": 1},
        "reward": {"0": 1, "1": 1, "in between": 1, "unscored": 1},
        "lowest term": {"answer": 2, "none below its best": 2},
        "worst tier": {"miss": 3, "fuzzy": 1},
    }
    assert next(iter(found["worst tier"])) == "miss"
    assert found["worst tier"]["miss"].mean_reward == pytest.approx(0.2)
    assert found["worst tier"]["miss"].share == 0.75
    assert found["termination"]["tool_error"].mean_reward is None


def test_a_trajectory_that_got_no_result_has_no_tier(tmp_path):
    rows = scored(tmp_path, row(turns=[turn(2), turn(4)], tier="live"), old_row(tier="live"))

    assert set(summarise(rows)["worst tier"]) == {"no result", "live"}


def test_rewards_beyond_nought_and_one_are_counted_apart(tmp_path):
    rows = scored(tmp_path, *(row(value, terms={}) for value in (-0.5, 2.0)))

    assert set(summarise(rows)["reward"]) == {"below 0", "above 1"}
