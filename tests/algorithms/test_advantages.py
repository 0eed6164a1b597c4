import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streakline.algorithms.advantages import group_advantages, has_zero_variance

REWARDS = st.lists(st.floats(-10, 10, allow_nan=False).map(lambda value: round(value, 3)), min_size=2, max_size=12)


def test_equals_the_published_formula_with_an_unbiased_standard_deviation():
    rewards = [0.1, 0.4, 0.4, 0.9]

    advantages = group_advantages(rewards)

    oracle = (np.array(rewards) - np.mean(rewards)) / (np.std(rewards, ddof=1) + 1e-4)
    np.testing.assert_allclose(advantages, oracle, rtol=1e-12)


def test_equals_the_value_that_trl_publishes_for_a_binary_group():
    # TRL's GRPOTrainer: (r - mean) / (std + 1e-4) with torch.std, which is unbiased. Worked out by hand from that
    # formula for [1, 0, 0, 0]: mean 0.25, std 0.5.
    advantages = group_advantages([1.0, 0.0, 0.0, 0.0])

    assert advantages == pytest.approx((0.75 / 0.5001, *[-0.25 / 0.5001] * 3), rel=1e-12)


def test_leave_one_out_compares_with_the_mean_of_the_others():
    rewards = [1.0, 0.0, 0.5]

    advantages = group_advantages(rewards, baseline="leave_one_out", scale="none")

    assert advantages == pytest.approx((1.0 - 0.25, 0.0 - 0.75, 0.5 - 0.5))


def test_leave_one_out_stays_small_where_the_others_are_equal():
    # The standard deviation of the *others* is 0 for the first member, and dividing by it gave -2075.
    advantages = group_advantages([0.0] + [0.95] * 7, baseline="leave_one_out")

    assert max(abs(value) for value in advantages) < 3
    assert advantages[0] == pytest.approx(-0.95 / (np.std([0.0] + [0.95] * 7, ddof=1) + 1e-4))


@pytest.mark.parametrize("rewards", [[0.1] * 12, [0.3] * 8, [0.4] * 4, [1.0] * 8, [0.0, 1e-7]])
def test_equal_rewards_have_no_contrast_whatever_their_computed_deviation_is(rewards):
    assert has_zero_variance(rewards)
    assert group_advantages(rewards) == (0.0,) * len(rewards)


def test_a_mean_inside_some_range_is_no_contrast():
    assert has_zero_variance([0.4, 0.4, 0.4, 0.4])
    assert not has_zero_variance([0.3, 0.5, 0.4, 0.4])


def test_unscored_members_are_no_part_of_the_baseline():
    advantages = group_advantages([1.0, 3.0, 2.0, None], scale="none")

    assert advantages == (-1.0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize("rewards", [[], [1.0], [None, None], [1.0, None]])
def test_fewer_than_two_scores_have_no_contrast(rewards):
    assert has_zero_variance(rewards)
    assert group_advantages(rewards) == (0.0,) * len(rewards)


def test_statistics_over_all_survive_down_sampling():
    all_rewards = [0.0] * 6 + [1.0] * 2

    advantages = group_advantages([0.0, 1.0], statistics=all_rewards)

    deviation = np.std(all_rewards, ddof=1) + 1e-4
    assert advantages == pytest.approx((-0.25 / deviation, 0.75 / deviation))


def test_leave_one_out_over_all_leaves_out_each_once():
    assert group_advantages([1.0], statistics=[1.0, 0.0, 0.5], baseline="leave_one_out", scale="none") == (0.75,)


@given(REWARDS)
def test_advantages_sum_to_zero_in_a_group(rewards):
    advantages = group_advantages(rewards)

    assert math.fsum(advantages) == pytest.approx(0.0, abs=1e-6 * max(1.0, *map(abs, advantages)))
    assert all(math.isfinite(value) for value in advantages)


@given(REWARDS)
def test_a_better_reward_never_has_a_lower_advantage(rewards):
    advantages = group_advantages(rewards)

    order = sorted(range(len(rewards)), key=lambda member: rewards[member])
    assert all(advantages[low] <= advantages[high] for low, high in itertools.pairwise(order))
