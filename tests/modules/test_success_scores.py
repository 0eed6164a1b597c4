from dataclasses import replace

import pytest
from tests.fixtures.episodes import call, episode
from tests.fixtures.tiny_agents import ConstantReward, task

from streakline.algorithms.streaks import StreakTable
from streakline.metrics.rollout import RolloutMetrics
from streakline.modules.groups import score_groups
from streakline.rewards.base import RewardTerm
from streakline.rewards.hybrid import HybridReward


class Unscored(RewardTerm):
    def score(self, task, trajectory):
        return None


def test_success_of_a_hybrid_reward_is_that_of_the_answer():
    reward = HybridReward(ConstantReward(1.0), {"way": ConstantReward(0.5)})
    calls = [[[call("look_up")]]]
    right, leaky = episode(task("a"), calls), episode(task("a"), calls, group_member=1)
    last = leaky.turns[-1]
    turns = (*leaky.turns[:-1], replace(last, message=replace(last.message, content="Let me think about it.")))

    (group,) = score_groups([task("a")], [[right, replace(leaky, turns=turns)]], reward=reward)

    assert group.all_rewards == pytest.approx((0.8, 0.2))
    assert group.success_scores == (1.0, 0.0)
    metrics = RolloutMetrics()
    metrics.update([group])
    assert metrics.compute()["success"] == 0.5


def test_a_group_that_nobody_judged_leaves_the_streak_as_it_is():
    reward = HybridReward(Unscored(), {"way": ConstantReward(1.0)}, without_answer="process")
    members = [episode(task("a"), [[[call("look_up")]]], group_member=member) for member in range(2)]

    with pytest.warns(UserWarning, match="by their process alone"):
        (group,) = score_groups([task("a")], [members], reward=reward)

    assert group.all_rewards == (1.0, 1.0)
    assert group.success_scores == (None, None)
    table = StreakTable(k=1, probe_fraction=0.0)
    assert table.observe("a", group.success_scores) is not True
    table.begin_epoch(1)
    assert table.is_active("a")


def test_a_leak_in_a_group_that_nobody_judged_is_no_way_to_a_good_reward():
    reward = HybridReward(Unscored(), {"way": ConstantReward(0.5)}, without_answer="process")
    plain, leaky = (episode(task("a"), [[[call("look_up")]]], group_member=member) for member in range(2))
    last = leaky.turns[-1]
    turns = (*leaky.turns[:-1], replace(last, message=replace(last.message, content="Let me think about it.")))

    with pytest.warns(UserWarning, match="by their process alone"):
        (group,) = score_groups([task("a")], [[plain, replace(leaky, turns=turns)]], reward=reward)

    assert group.all_rewards == (0.5, None)
    assert group.success_scores == (None, None)
