"""Variance components against a published table, an independent analysis of variance and simulation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np
from statsmodels.formula.api import ols

from streakline.errors import DataError
from streakline.evaluation.score_table import ScoreTable
from streakline.evaluation.variance_split import VarianceSplit, split_variance


def _table(values: np.ndarray) -> ScoreTable:
    return ScoreTable(values=values.astype(np.float64), tasks=tuple(str(task) for task in range(values.shape[1])))


def test_the_split_is_that_of_the_textbook() -> None:
    # Montgomery and Runger, Applied Statistics and Probability for Engineers, example S14-1: breaking strength of cloth
    # by operator (3, as seeds) and machine (4, as tasks), twice each. Mean squares 13.167, 8.111, 5.944 and 3.750.
    first = [[113, 113, 111, 113], [111, 110, 111, 114], [109, 112, 114, 111]]
    second = [[112, 118, 111, 119], [112, 111, 109, 112], [111, 115, 112, 112]]
    split = split_variance(_table(np.stack([first, second], axis=2)))
    assert split.seed == pytest.approx((13.167 - 5.944) / 8, abs=1e-3)
    assert split.task == pytest.approx((8.111 - 5.944) / 6, abs=1e-3)
    assert split.seed_task == pytest.approx((5.944 - 3.750) / 2, abs=1e-3)
    assert split.episode == pytest.approx(3.750)
    assert split.num_tasks == 4


def test_the_split_equates_the_mean_squares_of_a_two_way_analysis_of_variance() -> None:
    rng = np.random.default_rng(0)
    seeds, tasks, episodes = 4, 12, 3
    values = rng.random((seeds, tasks, episodes)) + rng.random((1, tasks, 1)) + 0.3 * rng.random((seeds, 1, 1))
    seed, task, _ = np.meshgrid(*(range(size) for size in values.shape), indexing="ij")
    frame = pd.DataFrame({"y": values.ravel(), "seed": seed.ravel(), "task": task.ravel()})
    squares = sm.stats.anova_lm(ols("y ~ C(seed) * C(task)", data=frame).fit())
    mean = (squares["sum_sq"] / squares["df"]).to_dict()
    split, both = split_variance(_table(values)), mean["C(seed):C(task)"]
    assert split.episode == pytest.approx(mean["Residual"])
    assert split.seed_task == pytest.approx((both - mean["Residual"]) / episodes)
    assert split.seed == pytest.approx((mean["C(seed)"] - both) / (tasks * episodes))
    assert split.task == pytest.approx((mean["C(task)"] - both) / (seeds * episodes))


@pytest.mark.parametrize("uneven", [False, True])
def test_the_split_has_no_bias(uneven: bool) -> None:
    rng, truth = np.random.default_rng(1), VarianceSplit(seed=0.02, task=0.10, seed_task=0.03, episode=0.12)
    shape, splits = (4, 15, 3), []
    for _ in range(600):
        values = rng.normal(size=(4, 1, 1)) * truth.seed**0.5 + rng.normal(size=(1, 15, 1)) * truth.task**0.5
        values = (
            values + rng.normal(size=(4, 15, 1)) * truth.seed_task**0.5 + rng.normal(size=shape) * truth.episode**0.5
        )
        if uneven:
            values[..., 1:] = np.where(rng.random((4, 15, 2)) < 0.5, math.nan, values[..., 1:])
        splits.append(split_variance(_table(values)))
    estimates = np.array([(split.seed, split.task, split.seed_task, split.episode) for split in splits])
    error = estimates.std(axis=0) / math.sqrt(len(splits))
    assert (np.abs(estimates.mean(axis=0) - (0.02, 0.10, 0.03, 0.12)) < 4 * error).all()


def test_one_seed_leaves_what_seeds_move_unknown() -> None:
    values = np.random.default_rng(2).random((1, 20, 4))
    split = split_variance(_table(values))
    assert math.isnan(split.seed)
    assert math.isnan(split.seed_task)
    within = values[0].var(axis=1, ddof=1).mean()
    assert split.episode == pytest.approx(within)
    assert split.task == pytest.approx(values[0].mean(axis=1).var(ddof=1) - within / 4)


def test_one_episode_leaves_sampling_in_what_seed_and_task_move_together() -> None:
    split = split_variance(_table(np.random.default_rng(3).random((3, 20, 1))))
    assert math.isnan(split.episode)
    assert split.seed_task > 0
    assert split.total == pytest.approx(max(split.seed, 0) + max(split.task, 0) + split.seed_task)


def test_scores_that_are_all_equal_have_nothing_to_split() -> None:
    split = split_variance(_table(np.ones((3, 5, 2))))
    assert (split.seed, split.task, split.seed_task, split.episode, split.total) == (0, 0, 0, 0, 0)
    assert math.isnan(split.task_correlation)


def test_the_task_correlation_is_the_share_of_tasks() -> None:
    split = VarianceSplit(seed=-0.01, task=0.06, seed_task=math.nan, episode=0.14)
    assert split.task_correlation == pytest.approx(0.3)
    assert (split.known.seed, split.known.seed_task) == (0.0, 0.0)


def test_tasks_that_a_seed_did_not_score_are_left_out() -> None:
    values = np.random.default_rng(4).random((2, 6, 2))
    values[1, 2] = math.nan
    kept = split_variance(_table(np.delete(values, 2, axis=1)))
    assert split_variance(_table(values)) == kept
    assert kept.num_tasks == 5
    with pytest.raises(DataError, match="at least two tasks that every seed scored, but got 1"):
        split_variance(_table(values[:, :1]))


@given(
    values=st_np.arrays(
        np.float64, st.tuples(st.integers(2, 4), st.integers(2, 6), st.just(2)), elements=st.floats(0, 1)
    ),
    shift=st.floats(-5, 5),
    seed=st.integers(0, 100),
)
def test_neither_order_nor_a_shift_changes_the_split(values: np.ndarray, shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    moved = rng.permuted(rng.permutation(rng.permutation(values, axis=0), axis=1), axis=2) + shift
    first, second = split_variance(_table(values)), split_variance(_table(moved))
    for ours, theirs in ((first.seed, second.seed), (first.task, second.task), (first.seed_task, second.seed_task)):
        assert ours == pytest.approx(theirs, abs=1e-9)
    assert first.episode == pytest.approx(second.episode, abs=1e-9)
