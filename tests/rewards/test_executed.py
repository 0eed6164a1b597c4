from tests.fixtures.episodes import call, episode
from tests.fixtures.worlds import world

from streakline.rewards.executed import executed_calls

TASK = world(gold=((), ()))


def test_calls_are_grouped_by_user_turn_and_assistant_turn():
    steps = [[[call("ls"), call("pwd")], [call("cd", folder="archive")]], [[call("ls")]]]
    found = executed_calls(episode(TASK, steps), num_user_turns=2)
    assert [[[item.name for item in step] for step in turn] for turn in found] == [[["ls", "pwd"], ["cd"]], [["ls"]]]


def test_calls_that_got_no_result_did_not_run():
    assert executed_calls(episode(TASK, [[[call("ls")]]], executed=False), num_user_turns=2) == ((), ())


def test_user_turns_that_were_not_reached_are_empty():
    assert executed_calls(episode(TASK, [[[call("ls")]]]), num_user_turns=2)[1] == ()
