import pytest
from tests.fixtures.reward_rows import TERMS, conversation, inspection, old_row, result, row, scored, turn

from streakline.evaluation.reward_report import printable, render_text


def test_the_report_shows_the_ends_with_reasons_terms_and_turns(tmp_path):
    turns = [turn(2, result(is_error=True, truncated=True), trained=False), turn(4, truncated=True)]
    low = row(0.4, terms=TERMS | {"answer": 0.0}, task_id="test/low", termination="length", turns=turns)
    text = render_text(inspection(scored(tmp_path, row(), low)))

    assert text.startswith("mlruns/exp/one\n  2 trajectories of 2 tasks in 1 kinds, 0 of them unscored\n")
    assert "  configuration 0123456789ab\n" in text
    assert "| termination: length" in text
    assert text.index("Highest by reward") < text.index("test/a") < text.index("Lowest by reward")
    shown = text[text.index(" 1. reward .40: test/low (words, sampled, member 0, test.jsonl, line 2)") :]
    for line in (
        "    why     ended by length; answer 0 x trust .60; 1 failed call",
        "    terms   answer 0, names 1, process 1, trust .60, untiered 1, leak 0",
        "    system  Be brief.",
        "    thinks  Which word?",
        '    calls   look_up(word="a")',
        "    turn    not trained",
        "    result  [fuzzy .80, error, shortened] found",
        "    says    Done.",
        "    turn    cut off",
    ):
        assert f"{line}\n" in shown


def test_what_a_term_says_stands_below_the_terms(tmp_path):
    said = row(reward_notes={"answer": "Right,\n\x1b[2J but <b>long."})
    failed = row(None, terms={"answer": None}, reward_notes={"answer": "no score: cut off"})
    text = render_text(inspection(scored(tmp_path, said, failed)))

    assert "leak 0\n    note    answer: Right, \\x1b[2J but <b>long.\n" in text
    assert "no score from answer\n    note    answer: no score: cut off\n" in text


def test_unscored_trajectories_stand_apart_with_their_reason(tmp_path):
    failed = row(None, terms={"judge": None}, termination="tool_error", detail="the disk is full")
    text = render_text(inspection(scored(tmp_path, row(), *[failed] * 25)))

    apart = text[text.index("Without a value of reward") :]
    assert " 1. reward -: test/a" in apart
    assert "no score from judge; ended by tool_error (the disk is full)" in apart
    assert apart.endswith("   and 5 more\n")


def test_what_earlier_versions_left_out_and_what_was_skipped_is_said(tmp_path):
    text = render_text(inspection(scored(tmp_path, old_row(), row(0.0)), faults=("Skipped: line 3",), config_digest=""))

    assert "  1 rows do not hold tiers, similarities and malformed calls: an earlier version wrote them\n" in text
    assert "  Skipped: line 3\n" in text
    assert "configuration" not in text


def test_sorted_by_a_term_the_report_says_its_value(tmp_path):
    text = render_text(inspection(scored(tmp_path, row(1.0, terms={"judge": 0.3})), sort="judge"))

    assert " 1. reward 1, judge .30: test/a" in text


@pytest.mark.parametrize("hostile", ["word " * 200_000, "x" * 1_000_000, "\x1b[2J\x07\u202e\ud800\n\n" * 500])
def test_hostile_text_is_short_plain_and_within_100_columns(tmp_path, hostile):
    changes = {"task_id": hostile, "kind": hostile, "termination": hostile, "detail": hostile, "tier": hostile}
    messages = conversation(hostile, result=hostile, thinking=hostile, word=hostile, request=hostile)
    rows = scored(
        tmp_path, row(0.0, messages=messages, terms={hostile: 0.0}, reward_notes={hostile: hostile}, **changes)
    )
    text = render_text(inspection(rows, title=hostile[:50]))

    assert len(text) < 10_000
    assert all(len(line) <= 100 for line in text.splitlines() if not line.startswith("|"))
    assert not set(text) & set("\x1b\x07\u202e\ud800")
    text.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\r\x00\x7f\x9b", "\\r\\x00\\x7f\\x9b"),
        ("\u2066a\u2069\u200b\ufeff", "\\u2066a\\u2069\\u200b\\ufeff"),
        ("\udfff\uffff\U000e0041", "\\udfff\\uffff\\U000e0041"),
        ("\u00e9\u4e2d\U0001f600", "\u00e9\u4e2d\U0001f600"),
    ],
)
def test_what_does_not_show_is_escaped_and_what_does_is_kept(text, shown):
    assert printable(text) == shown


def test_a_cut_says_how_much_is_gone():
    assert printable("abcdef", limit=4) == "abcd [... 2 characters]"
