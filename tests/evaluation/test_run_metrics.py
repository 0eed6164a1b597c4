"""Metrics read back from an MLflow store."""

from __future__ import annotations

import math

import pytest

from streakline.errors import DataError
from streakline.evaluation.run_metrics import mean_in_first_epoch, read_metric, seconds_by_part


def test_a_metric_is_read_back_from_its_store(logged_run: tuple[str, str]) -> None:
    store, run_id = logged_run
    zero_variance = read_metric("train/zero_variance", run_id=run_id, store=store)
    assert zero_variance == ((0, 0.5), (1, 0.3), (2, 0.9))
    epochs = read_metric("epoch", run_id=run_id, store=store)
    assert mean_in_first_epoch(zero_variance, epochs=epochs) == pytest.approx(0.4)
    assert read_metric("absent", run_id=run_id, store=store) == ()


def test_seconds_are_summed_by_part_and_unused_parts_left_out(logged_run: tuple[str, str]) -> None:
    store, run_id = logged_run
    assert seconds_by_part(run_id=run_id, store=store) == {"rollouts": 6.0, "updates": 2.5}


def test_an_unknown_run_is_named(logged_run: tuple[str, str]) -> None:
    with pytest.raises(DataError, match="Expected MLflow run 0123 in sqlite"):
        read_metric("epoch", run_id="0123", store=logged_run[0])


def test_nothing_logged_in_the_first_epoch_is_no_number() -> None:
    assert math.isnan(mean_in_first_epoch(((5, 0.5),), epochs=((5, 1.0),)))
    assert math.isnan(mean_in_first_epoch((), epochs=()))
