"""The scores of one arm over seeds, tasks and episodes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streakline.errors import DataError
from streakline.evaluation.score_table import ScoreTable

NAN = math.nan


def test_runs_become_seeds_by_tasks_by_episodes_with_unscored_ones_counted() -> None:
    table = ScoreTable.from_runs([{"b": [1.0, None, 0.0], "a": [1.0]}, {"a": [NAN, 0.0], "b": [1.0]}])
    assert table.tasks == ("a", "b")
    np.testing.assert_array_equal(
        table.values, [[[1.0, NAN, NAN], [1.0, NAN, 0.0]], [[NAN, 0.0, NAN], [1.0, NAN, NAN]]]
    )
    assert table.num_unscored == 2
    np.testing.assert_array_equal(table.counts, [[1, 2], [1, 1]])
    np.testing.assert_array_equal(table.means, [[1.0, 0.5], [0.0, 1.0]])
    np.testing.assert_array_equal(table.task_means, [0.5, 0.75])
    np.testing.assert_array_equal(table.seed_means, [0.75, 0.5])


def test_each_seed_weighs_the_same_however_many_episodes_it_has() -> None:
    table = ScoreTable.from_runs([{"a": [1.0] * 9}, {"a": [0.0]}])
    assert table.task_means.tolist() == [0.5]


def test_seeds_are_compared_on_the_tasks_that_all_of_them_scored() -> None:
    table = ScoreTable.from_runs([{"a": [1.0], "b": [0.0], "c": []}, {"a": [1.0], "b": [None], "c": [1.0]}])
    assert table.complete.tolist() == [True, False, False]
    assert table.seed_means.tolist() == [1.0, 1.0]
    assert table.task_means.tolist() == [1.0, 0.0, 1.0]


def test_what_nobody_scored_is_nan_without_a_warning() -> None:
    table = ScoreTable.from_runs([{"a": [], "b": [None]}])
    assert np.isnan(table.means).all()
    assert np.isnan(table.task_means).all()
    assert np.isnan(table.seed_means).all()


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "`runs` to hold a run with a task at least, but got 0"),
        ([{}], "`runs` to hold a run with a task at least, but got 1"),
        ([{"a": [1.0]}, {"b": [1.0]}], "`runs` to be of the same tasks, but got 'a' not in 0 and 1"),
        ([{"a": ["right"]}], "`runs` to hold numbers or None, but got other scores"),
        ([{"a": [math.inf]}], "`values` to be finite or nan, but got an infinite score"),
    ],
)
def test_bad_runs_are_refused(runs: list[dict[str, list[float | None]]], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        ScoreTable.from_runs(runs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "tasks", "message"),
    [
        (
            np.zeros((2, 3)),
            ("a", "b"),
            r"`values` to be float64 of \[seeds, tasks, episodes\] .* got float64 of \(2, 3\)",
        ),
        (np.zeros((1, 2, 3), dtype=np.int64), ("a", "b"), "got int64 of"),
        (np.zeros((0, 2, 3)), ("a", "b"), r"got float64 of \(0, 2, 3\)"),
        (np.zeros((1, 2, 3)), ("a",), "`tasks` to be 2 different ids, but got 1"),
        (np.zeros((1, 2, 3)), ("a", "a"), r"`tasks` to be 2 different ids, but got 2 \(1 different\)"),
    ],
)
def test_bad_arrays_are_refused(values: np.ndarray, tasks: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ScoreTable(values=values, tasks=tasks)
