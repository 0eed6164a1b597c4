import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint
from tests.fixtures.tiny_agents import (
    ConstantReward,
    EchoEnvironment,
    ParityReward,
    Record,
    fit,
    grpo_module,
    policy_folder,
    task_data,
    task_set,
    trainer,
)
from tests.fixtures.tokenizers import byte_tokenizer

from streakline.cache.lookup import CacheOptions
from streakline.cache.store import CacheStore, NewEntry
from streakline.data.rows import rows_of
from streakline.data.tasks import TaskDataModule
from streakline.environment.cached import CachedTools
from streakline.errors import ConfigError, DataError
from streakline.modules import buffer
from streakline.modules.grpo_config import GRPOConfig
from streakline.policy.config import LoraConfig, PolicyConfig
from streakline.rendering.policy import RenderingPolicy
from streakline.rollout.engine import RolloutEngine
from streakline.rollout.episode import EpisodeConfig
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.rollout.scripted import ScriptedEngine
from streakline.tasks.base import ListTaskSet
from streakline.types import Message, Role, ToolSchema


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return policy_folder(tmp_path_factory.mktemp("policy"))


def _weights(module):
    return torch.cat([parameter.detach().flatten() for parameter in module.policy.parameters()])


def _config(**options):
    return GRPOConfig(**{"group_size": 4, "micro_batch_tokens": 600} | options)


