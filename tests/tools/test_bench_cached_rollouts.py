"""The benchmark of a rollout step with and without a cache."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import f_oneway

from streakline.cache.store import CacheStore
from streakline.data.cache_build import BuildReport, record_gold
from streakline.tasks.toolworld import ToolWorldTaskSet

ROOT = Path(__file__).resolve().parents[2]


def test_the_correlation_of_a_group_follows_from_the_f_statistic(load_tool):
    icc = load_tool("bench/cached_rollouts").icc
    rewards = np.random.default_rng(3).random((7, 5)) + np.arange(7)[:, None] / 5
    f = f_oneway(*rewards).statistic
    assert icc(rewards) == pytest.approx((f - 1) / (f + 4))
    assert icc(np.array([[1.0, 1.0], [0.0, 0.0]])) == 1
    assert icc(np.array([[0.0, 1.0], [1.0, 0.0]])) == -1
    assert np.isnan(icc(np.ones((3, 2))))


def test_a_small_run_reports_every_figure(tmp_path):
    with CacheStore.open(tmp_path / "c.db") as store:
        list(record_gold(store, ToolWorldTaskSet(2, split="train", seed=1).tasks(), report=BuildReport()))
    command = [sys.executable, ROOT / "tools" / "bench" / "cached_rollouts.py", "--cache", tmp_path / "c.db"]
    options = ["--tasks", "2", "--draw-tasks", "3", "--latencies", "0", "--json", tmp_path / "out.json"]
    done = subprocess.run(
        [*map(str, command), *map(str, options)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "out.json").read_text())["figures"]
    assert figures["seconds_frozen_0s"] > 0
    assert figures["seconds_live_0s"] > 0
    for name in ("recorded", "replayed"):
        low, difference, high = (figures[f"{name}_icc_difference{part}"] for part in ("_low", "", "_high"))
        assert difference is None or low <= difference <= high
    assert "| live | 0 |" in done.stdout
