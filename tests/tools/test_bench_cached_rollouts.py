"""The benchmark of a rollout step with and without a cache."""

import numpy as np
import pytest
from scipy.stats import f_oneway

from streakline.cache.store import CacheStore
from streakline.data.cache_build import BuildReport, record_gold
from streakline.tasks.toolworld import ToolWorldTaskSet


def test_the_correlation_of_a_group_follows_from_the_f_statistic(load_tool):
    icc = load_tool("bench/cached_rollouts").icc
    rewards = np.random.default_rng(3).random((7, 5)) + np.arange(7)[:, None] / 5
    f = f_oneway(*rewards).statistic
    assert icc(rewards) == pytest.approx((f - 1) / (f + 4))
    assert icc(np.array([[1.0, 1.0], [0.0, 0.0]])) == 1
    assert icc(np.array([[0.0, 1.0], [1.0, 0.0]])) == -1
    assert np.isnan(icc(np.ones((3, 2))))


def test_draws_are_compared_on_the_same_tasks(load_tool, monkeypatch):
    bench = load_tool("bench/cached_rollouts")
    drawn = {
        "shared": {"recorded": np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]]), "inexact": np.array([[1.0, 0.0]])},
        "independent": {"recorded": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), "inexact": np.array([[1.0, 0.0]])},
    }
    monkeypatch.setattr(bench, "drawn_rewards", lambda loop, cache, draw, tasks: dict(drawn[draw]))
    figures = bench.compare_draws(None, None, tasks=range(3))
    assert figures["inexact_episodes"] == 0.5
    assert figures["recorded_icc_independent"] == -1
    assert figures["recorded_icc_difference"] == figures["recorded_icc_shared"] + 1 > 1
    assert figures["recorded_icc_difference_low"] <= figures["recorded_icc_difference"]
    assert figures["recorded_icc_difference"] <= figures["recorded_icc_difference_high"]
    assert figures["recorded_zero_variance_shared"] == pytest.approx(2 / 3)
    assert figures["recorded_zero_variance_independent"] == 0


def test_a_small_run_reports_every_figure(run_bench, tmp_path):
    with CacheStore.open(tmp_path / "c.db") as store:
        list(record_gold(store, ToolWorldTaskSet(2, split="train", seed=1).tasks(), report=BuildReport()))
    options = ("--cache", tmp_path / "c.db", "--tasks", 2, "--draw-tasks", 3, "--latencies", 0)
    figures, printed = run_bench("cached_rollouts", *options)
    assert figures["seconds_frozen_0s"] > 0
    assert figures["seconds_live_0s"] > 0
    assert {f"{name}_icc_difference" for name in ("recorded", "replayed")} <= figures.keys()
    assert "| live | 0 |" in printed
