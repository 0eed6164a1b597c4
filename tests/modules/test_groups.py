from dataclasses import replace

import pytest
import torch
from tests.fixtures.episodes import call, episode
from tests.fixtures.tiny_agents import ConstantReward, task

from streakline.errors import JudgeOutageError
from streakline.modules.groups import all_or_none, score_groups, tally_values
from streakline.rewards.base import Reward, Tally
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


def test_an_outage_says_what_to_do_and_keeps_no_other_error_behind():
    def fail():
        raise JudgeOutageError("the judge is out")

    with pytest.raises(JudgeOutageError, match=r"^the judge is out; try again$") as raised:
        all_or_none(fail, then="try again")
    assert raised.value.__context__ is None
    assert all_or_none(lambda: 3, then="try again") == 3


def test_counts_become_shares_or_stay_sums():
    tallies = {"share": Tally(total=1.0, per=4.0), "sum": Tally(total=5.0), "none": Tally(total=0.0, per=0.0)}

    values = tally_values(tallies, device=torch.device("cpu"))

    assert values == pytest.approx({"share": 0.25, "sum": 5.0, "none": float("nan")}, nan_ok=True)
    assert tally_values({}, device=torch.device("cpu")) == {}
