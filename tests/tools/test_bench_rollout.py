"""The benchmark of the engine beside `model.generate`."""

import json
from pathlib import Path

from matplotlib.image import imread

BASE = Path(__file__).resolve().parents[2] / "data" / "base"


def test_both_engines_write_the_same_episodes(load_tool, tmp_path, monkeypatch, capsys):
    options = {
        "model": BASE,
        "tasks": 2,
        "members": 2,
        "repetitions": 1,
        "long-length": 256,
        "long-prompts": 1,
        "long-turns": 2,
        "long-repetitions": 1,
    }
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    monkeypatch.setattr(
        "sys.argv",
        ["rollout.py", *arguments, "--json", str(tmp_path / "out.json"), "--picture", str(tmp_path / "a" / "out.png")],
    )
    load_tool("bench/rollout").main()
    figures = json.loads((tmp_path / "out.json").read_text())["figures"]
    assert figures.keys() == {"rollout_ratio_short", "rollout_ratio"}
    assert min(figures.values()) > 0
    printed = capsys.readouterr().out
    assert printed.count("100.0% equal episodes") == 2
    assert imread(tmp_path / "a" / "out.png").std() > 0
    assert "equal episodes of 2.0 turns" in printed
