import re

import pytest
from tests.fixtures.tiny_agents import (
    ConstantReward,
    ParityReward,
    demonstration_data,
    fit,
    grpo_module,
    policy_folder,
    sft_module,
    task_data,
)
from transformers import AutoModelForCausalLM, GPT2Config

from streakline.algorithms.forecast import share_spared, speed_ups
from streakline.callbacks.down_sample import DownSampleRollouts
from streakline.callbacks.forecast import Forecast, _head_tokens
from streakline.callbacks.streak_filter import StreakFilter
from streakline.errors import ConfigError
from streakline.modules.grpo_config import GRPOConfig
from streakline.rewards.base import RewardTerm

# Weights of the one layer, its norms included, and of the norm behind it; of the output head.
LAYER = (32 * 32 + 2 * 32 * 16 + 32 * 32) + 3 * 32 * 48 + (2 * 16 + 2 * 32) + 32
HEAD = 283 * 32


class HalfSolved(RewardTerm):
    """The tasks of one kind are always right."""

    def score(self, task, trajectory):
        return 1.0 if task.kind == "kind-0" else ParityReward().score(task, trajectory)


def printed(text):
    """Head -> numbers."""
    rows = [line for line in text.splitlines() if "speed-up" in line]
    return {row.split(" (")[0]: [float(n) for n in re.findall(r"([\d.]+)(?= batches| s,|%|x)", row)] for row in rows}


def expected(metrics, *, spared, rollouts=1.0):
    """Numbers for steps with these metrics, where all rollouts would be so many times as many."""

    def mean(*names):
        values = [sum(one[name] for name in names) for one in metrics]
        return sum(values) / len(values)

    rollout = mean("time/rollout", "time/tool", "time/reward")
    update = mean("time/update", "time/reference")
    gains = speed_ups(
        rollout_s=rollout * rollouts,
        update_s=update,
        spared=spared,
        row_tokens=mean("train/tokens") / mean("train/sampled_tokens"),
        computed_share=mean("train/distinct_token_share"),
        kept=2,
        sampled=4,
        head_tokens=HEAD / LAYER,
    )
    return pytest.approx([len(metrics), rollout, update, round(100 * spared), *gains.values()], abs=0.006)


def test_the_forecast_and_what_came_follow_from_what_was_logged(tmp_path, capsys):
    callbacks = (
        StreakFilter(k=1, probe_fraction=0.0),
        DownSampleRollouts(rule="max_variance", keep=2),
        Forecast(steps=2, k=1, probe_fraction=0.0),
    )
    module = grpo_module(policy_folder(tmp_path / "policy"), reward=HalfSolved())
    metrics = fit(module, task_data(size=8, batch_size=4), tmp_path, *callbacks, max_epochs=3).metrics
    found = printed(capsys.readouterr().out)
    share = sum(one["train/all_correct"] for one in metrics[:2]) / 2
    assert share >= 0.5
    ahead = share_spared(all_correct=share, k=1, rest=1, probe_fraction=0.0, epochs=3)
    assert found["forecast"] == expected(metrics[:2], spared=ahead)
    behind = metrics[2:]
    saved, done = behind[-1]["filter/rollouts_saved"], sum(one["train/trajectories"] for one in behind)
    assert saved > 0
    assert found["what came"] == expected(behind, spared=saved / (saved + done), rollouts=(saved + done) / done)


def test_where_everything_behind_the_profile_is_skipped_nothing_is_said_of_it(tmp_path, capsys):
    callbacks = (
        StreakFilter(k=1, reentry="never", probe_fraction=0.0),
        Forecast(steps=2, k=1, reentry="never", probe_fraction=0.0),
    )
    module = grpo_module(policy_folder(tmp_path / "policy"), reward=ConstantReward(1.0))
    fit(module, task_data(size=8, batch_size=4), tmp_path, *callbacks, max_epochs=2)
    assert "what came" not in printed(capsys.readouterr().out)


def test_a_run_that_ends_after_a_number_of_steps_has_as_many_epochs(tmp_path, capsys):
    module = grpo_module(policy_folder(tmp_path / "policy"), reward=HalfSolved())
    forecast = Forecast(steps=2, k=1, probe_fraction=0.0)
    metrics = fit(module, task_data(size=8, batch_size=4), tmp_path, forecast, max_epochs=30, max_steps=4).metrics
    share = sum(one["train/all_correct"] for one in metrics[:2]) / 2
    # Of the two epochs that four steps are, one is spared.
    assert printed(capsys.readouterr().out)["forecast"][3] == round(100 * share / 2)


def test_a_task_counts_as_solved_from_the_threshold_of_the_filter(tmp_path, capsys):
    options = {"k": 1, "threshold": 0.6, "probe_fraction": 0.0}
    module = grpo_module(policy_folder(tmp_path / "policy"), reward=ConstantReward(0.7))
    fit(module, task_data(size=4, batch_size=2), tmp_path, Forecast(steps=1, **options), max_epochs=2)
    assert printed(capsys.readouterr().out)["forecast"][3] == 50


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_is_found_under_any_name(tied):
    config = GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2, n_positions=16, tie_word_embeddings=tied)
    model = AutoModelForCausalLM.from_config(config)
    rest = sum(parameter.numel() for parameter in model.transformer.parameters()) - 50 * 8
    assert _head_tokens(model) == pytest.approx(50 * 8 / rest)


def test_rollouts_that_serve_two_updates_count_once(tmp_path, capsys):
    config = GRPOConfig(group_size=4, updates_per_rollout=2)
    module = grpo_module(policy_folder(tmp_path / "policy"), grpo=config)
    fit(module, task_data(size=6, batch_size=2), tmp_path, Forecast(steps=1))
    found = printed(capsys.readouterr().out)
    assert [found["forecast"][0], found["what came"][0]] == [1, 2]
    # Nothing is filtered, nothing down-sampled.
    assert found["what came"][3:6] == [0, 1, 1]


@pytest.mark.parametrize("steps", [0, 3])
def test_without_steps_behind_the_profile_nothing_is_said(tmp_path, capsys, steps):
    module = grpo_module(policy_folder(tmp_path / "policy"))
    fit(module, task_data(size=6, batch_size=2), tmp_path, Forecast(steps=steps))
    assert printed(capsys.readouterr().out) == {}


def test_other_training_is_not_forecast(tmp_path, capsys):
    module = sft_module(policy_folder(tmp_path / "policy"))
    fit(module, demonstration_data(), tmp_path, Forecast(steps=1))
    assert printed(capsys.readouterr().out) == {}


def test_a_negative_number_of_steps_is_refused():
    with pytest.raises(ConfigError, match=r"Expected `forecast\.steps` to be at least 0, but got -1"):
        Forecast(steps=-1)
