"""Puts a finished quickstart together from the folders of its two runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from streakline.errors import DataError
from streakline.evaluation.comparison import compare_scores
from streakline.evaluation.episodes import read_greedy_episodes
from streakline.evaluation.quickstart_report import Corruption, QuickstartRun
from streakline.evaluation.run_metrics import mean_in_first_epoch, read_metric, seconds_by_part
from streakline.evaluation.scores import read_scores
from streakline.evaluation.stories import choose_stories, tell_story
from streakline.tasks.toolworld import HABITS, ToolWorldTaskSet

_Config: TypeAlias = "dict[str, Any]"


def collect_run(
    *, sft: Path, grpo: Path, seed: int, arm: str, stage_seconds: Mapping[str, float], store: str
) -> QuickstartRun:
    """Read scores, metrics and shares of wrong demonstrations from the folders of two runs tested on the same tasks.

    Raises:
        DataError: If a file is missing or malformed, or the tasks differ.
    """
    run_id = _read(grpo / "mlflow_run_id").strip()
    zero_variance = read_metric("train/zero_variance", run_id=run_id, store=store)
    return QuickstartRun(
        seed=seed,
        arm=arm,
        comparison=compare_scores(read_scores(sft / "test_scores.jsonl"), read_scores(grpo / "test_scores.jsonl")),
        stage_seconds=stage_seconds,
        grpo_seconds=seconds_by_part(run_id=run_id, store=store),
        zero_variance_first_epoch=mean_in_first_epoch(
            zero_variance, epochs=read_metric("epoch", run_id=run_id, store=store)
        ),
        corruptions=_corruptions(_config(sft / "config.yaml")),
    )


def collect_stories(run: QuickstartRun, *, sft: Path, grpo: Path) -> list[str]:
    """Tell at most two tasks that the greedy policy got wrong after SFT and right after GRPO.

    Raises:
        DataError: If a file is missing or malformed.
    """
    before = read_greedy_episodes(sft / "trajectories" / "test.jsonl")
    after = read_greedy_episodes(grpo / "trajectories" / "test.jsonl")
    tasks = {task.id: task for task in _held_out_tasks(_config(grpo / "config-test.yaml")) if task.id in before}
    chosen = choose_stories(
        {task: before[task] for task in tasks},
        after,
        kinds={task.id: task.kind for task in tasks.values()},
        changes=run.comparison.greedy.kinds,
    )
    return [
        tell_story(
            tasks[task], before=before[task], after=after[task], corruption=run.corruptions.get(tasks[task].kind)
        )
        for task in chosen
    ]


def _held_out_tasks(config: _Config) -> ToolWorldTaskSet:
    test = config["data"]["init_args"]["test"]
    if not test["class_path"].endswith("ToolWorldTaskSet"):
        raise DataError(f"Expected `data.test` of a quickstart to be a ToolWorldTaskSet, but got {test['class_path']}")
    return ToolWorldTaskSet(**test["init_args"])


def _corruptions(config: _Config) -> dict[str, Corruption]:
    shares = config["data"]["init_args"]["train"]["init_args"]["habits"]
    return {
        kind: Corruption(
            habit=habit.name,
            description=habit.description,
            share=habit.share if shares is None else shares.get(kind, 0.0),
        )
        for kind, habit in HABITS.items()
    }


def _config(path: Path) -> _Config:
    try:
        config = yaml.safe_load(_read(path))
    except yaml.YAMLError as error:
        raise DataError(f"Expected YAML in {path}, but got: {str(error).splitlines()[0]}") from error
    if not isinstance(config, dict):
        raise DataError(f"Expected a configuration in {path}, but got {type(config).__name__}")
    return config


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"Expected {path} from a finished stage, but got: {error.strerror or error}") from error
