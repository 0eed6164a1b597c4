"""What a design can detect, against published sample sizes, statsmodels and simulated experiments."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from streakline.errors import ConfigError, DataError
from streakline.evaluation.clustered import method_difference
from streakline.evaluation.design import Design, correlation_between_arms, detectable_difference, power, seeds_needed
from streakline.evaluation.score_table import ScoreTable
from streakline.evaluation.variance_split import VarianceSplit

SEEDS_ALONE = VarianceSplit(seed=1.0, task=0.0, seed_task=0.0, episode=0.0)
TYPICAL = VarianceSplit(seed=0.0016, task=0.10, seed_task=0.02, episode=0.12)


def _design(variance: VarianceSplit = TYPICAL, **changes: float) -> Design:
    return replace(
        Design(num_seeds=5, num_tasks=200, num_episodes=2, variance=variance, arm_correlation=0.8), **changes
    )


def test_the_error_by_hand() -> None:
    over_tasks = 2 * (0.10 * (1 - 0.8) + 0.02 / 5 + 0.12 / (5 * 2)) / 200
    assert _design().error == pytest.approx(math.sqrt(over_tasks + 2 * 0.0016 / 5))
    assert _design(over_seeds=False).error == pytest.approx(math.sqrt(over_tasks))


@pytest.mark.parametrize(("difference", "published"), [(0.2, 393), (0.5, 64), (0.8, 26)])
def test_seeds_needed_are_cohens(difference: float, published: int) -> None:
    # Cohen (1988), Statistical Power Analysis, table 2.4.1: n of each group for power .80 at a two-sided .05.
    needed = seeds_needed(_design(SEEDS_ALONE), difference=difference)
    assert needed == pytest.approx(published, abs=1)


def test_one_model_of_each_arm_is_millers_formula() -> None:
    # Miller (arXiv 2411.00640): n = (z_a/2 + z_b)^2 (omega^2 + s_A^2 / K + s_B^2 / K) / delta^2, here with
    # omega^2 = 1/9, s^2 = 1/6, K = 4 and n = 2,000.
    variance = VarianceSplit(seed=0.5, task=1 / 9, seed_task=0.0, episode=1 / 6)
    design = Design(
        num_seeds=1, num_tasks=2_000, num_episodes=4, variance=variance, arm_correlation=0.5, over_seeds=False
    )
    quantiles = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    expected = quantiles * math.sqrt((1 / 9 + 2 * (1 / 6) / 4) / 2_000)
    assert detectable_difference(design) == pytest.approx(expected, rel=2e-3)


def test_given_models_the_power_is_that_of_statsmodels_paired_t_test() -> None:
    design = _design(num_tasks=40, over_seeds=False)
    deviation = design.error * math.sqrt(40)
    for difference in (0.01, 0.05, 0.1):
        expected = TTestPower().power(effect_size=difference / deviation, nobs=40, alpha=0.05)
        assert power(design, difference=difference) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("wanted", [0.5, 0.8, 0.95])
def test_the_detectable_difference_has_the_wanted_power(wanted: float) -> None:
    difference = detectable_difference(_design(), wanted_power=wanted)
    assert power(_design(), difference=difference) == pytest.approx(wanted, abs=1e-3)


def test_the_seeds_needed_are_the_fewest() -> None:
    needed = seeds_needed(_design(), difference=0.08)
    assert needed is not None
    assert (
        power(_design(num_seeds=needed), difference=0.08) >= 0.8 > power(_design(num_seeds=needed - 1), difference=0.08)
    )


def test_no_number_of_seeds_makes_up_for_too_few_tasks() -> None:
    few = _design(num_tasks=20)
    assert seeds_needed(few, difference=0.05) is None
    # What is left at endless seeds: 2 * task * (1 - correlation) / tasks.
    assert _design(num_tasks=20, num_seeds=10**6).error == pytest.approx(math.sqrt(2 * 0.1 * 0.2 / 20), rel=1e-3)


def test_a_difference_of_nothing_is_found_at_the_error_rate() -> None:
    assert power(_design(num_seeds=500, num_tasks=5_000), difference=0.0) == pytest.approx(0.05, abs=2e-3)
    assert power(_design(over_seeds=False), difference=0.0, error_rate=0.01) == pytest.approx(0.01)


@given(st.integers(3, 20), st.integers(20, 300), st.integers(1, 10))
def test_more_of_anything_detects_less(num_seeds: int, num_tasks: int, num_episodes: int) -> None:
    design = _design(num_seeds=num_seeds, num_tasks=num_tasks, num_episodes=num_episodes)
    difference = detectable_difference(design)
    assert difference > 0
    for more in ({"num_seeds": num_seeds * 2}, {"num_tasks": num_tasks * 2}, {"num_episodes": num_episodes * 2}):
        assert detectable_difference(replace(design, **more)) < difference * 1.02


def test_what_is_unknown_or_below_zero_counts_nothing() -> None:
    unknown = VarianceSplit(seed=math.nan, task=0.1, seed_task=-0.1, episode=math.nan)
    assert _design(unknown).error == pytest.approx(math.sqrt(2 * 0.1 * 0.2 / 200))
    nothing = VarianceSplit(seed=0, task=0, seed_task=0, episode=0)
    assert detectable_difference(_design(nothing)) == 0
    assert (power(_design(nothing), difference=0.1), power(_design(nothing), difference=0.0)) == (1.0, 0.0)


def _draw(rng: np.random.Generator, design: Design, difference: float) -> tuple[ScoreTable, ScoreTable]:
    variance, seeds, tasks = design.variance, design.num_seeds, design.num_tasks
    correlation = np.array([[1, design.arm_correlation], [design.arm_correlation, 1]])
    means = rng.multivariate_normal([0, difference], correlation * variance.task, size=tasks)
    tables = []
    for arm in (0, 1):
        values = means[None, :, arm, None] + rng.normal(size=(seeds, 1, 1)) * variance.seed**0.5
        values = values + rng.normal(size=(seeds, tasks, 1)) * variance.seed_task**0.5
        values = values + rng.normal(size=(seeds, tasks, design.num_episodes)) * variance.episode**0.5
        tables.append(ScoreTable(values=values, tasks=tuple(str(task) for task in range(tasks))))
    return tables[0], tables[1]


@pytest.mark.parametrize(("num_seeds", "num_tasks"), [(5, 50), (10, 100)])
def test_simulated_experiments_find_the_detectable_difference_as_often_as_wanted(
    num_seeds: int, num_tasks: int
) -> None:
    rng, num_runs, found = np.random.default_rng(0), 500, 0
    design = _design(num_seeds=num_seeds, num_tasks=num_tasks)
    difference = detectable_difference(design)
    for _ in range(num_runs):
        before, after = _draw(rng, design, difference)
        interval = method_difference(before, after=after)
        found += interval.low > 0 or interval.high < 0
    assert 0.72 <= found / num_runs <= 0.88


def test_the_correlation_between_arms_is_found_under_the_noise() -> None:
    rng, design = np.random.default_rng(1), _design(num_seeds=3, num_tasks=3_000, arm_correlation=0.6)
    before, after = _draw(rng, design, 0.1)
    assert correlation_between_arms(before, after) == pytest.approx(0.6, abs=0.05)
    assert correlation_between_arms(before, before) == pytest.approx(1.0)
    plain = np.corrcoef(before.task_means, after.task_means)[0, 1]
    assert plain < 0.55
    flat = ScoreTable(values=np.ones((2, 3, 1)), tasks=("a", "b", "c"))
    assert correlation_between_arms(flat, flat) == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_seeds": 1}, "`num_seeds` to be at least 2, but got 1"),
        ({"num_seeds": 0, "over_seeds": False}, "`num_seeds` to be at least 1, but got 0"),
        ({"num_tasks": 1}, "`num_tasks` to be at least 2, but got 1"),
        ({"num_episodes": 0}, "`num_episodes` to be at least 1, but got 0"),
        ({"arm_correlation": 1.5}, r"`arm_correlation` to be within \[-1, 1\], but got 1.5"),
        ({"arm_correlation": math.nan}, "`arm_correlation`"),
    ],
)
def test_designs_that_cannot_be_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _design(**changes)


def test_rates_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="`error_rate` to be between 0 and 1, but got 5"):
        power(_design(), difference=0.1, error_rate=5)
    with pytest.raises(ConfigError, match="`wanted_power` to be between 0 and 1, but got 1"):
        detectable_difference(_design(), wanted_power=1)
    with pytest.raises(ConfigError, match="`wanted_power`"):
        seeds_needed(_design(), difference=0.1, wanted_power=0)
    one = ScoreTable(values=np.ones((2, 1, 1)), tasks=("a",))
    with pytest.raises(DataError, match="at least two tasks that every seed scored, but got 1"):
        correlation_between_arms(one, one)
