"""The command that compares a judge with labels."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def calibrate(*arguments):
    command = [sys.executable, ROOT / "tools" / "calibrate_judge.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_example_works_offline(tmp_path):
    labels, judge = ROOT / "data" / "judge_labels.jsonl", ROOT / "configs" / "judge" / "offline_panel.yaml"

    done = calibrate("--labels", labels, "--judge", judge, "--json", tmp_path / "new" / "figures.json")

    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert "Between judges" in done.stdout
    assert "1. ExactAnswer" in json.loads((tmp_path / "new" / "figures.json").read_text())["against_labels"]


def test_a_missing_file_is_one_line(tmp_path):
    done = calibrate("--labels", tmp_path / "none.jsonl", "--judge", ROOT / "configs" / "judge" / "f1.yaml")

    assert done.returncode == 1
    assert done.stderr.startswith("error: Expected a readable file at")
    assert len(done.stderr.splitlines()) == 1
