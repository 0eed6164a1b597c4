"""Intervals against textbook values, independent formulas and simulated coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streakline.errors import ConfigError, DataError
from streakline.evaluation.intervals import (
    clustered_share,
    interval_of_differences,
    mean_interval,
    paired_difference,
    paired_values,
    t_interval_across_seeds,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), Statistics in Medicine 17:857, table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_newcombes_published_values(successes: int, trials: int, low: float, high: float) -> None:
    interval = wilson(successes, trials=trials)
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)
    assert interval.count == trials


def test_wilson_half_width_at_200_trials_is_about_seven_points() -> None:
    assert wilson(100, trials=200).half_width == pytest.approx(0.069, abs=1e-3)


@given(trials=st.integers(1, 500), data=st.data())
def test_wilson_contains_the_estimate_and_stays_in_the_unit_interval(trials: int, data: st.DataObject) -> None:
    interval = wilson(data.draw(st.integers(0, trials)), trials=trials)
    assert -1e-12 <= interval.low <= interval.estimate + 1e-12
    assert interval.estimate - 1e-12 <= interval.high <= 1 + 1e-12


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_impossible_counts(successes: int, trials: int) -> None:
    with pytest.raises(ConfigError, match="Expected 0 <= `successes`"):
        wilson(successes, trials=trials)


def test_a_clustered_share_covers_the_truth_where_wilsons_interval_of_single_trials_does_not() -> None:
    rng = np.random.default_rng(0)
    covered = {"clustered": 0, "single": 0}
    for _ in range(1000):
        rates = rng.beta(0.6, 0.4, size=30)  # mean 0.6; the trials of a task are much alike
        tasks = {str(n): (rng.random(rng.integers(1, 12)) < rate).tolist() for n, rate in enumerate(rates)}
        flat = [value for values in tasks.values() for value in values]
        for name, interval in (
            ("clustered", clustered_share(tasks)),
            ("single", wilson(sum(flat), trials=len(flat))),
        ):
            covered[name] += interval.low <= 0.6 <= interval.high
    assert covered["clustered"] > 930
    assert covered["single"] < 750


def test_a_clustered_share_is_over_trials_and_counts_tasks() -> None:
    interval = clustered_share({"a": [True, True, True], "b": [False], "c": []})
    assert (interval.estimate, interval.count) == (0.75, 2)


def test_single_trials_in_many_tasks_give_nearly_wilsons_interval() -> None:
    values = {str(n): [n < 120] for n in range(400)}
    ours, wilsons = clustered_share(values), wilson(120, trials=400)
    assert (ours.low, ours.high) == pytest.approx((wilsons.low, wilsons.high), abs=1e-3)


@pytest.mark.parametrize("outcome", [True, False])
def test_trials_that_all_agree_count_once_a_task(outcome: bool) -> None:
    interval = clustered_share({str(n): [outcome] * 5 for n in range(7)})
    expected = wilson(7 * outcome, trials=7)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_tasks_of_equal_shares_give_no_narrower_interval_than_independent_trials() -> None:
    ours, wilsons = clustered_share({str(n): [True, False] for n in range(50)}), wilson(50, trials=100)
    assert (ours.low, ours.high) == pytest.approx((wilsons.low, wilsons.high), abs=5e-3)


@pytest.mark.parametrize("values", [{}, {"a": []}])
def test_a_share_of_nothing_is_refused(values: dict[str, list[bool]]) -> None:
    with pytest.raises(DataError, match="at least one trial"):
        clustered_share(values)


def test_level_must_be_a_probability() -> None:
    with pytest.raises(ConfigError, match="`level` to be between 0 and 1, but got 95"):
        wilson(1, trials=2, level=95)
    with pytest.raises(ConfigError, match="`level`"):
        paired_difference({"a": [0.0], "b": [0.0]}, {"a": [1.0], "b": [0.0]}, level=0.0)


def test_mean_interval_equals_the_cluster_robust_interval_of_a_regression_on_a_constant() -> None:
    rng = np.random.default_rng(3)
    values = (rng.random((80, 4)) < rng.random((80, 1))).astype(float)
    ours = mean_interval({str(task): row for task, row in enumerate(values)})
    fit = sm.OLS(values.ravel(), np.ones(values.size)).fit(
        cov_type="cluster", cov_kwds={"groups": np.repeat(np.arange(80), 4)}, use_t=True
    )
    low, high = fit.conf_int()[0]
    assert (ours.estimate, ours.low, ours.high) == pytest.approx((fit.params[0], low, high))


def test_mean_interval_does_not_narrow_when_the_same_episodes_are_repeated() -> None:
    values = {"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [0.0, 0.0]}
    repeated = {task: episodes * 10 for task, episodes in values.items()}
    assert mean_interval(values) == mean_interval(repeated)


def test_mean_interval_weighs_tasks_equally_and_leaves_out_unscored_ones() -> None:
    interval = mean_interval({"a": [1.0, 1.0, 1.0, 1.0], "b": [0.0], "c": []})
    assert interval.estimate == 0.5
    assert interval.count == 2


def test_mean_interval_covers_at_its_nominal_rate() -> None:
    rng = np.random.default_rng(11)
    num_runs, num_tasks, num_episodes = 400, 60, 3
    covered = 0
    for _ in range(num_runs):
        rates = rng.beta(1.0, 1.0, size=(num_tasks, 1))  # mean 0.5
        episodes = (rng.random((num_tasks, num_episodes)) < rates).astype(float)
        interval = mean_interval({str(task): row for task, row in enumerate(episodes)})
        covered += interval.low <= 0.5 <= interval.high
    error = math.sqrt(0.95 * 0.05 / num_runs)
    assert abs(covered / num_runs - 0.95) < 3.5 * error


def test_paired_t_interval_gives_the_textbook_value() -> None:
    # Gosset (1908), "The probable error of a mean": extra hours of sleep of ten patients under two drugs.
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    interval = paired_difference(
        {str(i): [value] for i, value in enumerate(first)},
        {str(i): [value] for i, value in enumerate(second)},
        method="t",
    )
    assert interval.estimate == pytest.approx(1.58)
    assert (interval.low, interval.high) == pytest.approx((0.7001, 2.4599), abs=1e-4)


def test_paired_t_interval_equals_scipys_paired_test() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.random(30), rng.random(30)
    ours = paired_difference(
        {f"{i:02}": [x] for i, x in enumerate(before)}, {f"{i:02}": [x] for i, x in enumerate(after)}, method="t"
    )
    theirs = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_paired_bootstrap_is_close_to_t_at_many_tasks_and_repeats_with_its_seed() -> None:
    rng = np.random.default_rng(5)
    before = {str(i): (rng.random(4) < 0.45).astype(float) for i in range(320)}
    after = {str(i): (rng.random(4) < 0.60).astype(float) for i in range(320)}
    boot, again = paired_difference(before, after, seed=1), paired_difference(before, after, seed=1)
    t = paired_difference(before, after, method="t")
    assert boot == again
    assert boot.estimate == pytest.approx(t.estimate)
    assert (boot.low, boot.high) == pytest.approx((t.low, t.high), abs=0.004)
    assert boot.is_above_zero


def test_paired_bootstrap_covers_at_its_nominal_rate() -> None:
    rng = np.random.default_rng(7)
    num_runs, num_tasks = 200, 80
    covered = 0
    for run in range(num_runs):
        before = (rng.random(num_tasks) < 0.5).astype(float)
        flips = rng.random(num_tasks)
        after = np.where(flips < 0.2, 1.0, before)  # expected difference 0.2 * 0.5 = 0.1
        interval = paired_difference(
            {str(i): [x] for i, x in enumerate(before)},
            {str(i): [x] for i, x in enumerate(after)},
            num_resamples=499,
            seed=run,
        )
        covered += interval.low <= 0.1 <= interval.high
    assert 0.89 <= covered / num_runs <= 0.99


def test_paired_difference_pairs_by_task_whatever_the_order() -> None:
    before = {"a": [0.0], "b": [1.0], "c": [0.0]}
    after = {"c": [1.0], "a": [1.0], "b": [1.0]}
    assert paired_difference(before, after, method="t").estimate == pytest.approx(2 / 3)


def test_differences_without_any_spread_leave_room_and_less_of_it_with_more_tasks() -> None:
    few, many = (interval_of_differences(np.ones(count)) for count in (2, 200))
    assert (few.estimate, few.high) == (1.0, 1.0)
    assert few.low < 0
    assert 0.96 < many.low < many.high == 1.0
    still = interval_of_differences(np.zeros(50))
    # Bonett and Price (2012): none of 50 pairs differs, and one is added to each way: t times sqrt(2 / 52 / 52).
    assert still.high == -still.low == pytest.approx(2.0096 * math.sqrt(2) / 52, abs=1e-5)


def test_the_adjusted_interval_by_hand() -> None:
    interval = interval_of_differences(np.array([1.0, 1.0, 0.0, -1.0, 1.0, 0.0]), method="adjusted")
    center, variance = 2 / 8, (4 + 1) / 8 - (2 / 8) ** 2
    half = stats.t.ppf(0.975, df=5) * math.sqrt(variance / 8)
    assert (interval.estimate, interval.low, interval.high) == pytest.approx((2 / 6, center - half, center + half))


def test_the_method_goes_by_the_number_of_tasks() -> None:
    rng = np.random.default_rng(8)
    for count, method in ((99, "adjusted"), (100, "bootstrap"), (10_001, "t")):
        differences = rng.choice([-0.5, 0.0, 0.5, 1.0], size=count)
        assert interval_of_differences(differences) == interval_of_differences(differences, method=method)
    wide = rng.normal(size=50) * 10
    assert interval_of_differences(wide) == interval_of_differences(wide, method="t")


@pytest.mark.parametrize("differences", [[0.5], [2.0, 0.0]])
def test_the_adjusted_interval_refuses_what_it_is_not_made_for(differences: list[float]) -> None:
    with pytest.raises(DataError, match=r"at least two `differences` within \[-1, 1\]"):
        interval_of_differences(np.asarray(differences), method="adjusted")


@pytest.mark.parametrize(("rose", "fell"), [(0.05, 0.0), (0.2, 0.1)])
@pytest.mark.parametrize("num_tasks", [20, 50])
def test_a_difference_of_few_tasks_is_covered_at_least_at_its_nominal_rate(
    num_tasks: int, rose: float, fell: float
) -> None:
    rng, num_runs, covered = np.random.default_rng(9), 1_000, 0
    for _ in range(num_runs):
        differences = rng.choice([1.0, -1.0, 0.0], size=num_tasks, p=[rose, fell, 1 - rose - fell])
        interval = interval_of_differences(differences)
        covered += interval.low <= rose - fell <= interval.high
    assert covered / num_runs >= 0.94


def test_paired_difference_refuses_different_tasks() -> None:
    with pytest.raises(DataError, match="same tasks before and after, but got 2 on one side only, such as 'b'"):
        paired_difference({"a": [0.0], "b": [0.0]}, {"a": [0.0], "c": [0.0]})


def test_paired_values_leave_out_tasks_unscored_on_either_side() -> None:
    first, second = paired_values({"a": [], "b": [0.0, 1.0]}, {"a": [1.0], "b": [1.0]})
    assert (first.tolist(), second.tolist()) == ([0.5], [1.0])


def test_interval_across_seeds_equals_scipys_t_interval() -> None:
    values = [0.172, 0.141, 0.144]
    ours = t_interval_across_seeds(values)
    low, high = stats.t.interval(0.95, df=2, loc=np.mean(values), scale=stats.sem(values))
    assert (ours.estimate, ours.low, ours.high) == pytest.approx((np.mean(values), low, high))
    assert ours.count == 3


@pytest.mark.parametrize("values", [[], [0.5]])
def test_one_seed_gives_no_interval(values: list[float]) -> None:
    with pytest.raises(DataError, match="at least two seeds"):
        t_interval_across_seeds(values)


def test_interval_reads_as_estimate_and_range() -> None:
    assert str(t_interval_across_seeds([0.0, 1.0])) == "0.500 [-5.853, 6.853]"
