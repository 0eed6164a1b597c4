"""A finished quickstart, put together from its folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from streakline.data.conversations import message_to_json
from streakline.errors import DataError
from streakline.evaluation.quickstart_report import figures, render_report
from streakline.evaluation.quickstart_run import collect_run, collect_stories
from streakline.tasks.toolworld import HABITS, ToolWorldTaskSet, demonstrate

TEST = {"size": 12, "split": "test", "seed": 7, "kinds": ["close_open_ticket", "open_ticket"]}
TASKS = ToolWorldTaskSet(**TEST).tasks()


def _write_jsonl(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _finish(folder: Path, *, shares: dict[str, float], run_id: str, habits: dict[str, float] | None) -> Path:
    """Leave in a folder what a run leaves whose greedy policy acts like demonstrations with these shares."""
    shown = [demonstrate(task, habits=shares) for task in TASKS]
    scores = [float(not demonstration.habit) for demonstration in shown]
    _write_jsonl(
        folder / "test_scores.jsonl",
        [
            {"task_id": task.id, "kind": task.kind, "sampled": [score, 0.0], "greedy": score}
            for task, score in zip(TASKS, scores, strict=True)
        ],
    )
    _write_jsonl(
        folder / "trajectories" / "test.jsonl",
        [
            {
                "task_id": demonstration.task.id,
                "messages": [message_to_json(message) for message in demonstration.messages],
                "reward": score,
                "decoding": "greedy",
            }
            for demonstration, score in zip(shown, scores, strict=True)
        ],
    )
    (folder / "mlflow_run_id").write_text(f"{run_id}\n")
    train = {"class_path": "ToolWorldDemonstrations", "init_args": {"habits": habits}}
    test = {"class_path": "streakline.tasks.toolworld.ToolWorldTaskSet", "init_args": TEST}
    (folder / "config.yaml").write_text(yaml.safe_dump({"data": {"init_args": {"train": train}}}))
    (folder / "config-test.yaml").write_text(yaml.safe_dump({"data": {"init_args": {"test": test}}}))
    return folder


@pytest.fixture
def folders(tmp_path: Path, logged_run: tuple[str, str]) -> dict[str, Path]:
    run_id = logged_run[1]
    return {
        "sft": _finish(tmp_path / "sft", shares={"close_open_ticket": 1.0}, run_id=run_id, habits=None),
        "grpo": _finish(tmp_path / "grpo", shares={}, run_id=run_id, habits=None),
    }


def _collect(folders: dict[str, Path], logged_run: tuple[str, str]):
    return collect_run(**folders, seed=4, arm="habits", stage_seconds={"SFT: train": 5.0}, store=logged_run[0])


def test_scores_metrics_and_shares_come_together(folders: dict[str, Path], logged_run: tuple[str, str]) -> None:
    run = _collect(folders, logged_run)
    values = figures(run)
    assert values["greedy_success_sft"] == 0.5
    assert values["greedy_success_grpo"] == 1.0
    assert values["difference"] == 0.25
    assert values["zero_variance_first_epoch"] == pytest.approx(0.4)
    assert values["wall_seconds"] == 5.0
    assert run.grpo_seconds == {"rollouts": 6.0, "updates": 2.5}
    assert {kind: corruption.share for kind, corruption in run.corruptions.items()} == {
        kind: habit.share for kind, habit in HABITS.items()
    }
    assert "close_open_ticket" in render_report(run)


def test_shares_given_in_the_config_replace_the_defaults(folders: dict[str, Path], logged_run: tuple[str, str]) -> None:
    config = yaml.safe_load((folders["sft"] / "config.yaml").read_text())
    config["data"]["init_args"]["train"]["init_args"]["habits"] = {"start_engine": 0.25}
    (folders["sft"] / "config.yaml").write_text(yaml.safe_dump(config))
    shares = {kind: corruption.share for kind, corruption in _collect(folders, logged_run).corruptions.items()}
    assert shares.pop("start_engine") == 0.25
    assert set(shares.values()) == {0.0}


def test_stories_tell_what_was_looked_up_after_and_not_before(
    folders: dict[str, Path], logged_run: tuple[str, str]
) -> None:
    stories = collect_stories(_collect(folders, logged_run), **folders)
    assert len(stories) == 2
    for story in stories:
        before, after = story.split("  after GRPO:")
        assert "close_open_ticket (toolworld/test/" in before
        assert "get_user_tickets" not in before.split("WRONG")[0]
        assert 'it never called get_user_tickets(status="Open")' in before
        assert 'calls get_user_tickets(status="Open")' in after
        assert "of the demonstrations of this kind show an agent that closes" in " ".join(after.split())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.yaml", None, r"Expected .*config\.yaml from a finished stage, but got: No such file"),
        ("config.yaml", "a: [", r"Expected YAML in .*config\.yaml"),
        ("config.yaml", "3", r"Expected a configuration in .*config\.yaml, but got int"),
        ("test_scores.jsonl", "", r"Expected .*test_scores\.jsonl to hold at least one row"),
    ],
)
def test_what_a_stage_did_not_leave_is_named(
    folders: dict[str, Path], logged_run: tuple[str, str], name: str, content: str | None, message: str
) -> None:
    if content is None:
        (folders["sft"] / name).unlink()
    else:
        (folders["sft"] / name).write_text(content)
    with pytest.raises(DataError, match=message):
        _collect(folders, logged_run)
