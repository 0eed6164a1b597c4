"""How likely new seeds are to turn a ranking round, against closed forms and simulated repetitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streakline.errors import ConfigError, DataError
from streakline.evaluation.ranking import flip_probability, ranking_stability
from streakline.evaluation.score_table import ScoreTable


def _arm(seed_means: list[float] | np.ndarray) -> ScoreTable:
    """An arm of two tasks whose seeds have these means."""
    means = np.asarray(seed_means, dtype=np.float64)
    return ScoreTable(values=np.stack([means - 0.1, means + 0.1], axis=1)[..., None], tasks=("a", "b"))


def test_the_flip_by_hand() -> None:
    # Means .5 and .6, variance .01 both, 3 seeds each: scale sqrt(2 * .01 * (1 + 1/3)), 4 degrees of freedom.
    first, second = _arm([0.4, 0.5, 0.6]), _arm([0.5, 0.6, 0.7])
    expected = stats.t.sf(0.1 / math.sqrt(2 * 0.01 * 4 / 3), df=4)
    assert flip_probability(first, second) == pytest.approx(expected)
    assert flip_probability(second, first) == pytest.approx(expected)


def test_with_many_seeds_the_flip_is_that_of_two_known_normals() -> None:
    quantiles = stats.norm.ppf((np.arange(2_000) + 0.5) / 2_000)
    flip = flip_probability(_arm(0.5 + 0.03 * quantiles), _arm(0.54 + 0.04 * quantiles))
    assert flip == pytest.approx(stats.norm.sf(0.04 / math.hypot(0.03, 0.04)), abs=1e-3)


def test_more_new_seeds_flip_less() -> None:
    first, second = _arm([0.4, 0.5, 0.6]), _arm([0.5, 0.6, 0.7])
    flips = [flip_probability(first, second, num_seeds=count) for count in (1, 3, 30)]
    assert flips == sorted(flips, reverse=True)
    assert flips[0] > flips[-1]


def test_arms_that_tie_flip_half_the_time_and_arms_without_spread_never() -> None:
    assert flip_probability(_arm([0.4, 0.6]), _arm([0.5, 0.5])) == pytest.approx(0.5)
    assert flip_probability(_arm([0.4, 0.4]), _arm([0.5, 0.5])) == 0.0
    assert flip_probability(_arm([0.5, 0.5]), _arm([0.5, 0.5])) == 0.5


def test_pairing_by_seed_takes_out_what_the_seeds_share() -> None:
    first, second = _arm([0.3, 0.5, 0.7]), _arm([0.36, 0.55, 0.74])
    assert flip_probability(first, second, paired=True) < 0.03 < 0.3 < flip_probability(first, second)


def test_as_many_rankings_flip_as_are_predicted() -> None:
    rng, num_runs = np.random.default_rng(0), 3_000
    predicted, flipped = np.zeros(num_runs), np.zeros(num_runs)
    for run in range(num_runs):
        gap = rng.uniform(-0.6, 0.6)  # wide beside the spread, so that no gap is likelier than another
        seeds = [gap * arm + 0.05 * rng.normal(size=3) for arm in (0, 1)]
        new = [gap * arm + 0.05 * rng.normal() for arm in (0, 1)]
        predicted[run] = flip_probability(_arm(seeds[0]), _arm(seeds[1]))
        flipped[run] = (seeds[1].mean() - seeds[0].mean()) * (new[1] - new[0]) < 0
    assert predicted.mean() == pytest.approx(flipped.mean(), abs=0.02)
    unsure, sure = predicted > 0.2, predicted < 0.02
    assert predicted[unsure].mean() == pytest.approx(flipped[unsure].mean(), abs=0.06)
    assert flipped[sure].mean() < 0.03


def test_two_arms_change_places_as_often_as_they_flip() -> None:
    quantiles = stats.norm.ppf((np.arange(200) + 0.5) / 200)
    arms = {"low": _arm(0.5 + 0.03 * quantiles), "high": _arm(0.54 + 0.04 * quantiles)}
    stability = ranking_stability(arms)
    assert stability.order == ("high", "low")
    assert stability.means == pytest.approx((0.54, 0.5))
    assert stability.any_change == stability.best_changes
    assert stability.any_change == pytest.approx(flip_probability(arms["low"], arms["high"]), abs=0.01)


def test_the_best_may_be_safe_while_the_others_are_not() -> None:
    arms = {"a": _arm([0.50, 0.52, 0.54]), "b": _arm([0.51, 0.52, 0.53]), "c": _arm([0.9, 0.901, 0.902])}
    stability = ranking_stability(arms)
    assert stability.order[0] == "c"
    assert stability.best_changes < 0.02
    assert stability.any_change == pytest.approx(0.5, abs=0.02)
    assert ranking_stability(arms) == stability


def test_the_third_may_become_the_best() -> None:
    arms = {"a": _arm([0.60, 0.601, 0.602]), "b": _arm([0.55, 0.551, 0.552]), "c": _arm([0.3, 0.5, 0.7])}
    flip = flip_probability(arms["a"], arms["c"])
    assert flip > 0.3
    assert ranking_stability(arms).best_changes == pytest.approx(flip, abs=0.02)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5), st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_a_flip_is_at_most_as_likely_as_not_and_does_not_depend_on_order(
    first: list[float], second: list[float]
) -> None:
    flip = flip_probability(_arm(first), _arm(second))
    assert 0 <= flip <= 0.5
    assert flip_probability(_arm(second[::-1]), _arm(first[::-1])) == pytest.approx(flip, abs=1e-6)


def test_what_cannot_be_ranked_is_refused() -> None:
    with pytest.raises(DataError, match="at least two seeds and a task that all of them scored, but got 1 seeds"):
        flip_probability(_arm([0.5]), _arm([0.4, 0.6]))
    with pytest.raises(DataError, match="paired arms of equally many seeds, but got 2 and 3"):
        flip_probability(_arm([0.5, 0.6]), _arm([0.4, 0.5, 0.6]), paired=True)
    with pytest.raises(ConfigError, match="`num_seeds` to be at least 1, but got 0"):
        flip_probability(_arm([0.5, 0.6]), _arm([0.4, 0.6]), num_seeds=0)
    with pytest.raises(ConfigError, match="`arms` to be at least two, but got 1"):
        ranking_stability({"a": _arm([0.5, 0.6])})
    other = ScoreTable(values=np.ones((2, 2, 1)), tasks=("a", "c"))
    with pytest.raises(DataError, match="both arms to have the same `tasks`"):
        ranking_stability({"a": _arm([0.5, 0.6]), "b": other})
