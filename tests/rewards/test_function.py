import pytest
from jsonargparse import ArgumentParser
from tests.fixtures.episodes import call, episode
from tests.fixtures.worlds import world

from streakline.errors import RecordError
from streakline.rewards.base import Reward
from streakline.rewards.function import FunctionTerm

TASK = world(gold=((call("ls", a=True),),))


def num_calls(task, trajectory):
    return float(len(trajectory.calls)) if task.gold else None


def test_a_function_named_in_a_config_is_a_term():
    parser = ArgumentParser()
    parser.add_argument("--reward", type=Reward)
    config = {
        "class_path": "streakline.rewards.base.Reward",
        "init_args": {
            "terms": {
                "calls": {
                    "class_path": "streakline.rewards.function.FunctionTerm",
                    "init_args": {"function": f"{__name__}.num_calls"},
                }
            }
        },
    }

    reward = parser.instantiate(parser.parse_object({"reward": config})).reward

    assert reward(TASK, episode(TASK, [[[call("ls")], [call("ls"), call("ls")]]])).reward_terms == {"calls": 3.0}


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_is_named_with_the_trajectory(number):
    reward = Reward({"mine": FunctionTerm(lambda task, trajectory: number)})

    with pytest.raises(RecordError, match=rf"Expected reward term `mine` of .*{TASK.id}, member 2, .*{number}"):
        reward(TASK, episode(TASK, [[[call("ls")]]], group_member=2))
