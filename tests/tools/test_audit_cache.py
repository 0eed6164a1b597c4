"""The command that audits a cache."""

import json
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from streakline.cache.store import CacheStore
from streakline.data.cache_build import BuildReport, record_gold
from streakline.data.conversations import message_to_json
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Message, Role


def tasks(*sets):
    return json.dumps(
        [{"class_path": "streakline.tasks.toolworld.ToolWorldTaskSet", "init_args": each} for each in sets]
    )


VALIDATION, TRAIN = {"size": 17, "split": "validation"}, {"size": 17, "split": "train"}
HELD_OUT = tasks(VALIDATION)
NO_CALLS = tasks({"size": 3, "split": "train", "kinds": ["missing_tool"], "user_turns": [1]})


@pytest.fixture
def cache(tmp_path):
    with CacheStore.open(tmp_path / "c.db") as store:
        list(record_gold(store, ToolWorldTaskSet(17, split="train").tasks(), report=BuildReport()))
    return tmp_path / "c.db"


@pytest.fixture
def run(load_tool, monkeypatch):
    """Runs the command in this process."""

    def main(*arguments):
        monkeypatch.setattr(sys, "argv", ["audit_cache.py", "--mlflow=false", *map(str, arguments)])
        load_tool("audit_cache").main()

    return main


def test_an_audit_leaves_tables_figures_a_picture_and_calls_also_in_mlflow(cache, run, mlflow_store, capsys):
    run("--cache", cache, f"--tasks={tasks(VALIDATION, TRAIN)}", "--run.name=one", "--mlflow=true")
    folder = Path("mlruns/audit/one")
    assert (folder / "audit.md").read_text().strip() in capsys.readouterr().out
    found = json.loads((folder / "audit.json").read_text())
    rows = [json.loads(line) for line in (folder / "audit_calls.jsonl").read_text().splitlines()]
    assert sum(found["overall"]["calls"].values()) == len(rows) > 10
    exact = [row["is_live"] for row in rows if row["tier"] == "exact"]
    assert all(row["served"] == row["live"] for row in rows if row["tier"] == "exact")
    assert found["overall"]["calls"]["exact"] == len(exact)
    assert list(map(float, found["sweep"])) == pytest.approx([0.4 + 0.05 * n for n in range(13)])
    client, run_id = MlflowClient(mlflow_store), (folder / "mlflow_run_id").read_text()
    assert {Path(item.path).name for item in client.list_artifacts(run_id, "audit")} == {
        "audit.md",
        "audit.json",
        "audit.png",
        "audit_calls.jsonl",
    }
    logged = client.get_run(run_id).data.metrics
    assert logged["calls/exact"] == pytest.approx(len(exact) / len(rows))
    assert [item.step for item in client.get_metric_history(run_id, "sweep/calls/fuzzy")] == list(range(40, 101, 5))


def test_the_tasks_that_the_cache_was_made_from_are_served_exactly_and_pointed_out(cache, run, capsys):
    run("--cache", cache, f"--tasks={tasks(TRAIN)}")
    shown = capsys.readouterr().out
    assert "Known to the cache: 17 tasks, such as toolworld/train/short/0/0" in shown
    assert not (Path("mlruns") / "mlflow.db").exists()
    found = json.loads(Path("mlruns/audit/run/audit.json").read_text())
    assert set(found["overall"]["calls"]) == set(found["overall"]["episodes"]) == {"exact"}
    assert found["overall"]["fidelity"]["rollouts"]["estimate"] == 1.0


def test_what_an_agent_called_is_audited_in_place_of_gold_and_bad_lines_are_named(cache, run, tmp_path, capsys):
    task = next(task for task in ToolWorldTaskSet(17, split="validation") if task.gold[0])
    asked = Message(role=Role.ASSISTANT, tool_calls=task.gold[0][0])
    answers = [Message(role=Role.TOOL, content="...")] * len(asked.tool_calls)
    system = [Message(role=Role.SYSTEM, content=task.system)] if task.system else []
    messages = [message_to_json(item) for item in (*system, *task.requests[0], asked, *answers)]
    (tmp_path / "e.jsonl").write_text(json.dumps({"task_id": task.id, "messages": messages}) + "\n{\n")
    run("--cache", cache, f"--tasks={HELD_OUT}", "--episodes", tmp_path / "e.jsonl")
    shown = capsys.readouterr().out
    assert "in 1 rollouts of 1 tasks" in shown
    assert f"Skipped: Expected a JSON object in {tmp_path}/e.jsonl, line 2" in shown
    rows = [json.loads(line) for line in Path("mlruns/audit/run/audit_calls.jsonl").read_text().splitlines()]
    assert [row["tool"] for row in rows] == [item.name for item in task.gold[0][0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cache=none.db", f"--tasks={HELD_OUT}"], "Expected `none.db` to be a tool cache, but got no such file"),
        (["--cache=c.db"], "Expected held-out episodes in 0 tasks and 0 files, but got none"),
        (
            ["--cache=c.db", f"--tasks={HELD_OUT}", "--episodes", "bad.jsonl"],
            "but got none: Skipped: Expected a JSON object",
        ),
        (["--cache=c.db", f"--tasks={HELD_OUT}", "--episodes", "none.jsonl"], "Expected a readable file at none.jsonl"),
        (["--cache=c.db", f"--tasks={HELD_OUT}", "--min_fidelity=2"], "Expected `min_fidelity` to be in (0, 1]"),
        (["--cache=c.db", f"--tasks={HELD_OUT}", "--thresholds", "0.5", "2"], "Expected `threshold` to be in (0, 1]"),
        (
            ["--cache=c.db", f"--tasks={tasks({'size': -1, 'split': 'train'})}"],
            "Expected `size` to be at least 0, but got -1",
        ),
    ],
)
def test_bad_input_is_one_line(cache, run, options, message):
    Path("bad.jsonl").write_text("{\n")
    with pytest.raises(SystemExit) as stopped:
        run(*options)
    assert str(stopped.value).startswith("error: ")
    assert message in str(stopped.value)
    assert "\n" not in str(stopped.value)
