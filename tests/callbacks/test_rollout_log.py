import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.fixtures.episodes import call, episode
from tests.fixtures.tiny_agents import grpo_module, policy_folder, trainer

from streakline.callbacks.mlflow_logger import RunLogger
from streakline.callbacks.rollout_log import RolloutLog
from streakline.errors import ConfigError
from streakline.modules.episode_rows import trajectory_to_json
from streakline.types import Group, Message, Role, Task, ToolSchema


def group(name, rewards, *, content="hi"):
    task = Task(
        id=f"test/{name}",
        source="test",
        kind="words",
        tools=(ToolSchema(name="look_up"),),
        requests=((Message(role=Role.USER, content=content),),),
    )
    members = tuple(
        replace(
            episode(task, [[[call("look_up")]]], group_member=member),
            reward=reward,
            messages=(Message(role=Role.USER, content=content),),
        )
        for member, reward in enumerate(rewards)
    )
    return Group(task=task, trajectories=members, all_rewards=tuple(rewards))


class _Store(RunLogger):
    """Keeps names alone, in no store."""

    def __init__(self):
        self.files = []

    def log_file(self, path, artifact_folder):
        self.files.append((Path(path).name, artifact_folder))


@pytest.fixture
def module(tmp_path):
    trainer = SimpleNamespace(default_root_dir=str(tmp_path), is_global_zero=True, loggers=[_Store()])
    return SimpleNamespace(trainer=trainer)


def rows(tmp_path, number):
    path = tmp_path / "trajectories" / f"train-{number:06d}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_groups_pass_unchanged(module):
    groups = [group("a", [0.0, 1.0]), group("b", [1.0, 1.0])]
    assert RolloutLog().select_groups(module, groups) is groups


def test_best_and_worst_of_the_groups_with_most_contrast_are_written(module, tmp_path):
    groups = [group("same", [1.0, 1.0, 1.0]), group("mixed", [0.5, 1.0, 0.0]), group("unscored", [None, None])]
    RolloutLog(num_groups=1).select_groups(module, groups)
    assert [(row["task_id"], row["reward"]) for row in rows(tmp_path, 0)] == [("test/mixed", 1.0), ("test/mixed", 0.0)]
    assert module.trainer.loggers[0].files == [("train-000000.jsonl", "trajectories")]


def test_only_each_nth_batch_is_written_and_a_resumed_run_goes_on_counting(module, tmp_path):
    log = RolloutLog(every_n_rollouts=2)
    for _ in range(3):
        log.select_groups(module, [group("a", [0.0, 1.0])])
    resumed = RolloutLog(every_n_rollouts=2)
    resumed.load_state_dict(json.loads(json.dumps(log.state_dict())))
    for _ in range(2):
        resumed.select_groups(module, [group("a", [0.0, 1.0])])
    names = sorted(path.name for path in (tmp_path / "trajectories").iterdir())
    assert names == ["train-000000.jsonl", "train-000002.jsonl", "train-000004.jsonl"]


def test_it_can_be_switched_off(module, tmp_path):
    RolloutLog(every_n_rollouts=0).select_groups(module, [group("a", [0.0, 1.0])])
    assert list(tmp_path.iterdir()) == []


def test_a_huge_trajectory_is_left_out(module, tmp_path):
    groups = [group("huge", [0.0, 1.0], content="x" * 5000), group("small", [0.4, 0.6])]
    RolloutLog(max_chars=3000).select_groups(module, groups)
    assert {row["task_id"] for row in rows(tmp_path, 0)} == {"test/small"}


def test_a_module_that_acts_gives_the_tokens_as_text_where_they_fit(tmp_path):
    agent = grpo_module(policy_folder(tmp_path / "policy"))
    agent.trainer = trainer(tmp_path)
    one = group("a", [0.0, 1.0])
    bare = len(json.dumps(trajectory_to_json(one.task, one.trajectories[0])))
    for max_chars, has_text in ((10 * bare, True), (bare, False)):
        RolloutLog(max_chars=max_chars).select_groups(agent, [one])
        assert [("samples" in row) for row in rows(tmp_path, 0)] == [has_text] * 2


def test_a_file_stays_within_ten_rows_of_the_largest_size(module, tmp_path):
    groups = [group(str(index), [0.0, 1.0], content="x" * 1000) for index in range(40)]
    RolloutLog(num_groups=40, max_chars=2000).select_groups(module, groups)
    assert 15_000 < (tmp_path / "trajectories" / "train-000000.jsonl").stat().st_size <= 21_000


def test_nothing_is_written_by_other_processes_or_without_groups(module, tmp_path):
    RolloutLog().select_groups(module, [])
    module.trainer.is_global_zero = False
    RolloutLog().select_groups(module, [group("a", [0.0, 1.0])])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["every_n_rollouts", "num_groups", "max_chars"])
def test_numbers_out_of_range_are_refused(option):
    with pytest.raises(ConfigError, match=f"Expected `rollout_log.{option}` to be at least"):
        RolloutLog(**{option: -1})
