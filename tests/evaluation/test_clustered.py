"""Clustered errors and intervals against sandwich formulas, other libraries and simulated coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np
from scipy import special, stats

from streakline.errors import ConfigError, DataError
from streakline.evaluation.clustered import (
    clustered_error,
    interval_given_seeds,
    method_difference,
    method_interval,
    spread_over_seeds,
)
from streakline.evaluation.intervals import Interval, wilson
from streakline.evaluation.score_table import ScoreTable


def _table(values: np.ndarray) -> ScoreTable:
    return ScoreTable(values=values.astype(np.float64), tasks=tuple(str(task) for task in range(values.shape[1])))


# Episodes by task, and what inspect-ai 0.3.285 gives for them: stderr(cluster="task") of inspect_ai.scorer.
UNEQUAL = {
    "a": [1, 1, 0, 1],
    "b": [0, 0],
    "c": [1, 0, 0],
    "d": [1],
    "e": [1, 1, 1, 1, 0],
    "f": [0.25, 0.5],
}
EQUAL = {str(task): [float((task * 7 + episode * 3) % 5 < 2) for episode in range(4)] for task in range(12)}


@pytest.mark.parametrize(("scores", "expected"), [(UNEQUAL, 0.1281491988540703), (EQUAL, 0.03553345272593507)])
def test_the_clustered_error_is_that_of_inspect_ai(scores: dict[str, list[float]], expected: float) -> None:
    values = np.concatenate([np.asarray(each, dtype=float) for each in scores.values()])
    clusters = [task for task, each in scores.items() for _ in each]
    assert clustered_error(values, clusters=clusters) == pytest.approx(expected, rel=1e-12)


def test_the_clustered_error_is_the_sandwich_summed_pair_by_pair() -> None:
    rng = np.random.default_rng(1)
    values, clusters = rng.random(40), rng.integers(0, 7, size=40)
    residuals = values - values.mean()
    total = sum(residuals[i] * residuals[j] for i in range(40) for j in range(40) if clusters[i] == clusters[j])
    assert clustered_error(values, clusters=clusters) == pytest.approx(math.sqrt(7 / 6 * total) / 40)


def test_the_clustered_error_is_that_of_a_regression_on_a_constant() -> None:
    rng = np.random.default_rng(2)
    values, clusters = rng.random(90), rng.integers(0, 20, size=90)
    fit = sm.OLS(values, np.ones(90)).fit(cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False})
    assert clustered_error(values, clusters=clusters) == pytest.approx(float(fit.bse[0]) * math.sqrt(20 / 19))


def test_the_error_of_200_single_right_or_wrong_answers_is_walds() -> None:
    # Half-widths of 6.9 points at n = 200 and 24.5 at n = 16, for a rate of one half.
    for count, half_width in ((200, 0.0693), (16, 0.245)):
        error = clustered_error(np.arange(count) % 2.0, clusters=np.arange(count)) * math.sqrt((count - 1) / count)
        assert stats.norm.ppf(0.975) * error == pytest.approx(half_width, abs=5e-5)


def test_the_error_of_one_cluster_cannot_be_seen() -> None:
    assert math.isnan(clustered_error(np.array([0.0, 1.0]), clusters=["a", "a"]))


@pytest.mark.parametrize(("values", "clusters"), [([], []), ([1.0], ["a", "b"])])
def test_clusters_must_fit_the_values(values: list[float], clusters: list[str]) -> None:
    with pytest.raises(DataError, match="`clusters` to name one for each of `values`"):
        clustered_error(np.asarray(values, dtype=float), clusters=clusters)


def test_the_interval_given_seeds_is_inspect_ais_where_tasks_are_many() -> None:
    values = (np.random.default_rng(3).random((1, 80, 4)) < np.linspace(0, 1, 80)[None, :, None]).astype(float)
    interval = interval_given_seeds(_table(values))
    error = clustered_error(values.ravel(), clusters=np.repeat(np.arange(80), 4))
    assert interval.half_width == pytest.approx(stats.t.ppf(0.975, df=79) * error)
    assert interval.count == 80


def test_seeds_and_episodes_of_a_task_are_one_cluster() -> None:
    values = (np.random.default_rng(4).random((3, 40, 2)) < 0.4).astype(float)
    interval = interval_given_seeds(_table(values))
    joined = interval_given_seeds(_table(values.transpose(1, 0, 2).reshape(1, 40, 6)))
    assert (interval.low, interval.high) == pytest.approx((joined.low, joined.high))


def test_single_answers_to_few_tasks_get_nearly_wilsons_interval() -> None:
    interval, wilsons = interval_given_seeds(_table((np.arange(49) < 12)[None, :, None])), wilson(12, trials=49)
    assert (interval.low, interval.high) == pytest.approx((wilsons.low, wilsons.high), abs=6e-3)
    assert interval.half_width > wilsons.half_width


def test_a_task_that_no_seed_scored_is_left_out() -> None:
    values = np.array([[[1.0], [0.0], [math.nan]], [[1.0], [math.nan], [math.nan]]])
    assert interval_given_seeds(_table(values)) == interval_given_seeds(
        _table(np.array([[[1.0], [0.0]], [[1.0], [np.nan]]]))
    )


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_scores_that_are_all_the_same_extreme_leave_room(score: float) -> None:
    for num_seeds in (1, 3):
        table = _table(np.full((num_seeds, 30, 2), score))
        interval, expected = interval_given_seeds(table), wilson(int(30 * score), trials=30)
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert method_interval(table) == interval


def test_scores_outside_the_unit_interval_take_t() -> None:
    values = np.array([-1.0, 0.5, 3.0, 2.0])
    interval = interval_given_seeds(_table(values[None, :, None]))
    low, high = stats.t.interval(0.95, df=3, loc=values.mean(), scale=stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx((low, high))


def test_one_task_leaves_nearly_everything_open() -> None:
    interval = interval_given_seeds(_table(np.array([[[1.0, 0.0, 1.0]]])))
    assert interval.low < 0.2
    assert interval.high > 0.95


def test_nothing_scored_gives_no_interval() -> None:
    with pytest.raises(DataError, match="at least two tasks for an interval, but got 0"):
        interval_given_seeds(_table(np.full((2, 3, 1), math.nan)))


SCORES = st_np.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(2, 8), st.integers(1, 3)),
    elements=st.sampled_from([0, 0.25, 1]),
)


@given(values=SCORES, seed=st.integers(0, 1000))
def test_the_order_of_seeds_tasks_and_episodes_does_not_matter(values: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shuffled = rng.permuted(rng.permutation(rng.permutation(values, axis=0), axis=1), axis=2)
    first, second = interval_given_seeds(_table(values)), interval_given_seeds(_table(shuffled))
    assert (first.low, first.high) == pytest.approx((second.low, second.high))


@given(values=SCORES)
def test_an_interval_holds_its_estimate_and_stays_in_the_unit_interval(values: np.ndarray) -> None:
    interval = interval_given_seeds(_table(values))
    assert -1e-9 <= interval.low <= interval.estimate + 1e-9
    assert interval.estimate - 1e-9 <= interval.high <= 1 + 1e-9


@given(values=SCORES, shift=st.floats(-3, 3))
def test_a_shift_of_one_arm_shifts_the_difference_of_methods(values: np.ndarray, shift: float) -> None:
    if len(values) < 2:
        return
    before, after = _table(values), _table(values[::-1, ::-1])
    plain, moved = (
        method_difference(before, after=after),
        method_difference(before, after=_table(values[::-1, ::-1] + shift)),
    )
    assert (moved.low, moved.high) == pytest.approx((plain.low + shift, plain.high + shift), abs=1e-9)


def test_the_spread_over_seeds_is_that_of_their_means() -> None:
    spread = spread_over_seeds(_table(np.array([[[1.0], [0.0]], [[1.0], [1.0]], [[0.0], [0.0]]])))
    assert (spread.mean, spread.deviation, spread.lowest, spread.highest) == (0.5, 0.5, 0.0, 1.0)
    assert spread.num_seeds == 3


def test_the_spread_of_one_seed_cannot_be_seen() -> None:
    assert math.isnan(spread_over_seeds(_table(np.ones((1, 2, 1)))).deviation)
    with pytest.raises(DataError, match="a task that every seed scored, but got none"):
        spread_over_seeds(_table(np.array([[[1.0], [math.nan]], [[math.nan], [1.0]]])))


def test_the_variance_over_seeds_and_tasks_is_that_of_two_way_clustering() -> None:
    cells = np.random.default_rng(5).random((4, 9))
    (a, b), residuals = cells.shape, cells - cells.mean()
    # Cameron, Gelbach and Miller (2011): by task + by seed - by cell, with the factors for few clusters.
    by_task = np.square(residuals.sum(axis=0)).sum() * b / (b - 1)
    by_seed = np.square(residuals.sum(axis=1)).sum() * a / (a - 1)
    additive = residuals - residuals.mean(axis=0) - residuals.mean(axis=1, keepdims=True)
    by_cell = np.square(additive).sum() * a * b / ((a - 1) * (b - 1))
    variance = (by_task + by_seed - by_cell) / (a * b) ** 2
    quantile = (by_task * stats.t.ppf(0.975, b - 1) + by_seed * stats.t.ppf(0.975, a - 1)) / (by_task + by_seed)
    interval = method_interval(_table(cells[..., None]))
    assert interval.half_width == pytest.approx(quantile * math.sqrt(variance))
    assert interval.count == 4


def test_seeds_that_differ_alone_give_welchs_interval_of_their_means() -> None:
    first, second = np.array([0.3, 0.4, 0.5]), np.array([0.45, 0.7, 0.55, 0.6])
    before, after = (_table(np.repeat(arm[:, None, None], 20, axis=1)) for arm in (first, second))
    interval = method_difference(before, after=after)
    expected = stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_pairing_by_seed_takes_out_what_the_seeds_share() -> None:
    rng = np.random.default_rng(6)
    shared = rng.normal(size=(5, 1, 1)) * 0.2
    first, second = rng.random((5, 40, 1)) + shared, rng.random((5, 40, 1)) + shared + 0.1
    paired = method_difference(_table(first), after=_table(second), paired=True)
    unpaired = method_difference(_table(first), after=_table(second))
    assert paired.half_width < unpaired.half_width
    expected = method_interval(_table(second - first))
    assert (paired.low, paired.high) == pytest.approx((expected.low, expected.high))


def test_methods_need_two_seeds_and_the_same_tasks() -> None:
    one, two, three = (_table(np.random.default_rng(0).random((count, 4, 1))) for count in (1, 2, 3))
    with pytest.raises(DataError, match="at least two seeds and two tasks that every seed scored, but got 1 and 4"):
        method_interval(one)
    with pytest.raises(DataError, match="at least two seeds"):
        method_difference(two, after=one)
    with pytest.raises(DataError, match="paired arms of equally many seeds, but got 2 and 3"):
        method_difference(two, after=three, paired=True)
    with pytest.raises(DataError, match="both arms to have the same `tasks`, but got '3' in one only"):
        method_difference(two, after=_table(np.ones((2, 3, 1))))
    with pytest.raises(DataError, match="but got another order"):
        method_difference(two, after=ScoreTable(values=two.values, tasks=two.tasks[::-1]))
    with pytest.raises(ConfigError, match="`level` to be between 0 and 1, but got 95"):
        method_interval(two, level=95)


def _coverage(intervals: list[Interval], truth: float) -> float:
    return float(np.mean([interval.low <= truth <= interval.high for interval in intervals]))


@pytest.mark.parametrize("num_tasks", [50, 200])
@pytest.mark.parametrize(("num_seeds", "num_episodes"), [(1, 1), (1, 5), (5, 1)])
@pytest.mark.parametrize(("rate", "correlation"), [(0.1, 0.3), (0.5, 0.0), (0.7, 0.8)])
def test_the_interval_given_seeds_covers_at_its_nominal_rate(
    num_tasks: int, num_seeds: int, num_episodes: int, rate: float, correlation: float
) -> None:
    rng, num_runs = np.random.default_rng(7), 1_000
    scale = 1 / max(correlation, 1e-9) - 1
    intervals = []
    for _ in range(num_runs):
        rates = rng.beta(rate * scale, (1 - rate) * scale, size=(1, num_tasks, 1))
        intervals.append(interval_given_seeds(_table(rng.random((num_seeds, num_tasks, num_episodes)) < rates)))
    margin = 2 * math.sqrt(0.95 * 0.05 / num_runs)
    assert 0.93 - margin <= _coverage(intervals, rate) <= 0.97 + margin


@pytest.mark.parametrize(("num_seeds", "seed_deviation"), [(3, 0.5), (5, 0.5), (5, 0.15)])
def test_over_seeds_and_tasks_covers_where_over_tasks_alone_does_not(num_seeds: int, seed_deviation: float) -> None:
    rng, num_runs, num_tasks = np.random.default_rng(8), 400, 100
    methods, differences, given_seeds = [], [], []
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    spread = math.sqrt(1.5**2 + 0.5**2 + seed_deviation**2)
    truth = float(weights @ special.expit(spread * nodes) / weights.sum())
    for _ in range(num_runs):
        difficulty = rng.normal(size=(1, num_tasks, 1)) * 1.5
        arms = []
        for _ in range(2):
            logits = difficulty + rng.normal(size=(num_seeds, 1, 1)) * seed_deviation
            logits = logits + rng.normal(size=(num_seeds, num_tasks, 1)) * 0.5
            arms.append(_table(rng.random((num_seeds, num_tasks, 2)) < special.expit(logits)))
        methods.append(method_interval(arms[0]))
        given_seeds.append(interval_given_seeds(arms[0]))
        differences.append(method_difference(arms[0], after=arms[1]))
    assert 0.92 <= _coverage(methods, truth) <= 0.99
    assert 0.93 <= _coverage(differences, 0.0) <= 0.995
    if seed_deviation == 0.5:
        assert _coverage(given_seeds, truth) < 0.85
