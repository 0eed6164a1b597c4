"""Paired tests against published values, other libraries and exhaustive enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar

from streakline.errors import ConfigError, DataError
from streakline.evaluation.paired_tests import (
    compare_arms,
    corrected_p_values,
    mcnemar_p_value,
    paired_test,
    sign_flip_p_value,
)
from streakline.evaluation.score_table import ScoreTable


def _table(values: np.ndarray) -> ScoreTable:
    return ScoreTable(values=values.astype(np.float64), tasks=tuple(str(task) for task in range(values.shape[1])))


def _single(outcomes: list[float]) -> ScoreTable:
    return _table(np.asarray(outcomes)[None, :, None])


@pytest.mark.parametrize(("wins", "losses", "ties"), [(5, 1, 7), (8, 0, 0), (0, 6, 3), (6, 6, 0), (2, 7, 30)])
def test_sign_flips_of_binary_outcomes_are_mcnemars_exact_test(wins: int, losses: int, ties: int) -> None:
    ours = sign_flip_p_value([1.0] * wins + [-1.0] * losses + [0.0] * ties)
    theirs = mcnemar([[ties, wins], [losses, 0]], exact=True).pvalue
    assert ours == pytest.approx(min(1.0, theirs))


def test_sign_flips_by_hand() -> None:
    # |sum| of (3, 2, 1) under the 8 flips: 6 4 2 0 0 2 4 6, so 2 of 8 are as extreme as 6.
    assert sign_flip_p_value([3.0, 2.0, 1.0]) == pytest.approx(2 / 8)


def test_random_flips_are_close_to_the_exact_value_and_repeat_with_their_seed() -> None:
    differences = [1.0] * 20 + [-1.0] * 8
    exact = mcnemar([[0, 20], [8, 0]], exact=True).pvalue
    assert sign_flip_p_value(differences, seed=1) == pytest.approx(exact, abs=0.01)
    assert sign_flip_p_value(differences, seed=1) == sign_flip_p_value(differences, seed=1)


@pytest.mark.parametrize("differences", [[], [0.0, 0.0], [1.0], [-0.5, 0.0]])
def test_too_little_to_tell_is_p_one(differences: list[float]) -> None:
    assert sign_flip_p_value(differences) == 1.0


def test_luck_alone_is_called_significant_at_most_at_the_error_rate() -> None:
    rng = np.random.default_rng(2)
    num_runs = 300
    alarms = sum(sign_flip_p_value(rng.normal(size=12), num_resamples=199, seed=run) <= 0.05 for run in range(num_runs))
    assert alarms / num_runs <= 0.05 + 3 * (0.05 * 0.95 / num_runs) ** 0.5


DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


def test_sign_flips_give_fishers_value_for_darwins_plants() -> None:
    # Fisher (1935), The Design of Experiments, section 21: in 863 of the 2^15 flips the sum is as large as the 314
    # eighths of an inch found, in as many as small. Two-sided: 1,726 of 32,768.
    assert sign_flip_p_value(DARWIN, num_resamples=2**15) == pytest.approx(1726 / 32768)


@example([-1.0, -2 / 3, -2 / 3, 1 / 3, 1.0, 1.0])  # flips that tie but for the last digit
@given(st.lists(st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 0.2, 0.5, 1.0]), min_size=2, max_size=9))
def test_sign_flips_are_exact_at_few_tasks(differences: list[float]) -> None:
    flips = itertools.product((-1, 1), repeat=len(differences))
    sums = np.array([abs(sum(sign * each for sign, each in zip(flip, differences, strict=True))) for flip in flips])
    assert sign_flip_p_value(differences) == pytest.approx(float((sums >= abs(sum(differences)) - 1e-9).mean()))


def test_at_many_pairs_the_normal_value_is_close_to_that_of_drawn_flips() -> None:
    rng = np.random.default_rng(3)
    differences = np.resize([-0.4, -0.2, 0.2, 0.4], 3_000)
    differences[:90] = 0.4  # so that the mean is about two standard errors from 0
    drawn = float(
        (np.abs(rng.choice([-1.0, 1.0], size=(4_000, 3_000)) @ differences) >= differences.sum() - 1e-9).mean()
    )
    assert 0.01 < drawn < 0.2
    assert sign_flip_p_value(differences) == pytest.approx(drawn, abs=0.02)


def test_a_few_large_differences_among_many_small_ones_are_not_taken_as_normal() -> None:
    differences = np.concatenate([np.full(4, 1.0), np.resize([1e-4, -1e-4], 1_500)])
    assert sign_flip_p_value(differences) == pytest.approx(1 / 2**4, abs=0.01)  # half of 2 / 2^4: the small ones decide


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), max_size=8), st.integers(0, 100))
def test_neither_order_nor_direction_changes_a_sign_flip_test(differences: list[float], seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(np.asarray(differences, dtype=float))
    assert sign_flip_p_value(-shuffled) == pytest.approx(sign_flip_p_value(differences))


def test_mcnemars_exact_test_gives_the_binomial_value() -> None:
    # 9 pairs rose, 1 fell: 2 * (1 + 10) / 2^10.
    before, after = np.array([0.0] * 9 + [1.0] + [1.0] * 5), np.array([1.0] * 9 + [0.0] + [1.0] * 5)
    assert mcnemar_p_value(before, after=after) == pytest.approx(22 / 1024)
    assert mcnemar_p_value(before, after=before) == 1.0


def test_mcnemars_exact_test_gives_the_textbook_value() -> None:
    # Agresti (2013), Categorical Data Analysis, table 11.1: 150 and 86 of 1,600 changed their mind; z = 4.17 squared.
    before = np.repeat([1.0, 1.0, 0.0, 0.0], [794, 150, 86, 570])
    after = np.repeat([1.0, 0.0, 1.0, 0.0], [794, 150, 86, 570])
    assert mcnemar_p_value(before, after=after) == pytest.approx(math.erfc(4.17 / math.sqrt(2)), rel=0.3)


@pytest.mark.parametrize("after", [[0.5, 1.0], [1.0]])
def test_mcnemars_test_refuses_what_is_neither_right_nor_wrong(after: list[float]) -> None:
    with pytest.raises(DataError, match="paired outcomes of 0 or 1"):
        mcnemar_p_value(np.array([0.0, 1.0]), after=np.asarray(after))


def test_one_right_or_wrong_episode_a_task_takes_mcnemar() -> None:
    test = paired_test(_single([0.0] * 9 + [1.0] * 6), after=_single([1.0] * 9 + [0.0] + [1.0] * 5))
    assert (test.test, test.p_value) == ("mcnemar", pytest.approx(22 / 1024))
    assert test.difference.estimate == pytest.approx(8 / 15)
    assert test.difference.is_above_zero


@pytest.mark.parametrize("values", [np.ones((2, 6, 1)), np.ones((1, 6, 2)), np.full((1, 6, 1), 0.5)])
def test_more_episodes_more_seeds_or_graded_scores_take_sign_flips(values: np.ndarray) -> None:
    test = paired_test(_single([0.0] * 6), after=_table(values))
    assert (test.test, test.p_value) == ("sign_flip", pytest.approx(2 / 2**6))


def test_repeating_each_episode_changes_nothing() -> None:
    rng = np.random.default_rng(4)
    first, second = ((rng.random((1, 30, 2)) < rate).astype(float) for rate in (0.4, 0.6))
    once = paired_test(_table(first), after=_table(second))
    often = paired_test(_table(np.tile(first, (1, 1, 10))), after=_table(np.tile(second, (1, 1, 10))))
    assert (often.p_value, often.difference) == (once.p_value, once.difference)


def test_tasks_that_one_arm_has_no_score_for_are_left_out_and_counted() -> None:
    test = paired_test(_single([0.0, 0.0, math.nan, 1.0]), after=_single([1.0, math.nan, 1.0, 1.0]))
    assert (test.difference.count, test.num_left_out) == (2, 2)


def test_arms_are_compared_with_the_baseline_and_corrected_together() -> None:
    arms = {
        "base": _single([0.0] * 12),
        "better": _single([1.0] * 8 + [0.0] * 4),
        "best": _single([1.0] * 10 + [0.0] * 2),
        "same": _single([0.0] * 11 + [1.0]),
    }
    tests = compare_arms(arms, baseline="base")
    assert list(tests) == ["better", "best", "same"]
    assert tests["best"].p_corrected == pytest.approx(3 * 2 / 2**10)
    assert tests["better"].p_corrected == pytest.approx(2 * 2 / 2**8)
    assert tests["same"].p_corrected == 1.0


def test_comparisons_need_their_baseline_and_the_same_tasks() -> None:
    with pytest.raises(ConfigError, match=r"`baseline` to be one of \['a'\], but got 'b'"):
        compare_arms({"a": _single([1.0, 0.0])}, baseline="b")
    with pytest.raises(DataError, match="both arms to have the same `tasks`"):
        paired_test(_single([1.0, 0.0]), after=_single([1.0, 0.0, 1.0]))
    with pytest.raises(DataError, match="at least two"):
        paired_test(_single([1.0, math.nan]), after=_single([1.0, 0.0]))
    assert compare_arms({"a": _single([1.0, 0.0])}, baseline="a") == {}


def test_corrections_are_those_published() -> None:
    # Benjamini and Hochberg (1995), section 4.1: 15 p values, of which 4 are found at 5%, and Bonferroni finds 3.
    published = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528]
    published += [0.7590, 1.0000]
    assert sum(p <= 0.05 for p in corrected_p_values(published, correction="fdr_bh")) == 4
    assert sum(p <= 0.05 for p in corrected_p_values(published, correction="holm")) == 3
    assert corrected_p_values([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert corrected_p_values([]) == ()


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_a_p_value_outside_the_unit_interval_is_refused(bad: float) -> None:
    with pytest.raises(DataError, match=r"`p_values` to be within \[0, 1\]"):
        corrected_p_values([0.5, bad])


def test_equal_methods_are_called_different_at_most_at_the_error_rate() -> None:
    rng, num_runs, alarms = np.random.default_rng(5), 400, 0
    for _ in range(num_runs):
        rates = rng.beta(1, 1, size=(1, 10, 1))
        arms = [_table(rng.random((1, 10, 3)) < rates) for _ in range(2)]
        alarms += paired_test(arms[0], after=arms[1]).p_value <= 0.05
    assert alarms / num_runs <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / num_runs)
