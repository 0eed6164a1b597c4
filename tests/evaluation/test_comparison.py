"""Comparison of two score files."""

from __future__ import annotations

import pytest

from streakline.errors import DataError
from streakline.evaluation.comparison import compare_scores
from streakline.metrics.held_out import HeldOutScore


def _scores(kind: str, sampled: list[tuple[float, ...]], greedy: list[float | None]) -> list[HeldOutScore]:
    return [
        HeldOutScore(task_id=f"{kind}/{index}", kind=kind, sampled=episodes, greedy=choice)
        for index, (episodes, choice) in enumerate(zip(sampled, greedy, strict=True))
    ]


def test_both_ways_of_decoding_are_compared_on_their_own() -> None:
    before = _scores("move", [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)], [0.0, 0.0, 1.0])
    after = _scores("move", [(0.0, 1.0), (1.0, 1.0), (1.0, 1.0)], [1.0, 0.0, 1.0])
    comparison = compare_scores(before, after)
    assert comparison.sampled.before.estimate == pytest.approx(0.5)
    assert comparison.sampled.after.estimate == pytest.approx(5 / 6)
    assert comparison.sampled.difference.estimate == pytest.approx(1 / 3)
    assert comparison.greedy.difference.estimate == pytest.approx(1 / 3)
    assert [change.kind for change in comparison.greedy.kinds] == ["move"]


def test_a_kind_counts_as_fallen_when_either_way_of_decoding_fell() -> None:
    count = 10
    before = _scores("move", [(1.0,)] * count, [1.0] * count) + _scores("copy", [(0.5,)] * count, [1.0] * count)
    after = _scores("move", [(1.0,)] * count, [1.0] * count) + _scores("copy", [(0.5,)] * count, [0.0] * count)
    comparison = compare_scores(before, after)
    assert comparison.sampled.kinds_fallen == ()
    assert comparison.greedy.kinds_fallen == ("copy",)
    assert comparison.kinds_fallen == ("copy",)


def test_a_task_that_changed_its_kind_is_refused() -> None:
    before, after = _scores("move", [(1.0,)], [1.0]), _scores("copy", [(1.0,)], [1.0])
    renamed = [
        HeldOutScore(task_id="move/0", kind="copy", sampled=score.sampled, greedy=score.greedy) for score in after
    ]
    with pytest.raises(DataError, match="same kind of 'move/0'"):
        compare_scores(before, renamed)


def test_different_tasks_are_refused() -> None:
    with pytest.raises(DataError, match="same tasks before and after"):
        compare_scores(_scores("move", [(1.0,)] * 2, [1.0] * 2), _scores("move", [(1.0,)] * 3, [1.0] * 3))
