from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.fixtures.tiny_agents import EchoEnvironment, fit, grpo_module, policy_folder, task_data, task_set

from streakline.data.tasks import TaskDataModule
from streakline.modules.grpo_config import GRPOConfig
from streakline.policy.config import LoraConfig, PolicyConfig
from streakline.rendering.policy import RenderingPolicy
from streakline.rollout.agent_loop import EpisodeConfig
from streakline.rollout.sampling import SamplingPolicy
from streakline.tasks.base import ListTaskSet
from streakline.types import Message, Role

ROUNDING = {"train/engine_gap", "train/engine_gap_max", "train/distinct_token_share"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return policy_folder(tmp_path_factory.mktemp("policy"), initializer_range=0.1)


def _train(folder, tmp_path, packing, *, data=None, policy=None, grpo=None, **options):
    """Two steps; gives what was logged, and the trained weights."""
    config = GRPOConfig(**{"group_size": 4, "micro_batch_tokens": 900, "packing": packing} | (grpo or {}))
    policy = PolicyConfig(name_or_path=folder, init="random", **(policy or {}))
    module = grpo_module(folder, policy=policy, grpo=config, **options)
    # SGD: AdamW turns rounding errors of a gradient near 0 into whole steps.
    module._make_optimizer = partial(torch.optim.SGD, lr=0.3)
    record = fit(module, data or task_data(), tmp_path, max_steps=2)
    return record.metrics, torch.cat([parameter.detach().flatten() for parameter in module.trained_parameters()])


def _two_turns():
    requests = ((Message(role=Role.USER, content="One."),), (Message(role=Role.USER, content="Two."),))
    tasks = [replace(item, requests=requests) for item in task_set(4).tasks()]
    return TaskDataModule(ListTaskSet(tasks), environment=EchoEnvironment, batch_size=2)


CASES = {
    "plain": {},
    "entropy": {"grpo": {"entropy_coef": 0.3}},
    "reference": {"grpo": {"kl_coef": 0.5, "updates_per_rollout": 2}},
    "adapter": {"policy": {"lora": LoraConfig(r=4)}, "grpo": {"kl_coef": 0.5, "updates_per_rollout": 2}},
    "checkpointing": {"policy": {"gradient_checkpointing": True}},
    "barred": {"sampling": SamplingPolicy(max_new_tokens=9, min_new_tokens=4, max_tokens=600)},
    "many micro-batches": {"grpo": {"micro_batch_tokens": 250}},
    "changing history": {
        "rendering": RenderingPolicy(template="context"),
        "episode": EpisodeConfig(max_turns=2),
        "sampling": SamplingPolicy(max_new_tokens=20, max_tokens=900),
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_step_along_trees_is_the_step_on_padded_rows(folder, tmp_path, case):
    data = _two_turns if case == "changing history" else task_data
    padded, expected = _train(folder, tmp_path, "padded", data=data(), **CASES[case])
    packed, found = _train(folder, tmp_path, "auto", data=data(), **CASES[case])

    for one, other in zip(packed, padded, strict=True):
        assert other["train/distinct_token_share"] == 1.0
        assert one["train/distinct_token_share"] < 0.8
        assert one["train/loss"] == pytest.approx(other["train/loss"], abs=1e-5)
        for name in other:
            if name.startswith("train/") and name not in ROUNDING:
                assert one[name] == pytest.approx(other[name], rel=1e-4, abs=1e-5, nan_ok=True), name
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)


def test_a_policy_that_can_not_follow_a_tree_trains_on_padded_rows_with_one_warning(tmp_path):
    folder = policy_folder(
        tmp_path / "policy", use_sliding_window=True, sliding_window=64, max_window_layers=0, num_hidden_layers=1
    )

    with pytest.warns(UserWarning, match="Rows are padded") as caught:
        metrics, _ = _train(folder, tmp_path, "auto")

    assert [step["train/distinct_token_share"] for step in metrics] == [1.0, 1.0]
    assert len([one for one in caught if "Rows are padded" in str(one.message)]) == 1


def test_padding_is_asked_for_without_a_word(folder, tmp_path):
    metrics, _ = _train(folder, tmp_path, "padded", grpo={"updates_per_rollout": 1})

    assert {step["train/distinct_token_share"] for step in metrics} == {1.0}
