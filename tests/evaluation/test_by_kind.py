"""Per-kind changes against McNemar's exact test and Holm's published procedure."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar

from streakline.errors import ConfigError, DataError
from streakline.evaluation.by_kind import changes_by_kind, sign_flip_p_value


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


def _tasks(kind: str, pairs: list[tuple[float, float]]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    before = {f"{kind}/{i}": [first] for i, (first, _) in enumerate(pairs)}
    after = {f"{kind}/{i}": [second] for i, (_, second) in enumerate(pairs)}
    return before, after


def test_a_kind_that_falls_on_most_tasks_is_found_among_kinds_that_rise() -> None:
    before: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    for kind, pairs in {
        "falls": [(1.0, 0.0)] * 12 + [(1.0, 1.0)] * 3,
        "rises": [(0.0, 1.0)] * 14,
        "still": [(1.0, 1.0)] * 5 + [(0.0, 1.0), (1.0, 0.0)],
    }.items():
        first, second = _tasks(kind, pairs)
        before |= first
        after |= second
    changes = changes_by_kind(before, after, kinds={task: task.split("/")[0] for task in before})
    assert [change.kind for change in changes] == ["falls", "rises", "still"]
    assert [change.fell for change in changes] == [True, False, False]
    assert [change.rose for change in changes] == [False, True, False]
    assert changes[0].num_tasks == 15
    assert changes[0].difference == pytest.approx(-0.8)


def test_the_correction_is_holms() -> None:
    # Holm: sorted p times (m, m - 1, ..., 1), then the running maximum.
    kinds = {"a": 8, "b": 6, "c": 5, "d": 3}  # this many losses, no win: p = 2 / 2^n
    before: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    for kind, losses in kinds.items():
        first, second = _tasks(kind, [(1.0, 0.0)] * losses)
        before |= first
        after |= second
    changes = changes_by_kind(before, after, kinds={task: task.split("/")[0] for task in before})
    p_values = np.array([2 / 2**losses for losses in kinds.values()])
    expected = np.minimum(1, np.maximum.accumulate(p_values * np.array([4, 3, 2, 1])))
    assert [change.p_value for change in changes] == pytest.approx(p_values)
    assert [change.p_corrected for change in changes] == pytest.approx(expected)
    assert [change.fell for change in changes] == [True, False, False, False]


def test_luck_alone_is_called_significant_at_most_at_the_error_rate() -> None:
    rng = np.random.default_rng(2)
    num_runs = 300
    alarms = sum(sign_flip_p_value(rng.normal(size=12), num_resamples=199, seed=run) <= 0.05 for run in range(num_runs))
    assert alarms / num_runs <= 0.05 + 3 * (0.05 * 0.95 / num_runs) ** 0.5


def test_kinds_without_a_scored_task_are_left_out() -> None:
    changes = changes_by_kind({"a": [1.0], "b": []}, {"a": [1.0], "b": [1.0]}, kinds={"a": "x", "b": "y"})
    assert [change.kind for change in changes] == ["x"]
    assert changes_by_kind({}, {}, kinds={}) == ()


def test_a_task_without_a_kind_is_refused() -> None:
    with pytest.raises(DataError, match="kind for every task, but got none for 'b'"):
        changes_by_kind({"a": [1.0], "b": [1.0]}, {"a": [1.0], "b": [1.0]}, kinds={"a": "x"})


def test_the_error_rate_must_be_a_probability() -> None:
    with pytest.raises(ConfigError, match="`error_rate`"):
        changes_by_kind({}, {}, kinds={}, error_rate=1.0)
