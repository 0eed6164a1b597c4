import math

import pytest
from tests.fixtures.episodes import episode
from tests.fixtures.worlds import world

from streakline.errors import ConfigError, RecordError
from streakline.rewards.base import Reward, RewardTerm, Tally

TASK = world()


class Constant(RewardTerm):
    """Always the same score."""

    def __init__(self, value):
        self.value = value

    def score(self, task, trajectory):
        return self.value


def reward(weights=None, **scores):
    return Reward({name: Constant(value) for name, value in scores.items()}, weights)(TASK, episode(TASK, [[]]))


def test_the_reward_is_the_weighted_mean_of_the_terms():
    scored = reward({"a": 3.0}, a=1.0, b=0.5)
    assert scored.reward == pytest.approx((3 * 1.0 + 1 * 0.5) / 4)
    assert scored.reward_terms == {"a": 1.0, "b": 0.5}


def test_a_term_that_could_not_be_scored_leaves_the_mean():
    scored = reward({"a": 3.0}, a=None, b=0.5)
    assert scored.reward == 0.5
    assert scored.reward_terms == {"a": None, "b": 0.5}


def test_without_any_score_there_is_no_reward():
    assert reward(a=None, b=None).reward is None
    assert reward({"a": 0.0}, a=1.0, b=None).reward is None


def test_a_weight_of_zero_logs_the_term_only():
    scored = reward({"a": 0.0}, a=1.0, b=0.25)
    assert scored.reward == 0.25
    assert scored.reward_terms["a"] == 1.0


def test_scoring_makes_a_copy():
    trajectory = episode(TASK, [[]])
    scored = Reward({"a": Constant(1.0)})(TASK, trajectory)
    assert trajectory.reward is None
    assert trajectory.reward_terms == {}
    assert (scored.samples, scored.turns) == (trajectory.samples, trajectory.turns)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_raises_with_the_term_and_the_trajectory(value):
    trajectory = episode(TASK, [[]], group_member=3)
    with pytest.raises(RecordError, match="term `bad` of trajectory test/world, member 3"):
        Reward({"good": Constant(1.0), "bad": Constant(value)})(TASK, trajectory)


def test_a_trajectory_of_another_task_is_refused():
    with pytest.raises(RecordError, match="trajectory of test/world"):
        Reward({"a": Constant(1.0)})(TASK, episode(world(task_id="test/other"), [[]]))


@pytest.mark.parametrize(
    ("terms", "weights", "message"),
    [
        ({}, None, "at least one"),
        ({"a": Constant(1.0)}, {"b": 1.0}, "but got b"),
        ({"a": Constant(1.0)}, {"a": -1.0}, "not negative"),
        ({"a": Constant(1.0)}, {"a": math.nan}, "finite"),
        ({"a": Constant(1.0)}, {"a": 0.0}, "above 0"),
    ],
)
def test_impossible_combinations_are_refused(terms, weights, message):
    with pytest.raises(ConfigError, match=message):
        Reward(terms, weights)


class Saying(Constant):
    def __init__(self, *texts):
        super().__init__(1.0)
        self.texts = texts

    def notes(self):
        return self.texts


def test_what_terms_say_stands_with_each_trajectory():
    members = [episode(TASK, [[]], group_member=member) for member in range(2)]
    reward = Reward({"a": Saying("good", ""), "b": Saying("short", "long"), "c": Constant(1.0)})

    first, second = reward.score_groups([(TASK, members[:1]), (TASK, members[1:])])

    assert [one.reward_notes for one in (*first, *second)] == [{"a": "good", "b": "short"}, {"b": "long"}]
    assert Reward({"a": Saying()}).score_groups([]) == []


class Counted(Constant):
    def __init__(self, *, total, per=None):
        super().__init__(1.0)
        self.tally = Tally(total=total, per=per)

    def metrics(self):
        return {"judge/failed": self.tally}


def test_what_terms_count_under_one_name_is_added_up():
    terms = {"a": Counted(total=1.0, per=4.0), "b": Counted(total=2.0, per=4.0), "c": Constant(1.0)}

    assert Reward(terms).metrics() == {"judge/failed": Tally(total=3.0, per=8.0)}
    assert Tally(total=1.0) + Tally(total=2.0) == Tally(total=3.0)
    assert Reward({"c": Constant(1.0)}).metrics() == {}
