"""BFCL's own tasks, simulators and checkers through real modules, DataModules and trainers, with a tiny policy."""

import json
from functools import partial

import pytest
import torch
from tests.fixtures.tiny_agents import fit, policy_folder, trainer

from streakline.data.demonstrations import DemonstrationDataModule
from streakline.data.sources import GoldDemonstrations
from streakline.data.tasks import TaskDataModule
from streakline.modules.held_out import HeldOutConfig
from streakline.modules.sft import SFTModule
from streakline.policy.config import PolicyConfig
from streakline.rendering.policy import RenderingPolicy
from streakline.rewards.base import Reward
from streakline.rewards.bfcl.official import OfficialBFCL
from streakline.rollout.agent_loop import EpisodeConfig
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.rollout.scripted import ScriptedEngine, script_turns
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.types import Message, Role

CATEGORIES = ("simple_python", "multi_turn_base")


@pytest.fixture
def folder(tmp_path):
    return policy_folder(tmp_path / "policy", max_position_embeddings=4096)


def held_out_tasks():
    return [BFCLTaskSet(category, limit=2) for category in CATEGORIES]


def module(folder, **options):
    return SFTModule(
        policy=PolicyConfig(name_or_path=folder, init="random"),
        reward=Reward({"official": OfficialBFCL()}),
        rendering=RenderingPolicy(schema_style="short"),
        sampling=SamplingPolicy(max_new_tokens=options.pop("max_new_tokens", 6), max_tokens=4000),
        episode=EpisodeConfig(max_turns=40, max_result_tokens=1024),
        held_out=HeldOutConfig(num_samples=options.pop("num_samples", 0)),
        optimizer=partial(torch.optim.AdamW, lr=0.01),
        **options,
    )


def gold_turns(task, renderer):
    """What an assistant writes that makes the gold calls and ends each user turn with a word."""
    for steps in task.gold:
        for calls in steps:
            yield renderer.completion(Message(role=Role.ASSISTANT, tool_calls=calls))
        yield renderer.completion(Message(role=Role.ASSISTANT, content="Done."))


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_random_policy_gets_bfcls_verdict_on_single_and_multi_turn_tasks(folder, tmp_path):
    tested = trainer(tmp_path)
    data = TaskDataModule(test=held_out_tasks(), eval_batch_size=3)
    (metrics,) = tested.test(module(folder, num_samples=1), datamodule=data, verbose=False)
    rows = read_lines(tmp_path / "test_scores.jsonl")
    assert [row["kind"] for row in rows] == ["simple_python"] * 2 + ["multi_turn_base"] * 2
    assert [row["task_id"] for row in rows] == [task.id for tasks in held_out_tasks() for task in tasks]
    # An official 0, not None: the checkers ran, and nothing of the machinery failed.
    assert all((row["sampled"], row["greedy"]) == ([0.0], 0.0) for row in rows)
    assert (metrics["test/unscored"], metrics["test/termination/engine_error"]) == (0.0, 0.0)
    assert {metrics[f"test/success_greedy/{category}"] for category in CATEGORIES} == {0.0}


def test_gold_calls_played_through_the_same_trainer_are_right_by_bfcls_verdict(folder, tmp_path):
    def gold_engine(model, terminator_ids):
        renderer = player.renderer()
        turns = [list(gold_turns(task, renderer)) for tasks in held_out_tasks() for task in tasks]
        return ScriptedEngine(script_turns(turns), tokenizer=renderer.tokenizer, terminator_ids=terminator_ids)

    player = module(folder, engine=gold_engine, max_new_tokens=1000)
    tested = trainer(tmp_path)
    tested.test(player, datamodule=TaskDataModule(test=held_out_tasks(), eval_batch_size=4), verbose=False)
    assert [row["greedy"] for row in read_lines(tmp_path / "test_scores.jsonl")] == [1.0] * 4


def test_two_steps_on_gold_demonstrations_then_a_test_on_the_tasks_before_them(folder, tmp_path):
    data = DemonstrationDataModule(
        train=GoldDemonstrations(BFCLTaskSet("multi_turn_base", offset=2, limit=2)),
        validation=GoldDemonstrations(BFCLTaskSet("simple_python", limit=1)),
        test=held_out_tasks()[1],
        batch_size=1,
    )
    learner = module(folder, engine=partial(HFEngine, max_rows=2))
    seen = fit(learner, data, tmp_path, max_steps=2, limit_val_batches=1)
    assert len(seen.batches) == 2
    # Only what the assistant wrote is trained: far less than the tool results, requests and schemas around it.
    assert all(0 < batch.loss_mask.sum() < batch.attention_mask.sum() / 2 for batch in seen.batches)
    losses = [metrics["train/loss"] for metrics in seen.metrics]
    assert losses[1] < losses[0]
    trainer(tmp_path).test(learner, datamodule=data, verbose=False)
    rows = read_lines(tmp_path / "test_scores.jsonl")
    assert [row["task_id"].rsplit("_", 1)[1] for row in rows] == ["0", "1"]
    assert all(row["greedy"] == 0.0 for row in rows)
