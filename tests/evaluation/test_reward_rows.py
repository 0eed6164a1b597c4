import pytest
from tests.fixtures.reward_rows import old_row, result, row, scored, turn, write

from streakline.errors import DataError
from streakline.evaluation.reward_rows import read_scored


def test_a_row_is_read_with_what_its_messages_leave_out(tmp_path):
    changes = {"malformed_calls": 2, "closed_thinking": True, "trained": False}
    (one,) = scored(tmp_path, row(0.5, turns=[turn(2, result(is_error=True), **changes), turn(4)], untrained_turns=1))

    assert (one.where, one.reward, one.tier, one.untrained_turns) == ("test.jsonl, line 1", 0.5, "fuzzy", 1)
    assert (one.results[3].tier, one.results[3].similarity, one.results[3].is_error) == ("fuzzy", 0.8, True)
    assert (one.turns[2].malformed_calls, one.turns[2].closed_thinking, one.turns[2].trained) == (2, True, False)
    assert [(each.text, each.trained) for each in one.samples[0]][:2] == [("prompt ", False), ("call<|im_end|>", True)]
    assert one.missing == ()


def test_a_row_of_an_earlier_version_says_what_it_does_not_hold(tmp_path):
    (one,) = scored(tmp_path, old_row(1.0))

    assert one.missing == ("tiers, similarities and malformed calls", "the tokens and which are trained")
    assert (one.turns, one.results, one.samples) == ({}, {}, ())
    assert len(one.messages) == 5


def test_an_episode_that_failed_before_its_first_turn_is_read(tmp_path):
    asked = [{"role": "user", "content": "Please."}]
    (one,) = scored(tmp_path, row(None, terms={}, termination="engine_error", messages=asked, turns=[]))

    assert one.reward is None
    assert one.termination == "engine_error"


def test_a_term_is_a_value_and_so_is_the_reward(tmp_path):
    (one,) = scored(tmp_path, row(0.5, terms={"judge": None, "success": 0.0}))

    assert [one.value(name) for name in ("reward", "success", "judge", "other")] == [0.5, 0.0, None, None]


def test_what_a_term_says_is_read(tmp_path):
    said, silent = scored(tmp_path, row(reward_notes={"answer": "It is right."}), row())

    assert (said.notes, silent.notes) == ({"answer": "It is right."}, {})


BAD = {
    "{": "Expected a JSON object in test.jsonl, line 2",
    "[]": "Expected a JSON object in test.jsonl, line 2, but got list",
    '{"task_id": "a"}': "Expected `messages` to be a list in test.jsonl, line 2, but got NoneType",
    '{"messages": [], "reward": NaN}': "Expected `reward` to be a finite number in test.jsonl, line 2, but got 'nan'",
    '{"messages": [], "reward": true}': "Expected `reward` to be a finite number",
    '{"messages": [], "reward": 1' + "0" * 400 + "}": "Expected `reward` to be a finite number",
    '{"messages": [], "reward_terms": [1]}': "Expected `reward_terms` to be an object",
    '{"messages": [], "reward_notes": {"a": 1}}': "Expected `a` to be a text in test.jsonl, line 2, but got '1'",
    '{"messages": [], "turns": {"a": 1}}': "Expected `turns` to be a list",
    '{"messages": [], "turns": [1]}': "Expected `turns` to be an object",
    '{"messages": [], "turns": [{"message": 0}]}': "Expected `message` to be the index of one of 0 messages",
    '{"messages": [], "turns": [{"message": -1}]}': "Expected `message` to be the index of one of 0 messages",
    '{"messages": [], "turns": [{"truncated": "yes"}]}': "Expected `truncated` to be true or false",
    '{"messages": [], "samples": [{"text": "a"}]}': "Expected `samples` to be a list",
    '{"messages": [], "samples": [[{"text": 1}]]}': "Expected `text` to be a text in test.jsonl, line 2, but got '1'",
}


@pytest.mark.parametrize(("line", "complaint"), BAD.items(), ids=range(len(BAD)))
def test_a_bad_line_is_named_and_skipped(tmp_path, line, complaint):
    rows, faults = read_scored([write(tmp_path / "test.jsonl", row(), line, row())])

    assert [one.where for one in rows] == ["test.jsonl, line 1", "test.jsonl, line 3"]
    assert len(faults) == 1
    assert complaint in faults[0]
    assert len(faults[0]) < 300
    assert "\n" not in faults[0]


def test_a_file_that_is_not_there_or_holds_no_episode_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"Expected a readable file at .*none\.jsonl"):
        read_scored([tmp_path / "none.jsonl"])
    with pytest.raises(DataError, match="Expected trajectories, but got none: Expected a JSON object in bad"):
        read_scored([write(tmp_path / "bad.jsonl", "{")])
    with pytest.raises(DataError, match=r"Expected trajectories, but got none$"):
        read_scored([write(tmp_path / "empty.jsonl", "")])
