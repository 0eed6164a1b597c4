from dataclasses import replace

from tests.fixtures.episodes import call, episode
from tests.fixtures.tiny_agents import ConstantReward, task

from streakline.modules.groups import score_groups
from streakline.rewards.base import Reward
from streakline.types import Termination


def test_every_member_is_scored():
    members = [episode(task("a"), [[[call("look_up")]]], group_member=member) for member in range(3)]

    (group,) = score_groups([task("a")], [members], reward=Reward({"x": ConstantReward(0.5)}))

    assert group.all_rewards == group.rewards == (0.5, 0.5, 0.5)
    assert group.trajectories[2].reward_terms == {"x": 0.5}


def test_what_the_machinery_broke_stays_unscored():
    broken = replace(episode(task("a"), [[[call("look_up")]]]), termination=Termination.ENGINE_ERROR)

    (group,) = score_groups([task("a")], [[broken]], reward=Reward({"x": ConstantReward(0.5)}))

    assert group.all_rewards == (None,)
