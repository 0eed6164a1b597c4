import dataclasses

from tests.fixtures.episodes import call
from tests.fixtures.worlds import world

from streakline.environment.live import LiveEnvironment
from streakline.environment.replay import gold_outcomes, replay, replay_turns, result_key
from streakline.types import ToolResult

CALLS = [
    [call("cd", folder="archive"), call("touch", file_name="a")],
    [],
    [call("ls"), call("nonsense"), call("cd", folder="..")],
]


def test_a_replay_gives_what_the_live_world_gave():
    task = world(gold=((), (), ()))
    environment = LiveEnvironment(task)
    for outcome, calls in zip(replay(task, CALLS), CALLS, strict=True):
        assert outcome.results == tuple(environment.execute(item) for item in calls)
        assert outcome.state == environment.state()


def test_states_of_earlier_turns_stay_as_they_were():
    task = world(gold=((), ()))
    first, second = replay(task, [[call("touch", file_name="a")], [call("rm", file_name="a")]])
    assert "a" in first.state["GorillaFileSystem"]["root"]["contents"]
    assert "a" not in second.state["GorillaFileSystem"]["root"]["contents"]


def test_a_replay_runs_no_user_turn_before_it_is_asked_for(monkeypatch):
    asked = []
    execute = LiveEnvironment.execute
    monkeypatch.setattr(LiveEnvironment, "execute", lambda self, item: asked.append(item) or execute(self, item))
    turns = replay_turns(world(gold=((), (), ())), CALLS)
    assert asked == []
    next(turns)
    assert asked == CALLS[0]


def test_gold_is_executed_once_a_task():
    task = world(gold=((call("touch", file_name="a"),),), task_id="test/gold-once")
    assert gold_outcomes(task) is gold_outcomes(dataclasses.replace(task))


def test_another_task_of_the_same_id_has_its_own_gold():
    one = world(gold=((call("touch", file_name="a"),),), task_id="test/same")
    other = dataclasses.replace(one, gold=(((call("touch", file_name="b"),),),))
    assert gold_outcomes(one) != gold_outcomes(other)
    assert "b" in gold_outcomes(other)[0].state["GorillaFileSystem"]["root"]["contents"]


def test_results_count_as_the_same_by_value():
    def key(content):
        return result_key(ToolResult(name="x", content=content))

    assert key('{"a": 3, "b": 1}') == key('{"b": 1, "a": 3.0}')
    assert key('{"a": 3}') != key('{"a": "3"}')
    assert key("None") == "None"
    assert key("[" * 100_000) == "[" * 100_000
