"""Two processes train what one trains, to rounding."""

from functools import partial
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from tests.fixtures.tiny_agents import grpo_module, policy_folder, task_data, task_set, trainer

from streakline.callbacks.down_sample import DownSampleRollouts
from streakline.callbacks.streak_filter import StreakFilter
from streakline.evaluation.scores import read_scores
from streakline.modules.grpo_config import GRPOConfig
from streakline.rewards.base import RewardTerm


class Dump(Callback):
    """Writes what the first process ends with, since the processes share no memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.is_global_zero:
            metrics = {name: float(value) for name, value in trainer.logged_metrics.items()}
            torch.save({"weights": module.model.state_dict(), "metrics": metrics}, self.path)


class SolvedTwo(RewardTerm):
    """Two tasks are always right; the trajectories of the others differ."""

    def score(self, task, trajectory):
        return float(task.id in {"test/train-0", "test/train-3"} or trajectory.group_member % 2)


def _module(folder, reward=None, **options):
    module = grpo_module(folder, reward=reward, grpo=GRPOConfig(group_size=4, micro_batch_tokens=200, **options))
    # SGD: AdamW turns rounding errors of a gradient near 0 into whole steps.
    module._make_optimizer = partial(torch.optim.SGD, lr=0.5)
    return module


def _on_one_and_two(folder, make_module, make_data, *, make_callbacks=tuple, **bound):
    """Weights and metrics of a run in one process, and of the same run in two, which must end with equal weights."""
    results = []
    for devices, strategy in ((1, "auto"), (2, "ddp_fork")):
        path = folder / f"{devices}.pt"
        run = trainer(folder, *make_callbacks(), Dump(path), devices=devices, strategy=strategy, **bound)
        run.fit(make_module(), datamodule=make_data())
        results.append(torch.load(path, weights_only=True))
    torch.testing.assert_close(results[1]["weights"], results[0]["weights"], atol=1e-6, rtol=1e-5)
    return results


@pytest.mark.slow
def test_two_processes_train_what_one_trains(tmp_path):
    folder = policy_folder(tmp_path / "policy")
    results = _on_one_and_two(tmp_path, partial(_module, folder), task_data, max_steps=2)
    for name, value in results[0]["metrics"].items():
        if name.startswith("train/") and "engine_gap" not in name:
            assert results[1]["metrics"][name] == pytest.approx(value, rel=1e-4, nan_ok=True), name


@pytest.mark.slow
def test_two_processes_skip_and_keep_what_one_does(tmp_path):
    options = {"loss": "grpo", "surrogate": "gspo", "engine_correction": "geometric"}
    results = _on_one_and_two(
        tmp_path,
        partial(_module, policy_folder(tmp_path / "policy"), reward=SolvedTwo(), **options),
        partial(task_data, size=8, batch_size=4),
        make_callbacks=lambda: (StreakFilter(k=1, probe_fraction=0.5), DownSampleRollouts("max_variance", keep=2)),
        max_epochs=2,
    )
    compared = [
        name for name in results[0]["metrics"] if name.startswith(("filter/", "down_sample/", "train/engine_k"))
    ]
    assert len(compared) == 6 + 8 + 4
    for name in compared:
        assert results[1]["metrics"][name] == pytest.approx(results[0]["metrics"][name], rel=1e-6, nan_ok=True), name
    assert results[0]["metrics"]["filter/skipped"] == 2


@pytest.mark.slow
def test_two_processes_score_every_task_once(tmp_path):
    folder = policy_folder(tmp_path / "policy")

    trainer(tmp_path, devices=2, strategy="ddp_fork").test(_module(folder), datamodule=task_data(), verbose=False)

    scores = read_scores(tmp_path / "test_scores.jsonl")
    assert sorted(score.task_id for score in scores) == sorted(task.id for task in task_set(3, prefix="test"))