@pytest.mark.parametrize("updates", [1, 2])
def test_one_training_step_is_one_optimiser_step(folder, tmp_path, updates):
    steps = []

    class Count(Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            steps.append((trainer.global_step, module.lr_schedulers().last_epoch, module.rollout_step))

    module = grpo_module(
        folder,
        grpo=_config(updates_per_rollout=updates),
        lr_scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step),
    )
    fit(module, task_data(), tmp_path, Count())

    expected = range(1, 3 * updates + 1)
    assert steps == [(step, step, -(-step // updates)) for step in expected]


def test_checkpoints_every_n_steps_come_at_every_n_steps(folder, tmp_path):
    saver = ModelCheckpoint(dirpath=tmp_path, every_n_train_steps=2, save_top_k=-1, filename="{step}")
    fit(grpo_module(folder), task_data(), tmp_path, saver, max_epochs=2)

    assert sorted(path.name for path in tmp_path.glob("*.ckpt")) == [f"step={step}.ckpt" for step in (2, 4, 6)]


def test_max_steps_is_met_exactly(folder, tmp_path):
    record = fit(
        grpo_module(folder, grpo=_config(updates_per_rollout=2)), task_data(), tmp_path, max_steps=3, max_epochs=-1
    )

    assert len(record.metrics) == 3


def test_training_makes_rewarded_tokens_likelier(folder, tmp_path):
    module = grpo_module(folder, lr=0.01, grpo=_config(group_size=8))
    record = fit(module, task_data(size=4, batch_size=4), tmp_path, max_epochs=12)

    rewards = [step["train/reward"] for step in record.metrics]
    assert sum(rewards[-3:]) > sum(rewards[:3])


def test_without_a_change_of_weights_the_ratio_is_one_and_nothing_is_clipped(folder, tmp_path):
    module = grpo_module(folder, lr=0.0, grpo=_config(updates_per_rollout=2))
    record = fit(module, task_data(), tmp_path)

    for step in record.metrics:
        assert step["train/ratio"] == pytest.approx(1.0, abs=1e-5)
        assert step["train/clipped"] == 0
        assert step["train/engine_gap_max"] < 1e-4


@pytest.mark.parametrize("template", ["native", "context"])
def test_a_terminator_that_was_barred_is_barred_in_the_update(tmp_path, monkeypatch, template):
    folder = policy_folder(tmp_path / "policy", initializer_range=0.3)
    requests = ((Message(role=Role.USER, content="One."),), (Message(role=Role.USER, content="Two."),))
    tasks = [replace(item, requests=requests) for item in task_set(4).tasks()]
    lengths = []

    class Keep(Callback):
        def select_groups(self, module, groups):
            turns = [[turn.end - turn.start for turn in item.turns] for group in groups for item in group.trajectories]
            lengths.extend(turns)
            return groups

    def largest_gap():
        module = grpo_module(
            folder,
            lr=0.0,
            grpo=_config(group_size=8, updates_per_rollout=2, micro_batch_tokens=4000),
            rendering=RenderingPolicy(template=template),
            sampling=SamplingPolicy(max_new_tokens=60, min_new_tokens=5, temperature=0.8, max_tokens=900),
            episode=EpisodeConfig(max_turns=2),
        )
        record = fit(
            module, TaskDataModule(ListTaskSet(tasks), environment=EchoEnvironment, batch_size=4), tmp_path, Keep()
        )
        assert [step["train/ratio"] for step in record.metrics] == pytest.approx([1.0, 1.0], abs=1e-5)
        return max(step["train/engine_gap_max"] for step in record.metrics)

    assert largest_gap() < 1e-4
    assert min(first for first, *_ in lengths) > 5
    assert any(second <= 5 for _, *later in lengths for second in later)
    monkeypatch.setattr(buffer, "rows_of", lambda trajectories, advantages, **_: rows_of(trajectories, advantages))
    assert largest_gap() > 1e-3


def test_at_the_second_update_the_ratio_is_against_the_first(folder, tmp_path):
    record = fit(grpo_module(folder, lr=0.01, grpo=_config(updates_per_rollout=2)), task_data(), tmp_path)

    ratios = [step["train/ratio"] for step in record.metrics]
    assert ratios[0::2] == pytest.approx([1.0] * 3, abs=1e-5)
    assert all(abs(ratio - 1.0) > 1e-4 for ratio in ratios[1::2])


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "dapo"},
        {"loss": "grpo"},
        {"loss": "dr_grpo"},
        {"loss": "grpo", "surrogate": "gspo", "engine_correction": "geometric"},
        {"loss": "dapo", "surrogate": "cispo", "engine_correction": "truncated"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_weights_do_not_depend_on_micro_batches(folder, tmp_path, options):
    results = []
    for micro_batch_tokens in (100_000, 700, 1):
        module = grpo_module(folder, lr=0.01, grpo=_config(**options, micro_batch_tokens=micro_batch_tokens))
        # SGD: AdamW turns rounding errors of a gradient near 0 into whole steps.
        module._make_optimizer = partial(torch.optim.SGD, lr=0.5)
        fit(module, task_data(), tmp_path, max_steps=1)
        results.append(_weights(module))

    torch.testing.assert_close(results[1], results[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(results[2], results[0], atol=1e-6, rtol=1e-5)


class DriftingEngine(RolloutEngine):
    """Says that it drew every token with two thirds of the policy's probability."""

    def __init__(self, *args):
        self._inner = HFEngine(*args)

    def generate(self, requests, respond, *, sampling):
        def drift(row, completion):
            logprobs = tuple(value - math.log(1.5) for value in completion.logprobs)
            return respond(row, replace(completion, logprobs=logprobs))

        self._inner.generate(requests, drift, sampling=sampling)

    def sync_weights(self, version):
        self._inner.sync_weights(version)


@pytest.mark.parametrize(
    ("correction", "cap", "factor", "kept"),
    [
        ("none", 1.2, 1.0, 1.0),
        ("truncated", 2.0, 1.5, 1.0),
        ("truncated", 1.2, 1.2, 0.0),
        ("geometric", 2.0, 1.5, 1.0),
        ("geometric", 1.2, 0.0, 0.0),
    ],
)
def test_what_the_engine_draws_too_rarely_weighs_more_up_to_a_cap(folder, tmp_path, correction, cap, factor, kept):
    norms = []
    for config in (_config(), _config(engine_correction=correction, engine_cap=cap)):
        module = grpo_module(folder, lr=0.0, grpo=config, engine=DriftingEngine)
        (step,) = fit(module, task_data(), tmp_path, max_steps=1).metrics
        norms.append(step["train/grad_norm"])

    assert norms[1] == pytest.approx(factor * norms[0], rel=1e-4)
    assert step["train/engine_kept"] == step["train/engine_kept/below_512"] == kept


@pytest.mark.parametrize("reward", [ConstantReward(1.0), ConstantReward(0.4), ConstantReward(None)])
def test_a_step_without_contrast_leaves_weights_optimiser_and_schedule_alone(folder, tmp_path, reward):
    module = grpo_module(
        folder,
        reward=reward,
        lr_scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step),
    )
    module.configure_model()
    before = _weights(module)

    record = fit(module, task_data(), tmp_path)

    assert torch.equal(_weights(module), before)
    assert module.trainer.global_step == 0
    assert module.lr_schedulers().last_epoch == 0
    assert (module.rollout_step, module.empty_steps) == (3, 3)
    assert record.metrics[-1]["train/zero_variance"] == 1.0
    assert record.metrics[-1]["train/empty_steps"] == 3


def test_the_reuses_of_an_empty_rollout_batch_are_empty_too(folder, tmp_path):
    module = grpo_module(folder, reward=ConstantReward(1.0), grpo=_config(updates_per_rollout=3))
    record = fit(module, task_data(), tmp_path)

    assert (module.rollout_step, module.empty_steps, len(record.metrics)) == (3, 9, 9)


def test_unscored_rollouts_are_logged_and_left_out(folder, tmp_path):
    class Sometimes(ParityReward):
        def score(self, task, trajectory):
            return None if trajectory.group_member == 3 else super().score(task, trajectory)

    record = fit(grpo_module(folder, reward=Sometimes()), task_data(), tmp_path)

    assert record.metrics[0]["train/unscored"] == pytest.approx(0.25)
    assert record.metrics[0]["train/trained_tokens"] <= 2 * 3 * 4


def test_sampling_that_biases_the_ratio_is_refused(folder):
    for sampling in (SamplingPolicy(top_p=0.9), SamplingPolicy(top_k=5), SamplingPolicy(greedy=True)):
        with pytest.raises(ConfigError, match="for training rollouts"):
            grpo_module(folder, sampling=sampling)


def test_a_schedule_that_waits_for_a_metric_is_refused(folder, tmp_path):
    module = grpo_module(folder, lr_scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau)

    with pytest.raises(ConfigError, match="`lr_scheduler` to follow the steps alone"):
        fit(module, task_data(), tmp_path)


def test_options_that_the_optimizer_refuses_are_one_clear_line(folder, tmp_path):
    module = grpo_module(folder, lr=-1.0)

    with pytest.raises(ConfigError, match="`optimizer` to have options that it takes, but got: Invalid learning rate"):
        fit(module, task_data(), tmp_path)


def test_a_module_needs_no_file_until_it_is_used():
    module = grpo_module("no/such/folder/at/all")

    with pytest.raises(ConfigError, match="`configure_model` has not been called"):
        _ = module.policy
    with pytest.raises(DataError, match="no/such/folder"):
        module.configure_model()


def test_weights_are_float32_and_in_train_mode(folder, tmp_path):
    module = grpo_module(folder)
    modes = []

    class Watch(Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            modes.append(module.policy.training)

    fit(module, task_data(), tmp_path, Watch(), limit_val_batches=1.0, val_check_interval=1)

    assert modes == [True] * 3
    assert {parameter.dtype for parameter in module.policy.parameters()} == {torch.float32}


def test_callbacks_choose_tasks_and_groups(folder, tmp_path):
    seen = []

    class Choose(Callback):
        def select_tasks(self, module, tasks):
            return tasks[:1]

        def select_groups(self, module, groups):
            seen.extend(groups)
            return [replace(group, trajectories=group.trajectories[:2]) for group in groups]

    record = fit(grpo_module(folder, grpo=_config(advantage_statistics="all")), task_data(), tmp_path, Choose())

    assert [len(group.trajectories) for group in seen] == [4, 4, 4]
    assert all(group.all_rewards == group.rewards for group in seen)
    assert all(step.get("train/trained_tokens", 0) <= 2 * 5 for step in record.metrics)


def test_a_callback_that_drops_all_tasks_makes_an_empty_step(folder, tmp_path):
    class DropAll(Callback):
        def select_tasks(self, module, tasks):
            return []

    module = grpo_module(folder)
    fit(module, task_data(), tmp_path, DropAll())

    assert module.empty_steps == 3


def test_tasks_that_come_while_rollouts_are_left_are_refused(folder, tmp_path):
    class Greedy(Callback):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            batch.extend(task_set(1, prefix="late").tasks() if not batch else [])

    with pytest.raises(ConfigError, match="Expected an empty batch while the last rollouts serve 1 more"):
        fit(grpo_module(folder, grpo=_config(updates_per_rollout=2)), task_data(), tmp_path, Greedy())


def test_a_penalty_keeps_the_policy_near_its_start(folder, tmp_path):
    distances = []
    for kl_coef in (1e-6, 10.0):
        module = grpo_module(folder, lr=0.01, grpo=_config(kl_coef=kl_coef, kl_estimator="k2"))
        module.configure_model()
        start = _weights(module)
        record = fit(module, task_data(), tmp_path, max_epochs=4)
        assert record.metrics[0]["train/kl"] == pytest.approx(0.0, abs=1e-9)
        assert torch.equal(torch.cat([p.flatten() for p in module.reference.parameters()]), start)
        distances.append(sum(step["train/kl"] for step in record.metrics[-4:]))

    assert distances[1] < 0.5 * distances[0]


def test_a_bonus_for_entropy_is_all_that_moves_a_policy_without_contrast(folder, tmp_path):
    steps = []
    for entropy_coef in (0.0, 1.0):
        config = _config(entropy_coef=entropy_coef, drop_zero_variance_groups=False)
        module = grpo_module(folder, lr=0.01, reward=ConstantReward(1.0), grpo=config)
        steps.append(fit(module, task_data(), tmp_path, max_epochs=3).metrics)

    still, moved = ([step["train/entropy"] for step in metrics] for metrics in steps)
    assert still[0] == pytest.approx(moved[0])
    most = math.log(module.policy.config.vocab_size)
    assert most - moved[-1] < 0.2 * (most - moved[0])
    assert steps[0][-1]["train/grad_norm"] == 0
    assert steps[1][0]["train/loss"] == pytest.approx(-moved[0], rel=1e-5)


def test_without_a_penalty_no_reference_is_kept(folder):
    module = grpo_module(folder)
    module.configure_model()

    assert module.reference is None


def test_with_lora_the_reference_is_the_policy_without_its_adapter(folder, tmp_path):
    policy = PolicyConfig(name_or_path=folder, init="random", lora=LoraConfig(r=4))
    module = grpo_module(folder, policy=policy, grpo=_config(kl_coef=0.1))
    record = fit(module, task_data(), tmp_path, max_epochs=2)

    assert module.reference is None
    assert record.metrics[0]["train/kl"] == pytest.approx(0.0, abs=1e-9)
    assert record.metrics[-1]["train/kl"] > 0
    trained = {name for name, parameter in module.policy.named_parameters() if parameter.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)


def test_every_step_logs_what_happened(folder, tmp_path):
    record = fit(grpo_module(folder), task_data(), tmp_path)

    expected = {
        "train/reward", "train/success", "train/zero_variance", "train/all_correct", "train/all_wrong",
        "train/trained_tokens", "train/ratio", "train/clipped", "train/kl", "train/grad_norm", "train/entropy",
        "train/tokens", "train/turns", "train/closed_thinking", "train/termination/length", "train/engine_gap",
        "train/rollout_step",
        "train/generated_tokens",
        "time/rollout", "time/tool", "time/reward", "time/reference", "time/update", "time/logprobs",
        "time/trained_tokens_per_second", "time/sampled_tokens_per_second",
    }  # fmt: skip
    for step in record.metrics:
        assert expected <= step.keys()
        assert 0 < step["time/logprobs"] < step["time/update"]
        assert step["train/generated_tokens"] == step["train/trajectories"] * step["train/sampled_tokens"]
    assert record.metrics[0]["train/grad_norm"] > 0


def test_a_second_update_on_the_same_rollouts_generates_no_token(folder, tmp_path):
    record = fit(grpo_module(folder, grpo=_config(updates_per_rollout=2)), task_data(), tmp_path)
    generated = [step["train/generated_tokens"] for step in record.metrics]
    assert generated[0] > 0
    assert generated[1::2] == [0] * len(generated[1::2])


@pytest.mark.parametrize("mode", ["frozen", "live"])
def test_where_a_cache_answers_every_step_logs_where_results_came_from(folder, tmp_path, mode):
    with CacheStore.open(tmp_path / "cache.sqlite") as store:
        store.add([NewEntry(tool="look_up", arguments={"word": "a"}, result="A", recorded_at=0.0)])
    tools = CachedTools(
        str(tmp_path / "cache.sqlite"), mode=mode, options=CacheOptions(fuzzy=False, best_effort="most_frequent")
    )
    # Two exact results and one of another call in each rollout of the first step, no call in those after it.
    blocks = [f'<tool_call>{{"name": "look_up", "arguments": {{"word": "{word}"}}}}</tool_call>' for word in "aab"]
    written = iter(["".join(blocks)] * 8)
    tokenizer = byte_tokenizer("hermes_chatml")
    module = grpo_module(
        folder,
        engine=lambda model, terminators: ScriptedEngine(
            lambda prompt, row: next(written, "Hm."), tokenizer=tokenizer, terminator_ids=terminators
        ),
        sampling=SamplingPolicy(max_new_tokens=400, max_tokens=900),
        grpo=_config(updates_per_rollout=2, drop_zero_variance_groups=False),
    )
    look_up = ToolSchema(name="look_up", parameters={"type": "object", "properties": {"word": {"type": "string"}}})
    tasks = ListTaskSet([replace(item, tools=(look_up,)) for item in task_set(4).tasks()])
    record = fit(module, TaskDataModule(tasks, tools=tools, batch_size=2), tmp_path)

    assert len({frozenset(step) for step in record.metrics}) == 1
    first, *_, last = record.metrics
    if mode == "live":
        assert "train/tier/live" not in first
        return
    assert (first["train/tier/exact"], first["train/tier/best_effort"]) == pytest.approx((2 / 3, 1 / 3))
    assert first["train/worst_tier/best_effort"] == last["train/worst_tier/live"] == 1.0
    assert sum(value for name, value in first.items() if name.startswith("train/similarity/")) == pytest.approx(1.0)
    assert record.metrics[1]["train/tier/exact"] == first["train/tier/exact"]


def test_a_checkpoint_of_another_architecture_is_one_clear_line(folder, tmp_path):
    saver = ModelCheckpoint(dirpath=tmp_path, every_n_train_steps=1, save_top_k=0, save_last=True)
    fit(grpo_module(folder), task_data(), tmp_path, saver, max_steps=1)
    wider = policy_folder(tmp_path / "wider", intermediate_size=64)

    with pytest.raises(DataError, match="Expected a checkpoint of this architecture") as error:
        fit(grpo_module(wider), task_data(), tmp_path, ckpt_path=str(tmp_path / "last.ckpt"))
    assert "\n" not in str(error.value)


def test_a_datamodule_without_an_environment_is_named(folder, tmp_path):
    data = task_data()
    del data.environment
    with pytest.raises(ConfigError, match="Expected a DataModule with `environment` and `training_environment`"):
        fit(grpo_module(folder), data, tmp_path)


def test_validation_while_fitting_writes_and_logs_scores(folder, tmp_path):
    record = Record()
    run = trainer(tmp_path, record, limit_val_batches=1.0)
    run.fit(grpo_module(folder), datamodule=task_data())

    assert {"validate/success_sampled", "validate/success_greedy", "validate/turns"} <= run.callback_metrics.keys()
    assert (tmp_path / "validate_scores.jsonl").exists()


def test_worlds_are_made_by_the_datamodule(folder, tmp_path):
    made = []

    class Watched(EchoEnvironment):
        def __init__(self, task):
            super().__init__(task)
            made.append(task.id)

    data = task_data()
    data.training_environment = Watched
    fit(grpo_module(folder), data, tmp_path)

    assert sorted(set(made)) == sorted(task.id for task in task_set(6))
    assert len(made) >= 6 * 4
