"""The whole quickstart at a twentieth of its size, in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_quickstart_runs_and_reports(tmp_path: Path) -> None:
    command = [sys.executable, "tools/quickstart.py", "--seed", "1", "--scale", "0.05", "--root", str(tmp_path)]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=os.environ | {"PYTHONPATH": "src"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    stored = json.loads((tmp_path / "quickstart.json").read_text())
    figures = stored["figures"]
    assert figures["seed"] == 1
    assert stored["num_tasks"] == 16
    assert 0 <= figures["success_sft"] <= 1
    assert figures["difference"] == pytest.approx(figures["success_grpo"] - figures["success_sft"])
    assert figures["difference_low"] <= figures["difference"] <= figures["difference_high"]
    assert 0 <= figures["zero_variance_first_epoch"] <= 1
    assert figures["wall_seconds"] == pytest.approx(sum(stored["stage_seconds"].values()))
    assert stored["grpo_seconds"].keys() >= {"rollouts", "updates"}
    assert "Success on 16 held-out tasks" in done.stdout
    assert "mlflow ui --backend-store-uri sqlite:///" in done.stdout
    runs = tmp_path / "mlruns" / "quickstart"
    for name in ("sft-x0.05-seed1", "grpo-x0.05-seed1"):
        assert (runs / name / "checkpoints" / "last.ckpt").is_file()
        assert (runs / name / "export" / "model.safetensors").is_file()
