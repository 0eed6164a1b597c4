"""Per-kind changes against Holm's published procedure."""

from __future__ import annotations

import numpy as np
import pytest

from streakline.errors import ConfigError, DataError
from streakline.evaluation.by_kind import changes_by_kind


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
