"""Train n = train k + kill + train n - k, bit for bit on a CPU."""

from functools import partial
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint
from tests.fixtures.tiny_agents import (
    demonstration_data,
    fit,
    grpo_module,
    policy_folder,
    sft_module,
    task_data,
)

from streakline.callbacks.down_sample import DownSampleRollouts
from streakline.callbacks.streak_filter import StreakFilter
from streakline.modules.grpo_config import GRPOConfig
from streakline.policy.config import LoraConfig, PolicyConfig
from streakline.rewards.base import RewardTerm

EPOCHS = 2


class KillError(Exception):
    """Stands for the end of the process."""


class Kill(Callback):
    """Ends the run inside a step: after `step` optimiser steps and their checkpoint, when the next batch has come."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step == self.step:
            raise KillError


def _schedule(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))


def _grpo(folder, updates=1, **options):
    config = GRPOConfig(group_size=4, updates_per_rollout=updates, micro_batch_tokens=600, **options)
    return grpo_module(folder, grpo=config, lr_scheduler=_schedule)


def _dropout(folder, make):
    # Adapters with dropout draw from torch's generator in every forward pass.
    policy = PolicyConfig(name_or_path=folder, init="random", lora=LoraConfig(r=4, dropout=0.5))
    return make(folder, policy=policy)


CASES = {
    "sft": (partial(sft_module, lr_scheduler=_schedule), demonstration_data),
    "sft with dropout": (partial(_dropout, make=sft_module), demonstration_data),
    "grpo": (_grpo, task_data),
    "grpo with a reference": (partial(_grpo, kl_coef=0.1), task_data),
    "grpo with two updates": (partial(_grpo, updates=2), task_data),
}


def _tasks(batches):
    """What came, in a form that can be compared."""
    return [
        batch.input_ids.tolist() if not isinstance(batch, list) else [item.id for item in batch] for batch in batches
    ]


def _untimed(metrics):
    return [{name: value for name, value in step.items() if not name.startswith("time/")} for step in metrics]


def _checkpoint(folder: Path) -> dict:
    # Plain types only, or this raises.
    return torch.load(folder / "last.ckpt", weights_only=True)


def _saver(folder: Path) -> ModelCheckpoint:
    return ModelCheckpoint(dirpath=folder, every_n_train_steps=1, save_top_k=0, save_last=True)


def _assert_equal(found: object, expected: object, where: str = "") -> None:
    """Bit by bit, through tensors and containers."""
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            _assert_equal(found[key], value, f"{where}/{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for index, value in enumerate(expected):
            _assert_equal(found[index], value, f"{where}/{index}")
    else:
        both_nan = found != found and expected != expected
        assert both_nan or found == expected, where


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return policy_folder(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def unbroken(folder, tmp_path_factory):
    """Name of a case -> what a run without a kill leaves, made once."""
    runs = {}

    def run(name):
        if name not in runs:
            path = tmp_path_factory.mktemp("unbroken")
            make, data = CASES[name]
            record = fit(make(folder), data(), path, _saver(path), max_epochs=EPOCHS)
            runs[name] = (record, _checkpoint(path))
        return runs[name]

    return run


@pytest.mark.parametrize("bound", ["epochs", "steps"])
@pytest.mark.parametrize(
    ("name", "kill_at"),
    [
        ("sft", 2),  # inside the first epoch of 5 steps
        ("sft", 5),  # at its end
        ("sft", 7),
        ("sft with dropout", 2),
        ("grpo", 2),  # inside the first epoch of 3 steps
        ("grpo", 3),  # at its end
        ("grpo", 4),
        ("grpo with a reference", 2),
        ("grpo with two updates", 2),  # between two rollout batches
        ("grpo with two updates", 3),  # between the updates on one
        ("grpo with two updates", 6),  # at the end of an epoch
        ("grpo with two updates", 9),
    ],
)
def test_a_kill_changes_nothing(name, kill_at, bound, folder, unbroken, tmp_path):
    expected, expected_checkpoint = unbroken(name)
    make, data = CASES[name]

    bounds = {"max_epochs": EPOCHS}
    if bound == "steps":
        bounds = {"max_epochs": -1, "max_steps": len(expected.metrics)}
    with pytest.raises(KillError):
        fit(make(folder), data(), tmp_path, _saver(tmp_path), Kill(kill_at), **bounds)
    resumed = fit(make(folder), data(), tmp_path, _saver(tmp_path), ckpt_path=str(tmp_path / "last.ckpt"), **bounds)

    assert _tasks(resumed.batches) == _tasks(expected.batches)[kill_at:]
    _assert_equal(_untimed(resumed.metrics), _untimed(expected.metrics)[kill_at:], "metrics")
    checkpoint = _checkpoint(tmp_path)
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "streakline"):
        _assert_equal(checkpoint[part], expected_checkpoint[part], part)


@pytest.mark.parametrize("name", ["sft", "grpo", "grpo with two updates"])
def test_a_run_that_ended_at_its_bound_goes_on_under_a_larger_one(name, folder, unbroken, tmp_path):
    expected, expected_checkpoint = unbroken(name)
    make, data = CASES[name]

    first = fit(make(folder), data(), tmp_path, _saver(tmp_path), max_steps=2, max_epochs=-1)
    second = fit(
        make(folder),
        data(),
        tmp_path,
        _saver(tmp_path),
        ckpt_path=str(tmp_path / "last.ckpt"),
        max_steps=len(expected.metrics),
        max_epochs=-1,
    )

    assert _tasks(first.batches) + _tasks(second.batches) == _tasks(expected.batches)
    _assert_equal(_checkpoint(tmp_path)["state_dict"], expected_checkpoint["state_dict"])


@pytest.mark.parametrize("kill_at", [2, 3, 4])
@pytest.mark.parametrize(
    "options",
    [
        {"reload_dataloaders_every_n_epochs": 1},
        {"limit_val_batches": 1.0},
        {"limit_val_batches": 1.0, "val_check_interval": 1},
    ],
    ids=["loaders rebuilt", "validation each epoch", "validation each step"],
)
def test_neither_rebuilt_loaders_nor_validation_change_anything(options, kill_at, folder, unbroken, tmp_path):
    expected, expected_checkpoint = unbroken("grpo")
    options = {"max_epochs": EPOCHS} | options

    with pytest.raises(KillError):
        fit(_grpo(folder), task_data(), tmp_path, _saver(tmp_path), Kill(kill_at), **options)
    last = str(tmp_path / "last.ckpt")
    resumed = fit(_grpo(folder), task_data(), tmp_path, _saver(tmp_path), ckpt_path=last, **options)

    assert _tasks(resumed.batches) == _tasks(expected.batches)[kill_at:]
    _assert_equal(_checkpoint(tmp_path)["state_dict"], expected_checkpoint["state_dict"])


class SolvedTwo(RewardTerm):
    """Two tasks are always right; the trajectories of the others differ."""

    def score(self, task, trajectory):
        return float(task.id in {"test/train-0", "test/train-1"} or trajectory.group_member % 2)


def _fit_techniques(folder, path, *callbacks, epoch, **options):
    filter_ = StreakFilter(k=1, reentry="cooldown", cooldown=1, epoch=epoch, probe_fraction=0.5)
    config = GRPOConfig(group_size=4, micro_batch_tokens=600, advantage_statistics="all")
    return fit(
        grpo_module(folder, grpo=config, reward=SolvedTwo(), lr_scheduler=_schedule),
        task_data(size=9, batch_size=3),
        path,
        _saver(path),
        DownSampleRollouts("random", keep=3),
        filter_,
        *callbacks,
        **options,
    )


@pytest.mark.parametrize("bound", ["epochs", "steps"])
@pytest.mark.parametrize("epoch", ["shrink", "refill"])
def test_a_kill_changes_neither_streaks_nor_draws(epoch, bound, folder, tmp_path):
    expected = _fit_techniques(folder, tmp_path / "whole", epoch=epoch, max_epochs=4)
    expected_checkpoint = _checkpoint(tmp_path / "whole")
    assert [len(batch) for batch in expected.batches] == [3] * len(expected.batches)
    assert (len(expected.batches) < 12) == (epoch == "shrink")
    bounds = {"max_epochs": 4}
    if bound == "steps":
        bounds = {"max_epochs": -1, "max_steps": len(expected.batches)}
    # Inside the first epoch, at its end, inside the second, at its end (of two or three steps), in the third.
    for kill_at in (1, 3, 4, 5, 6, 8):
        path = tmp_path / str(kill_at)
        with pytest.raises(KillError):
            _fit_techniques(folder, path, Kill(kill_at), epoch=epoch, **bounds)
        resumed = _fit_techniques(folder, path, epoch=epoch, ckpt_path=str(path / "last.ckpt"), **bounds)

        assert _tasks(resumed.batches) == _tasks(expected.batches)[kill_at:]
        _assert_equal(_untimed(resumed.metrics), _untimed(expected.metrics)[kill_at:], "metrics")
        checkpoint = _checkpoint(path)
        for part in ("state_dict", "streakline"):
            _assert_equal(checkpoint[part], expected_checkpoint[part], part)
        _assert_equal(checkpoint["callbacks"]["StreakFilter"], expected_checkpoint["callbacks"]["StreakFilter"])


def test_every_task_comes_once_an_epoch(unbroken):
    for name in ("grpo", "grpo with two updates"):
        batches = [batch for batch in _tasks(unbroken(name)[0].batches) if batch]
        for epoch in range(EPOCHS):
            seen = [task for batch in batches[3 * epoch : 3 * epoch + 3] for task in batch]
            assert sorted(seen) == sorted(f"test/train-{index}" for index in range(6))
