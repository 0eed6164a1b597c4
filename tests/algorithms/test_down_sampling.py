from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streakline.algorithms.down_sampling import down_sample
from streakline.errors import ConfigError, RecordError

REWARDS = st.one_of(
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0.0, 0.1, 0.3, 0.9, 1.0]),
    st.floats(-10, 10, width=32),
)


@st.composite
def groups(draw):
    """Groups of one size of up to ten rewards, some of them unscored, and how many are kept."""
    size = draw(st.integers(1, 10))
    reward = st.one_of(st.none(), REWARDS) if draw(st.booleans()) else REWARDS
    rows = draw(st.lists(st.lists(reward, min_size=size, max_size=size), min_size=1, max_size=4))
    return rows, draw(st.integers(1, size))


def _largest_variance(rewards, keep):
    """By trying all subsets."""
    scored = [reward for reward in rewards if reward is not None]
    return max((np.var(subset) for subset in combinations(scored, min(keep, len(scored))) if subset), default=0.0)


@settings(max_examples=150, deadline=None)
@given(groups())
@example(([[0.0, 0.0, 6.0, 2.0**-23, -5.0]], 4))
def test_no_subset_has_a_larger_variance(case):
    rows, keep = case
    for rewards, kept in zip(rows, down_sample(rows, keep=keep), strict=True):
        chosen = [rewards[index] for index in kept]
        num_scored = sum(reward is not None for reward in rewards)
        assert None not in chosen
        assert len(set(kept)) == len(kept) == min(keep, num_scored)
        if chosen:
            assert np.var(chosen) == pytest.approx(_largest_variance(rewards, keep), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(groups(), st.sampled_from(["max_variance", "max_reward", "random"]))
def test_a_group_is_chosen_from_alike_whatever_else_is_in_the_batch(case, rule):
    rows, keep = case
    names = [str(index) for index in range(len(rows))]
    together = down_sample(rows, keep=keep, rule=rule, identities=names)
    alone = [
        down_sample([row], keep=keep, rule=rule, identities=[name])[0] for row, name in zip(rows, names, strict=True)
    ]
    assert together == alone


@pytest.mark.parametrize(
    ("rewards", "keep", "expected"),
    [
        ([0, 0, 0, 1, 1, 1, 1, 1], 4, [0, 0, 1, 1]),
        ([0] * 7 + [1], 4, [0, 0, 0, 1]),
        ([0, 1, 1, 1, 1, 1, 1, 1], 4, [0, 1, 1, 1]),
        ([0, 0.9, 0.9, 1], 3, [0, 0.9, 1]),
        # Two subsets are as good: the one with more of the highest.
        ([0, 0, 1, 1], 3, [0, 1, 1]),
        ([0.3] * 4, 2, [0.3, 0.3]),
        ([0, 1], 1, [1]),
        ([0.7], 1, [0.7]),
    ],
)
def test_known_answers(rewards, keep, expected):
    (kept,) = down_sample([rewards], keep=keep)
    assert [rewards[index] for index in kept] == expected


def test_of_equal_rewards_the_first_lowest_and_the_last_highest_are_kept():
    assert down_sample([[1, 0, 1, 0, 1, 0, 1, 0]], keep=4) == [(1, 3, 4, 6)]
    assert down_sample([[0.1] * 12], keep=3) == [(9, 10, 11)]


def test_max_reward_keeps_the_highest():
    assert down_sample([[0.2, 0.9, None, 0.5, 0.9]], keep=2, rule="max_reward") == [(1, 4)]


def test_none_keeps_everything():
    assert down_sample([[0, None, 1], [1]], keep=1, rule="none") == [(0, 1, 2), (0,)]


def test_a_draw_follows_from_the_identity_and_takes_every_trajectory_as_often():
    rewards = [[0, 1, 0, 1, None, 0]]
    first, again = (down_sample(rewards, keep=2, rule="random", identities=["0/3/a"]) for _ in range(2))
    draws = [down_sample(rewards, keep=2, rule="random", identities=[str(seed)])[0] for seed in range(2000)]
    counts = np.bincount([index for draw in draws for index in draw], minlength=6)

    assert first == again
    assert counts[4] == 0
    assert counts[[0, 1, 2, 3, 5]] == pytest.approx([800] * 5, rel=0.12)


def test_groups_of_different_sizes_and_none_at_all():
    assert down_sample([[0, 1], [0, 0.5, 1, None]], keep=2) == [(0, 1), (0, 2)]
    assert down_sample([[None, None]], keep=2) == [()]
    assert down_sample([], keep=2) == []


def test_rewards_far_from_zero_lose_no_digits():
    offset = 1e6
    assert down_sample([[offset, offset + 1e-3, offset + 2e-3, offset + 4e-3]], keep=2) == [(0, 3)]


@pytest.mark.parametrize("rule", ["max_variance", "max_reward", "random"])
def test_where_more_are_to_be_kept_than_there_are_all_are(rule):
    assert down_sample([[0, 1], [0, None, 1]], keep=5, rule=rule, identities=["a", "b"]) == [(0, 1), (0, 2)]


@pytest.mark.parametrize("keep", [0, -1])
def test_to_keep_nothing_is_refused(keep):
    with pytest.raises(ConfigError, match=rf"`keep` to be at least 1, but got {keep}"):
        down_sample([[0, 1]], keep=keep)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_refused(bad):
    with pytest.raises(RecordError, match="rewards to be finite or None"):
        down_sample([[0, bad, 1]], keep=2)
