import json

import pytest
import torch
from tests.fixtures.tiny_agents import ConstantReward, grpo_module, policy_folder, task_data, task_set, trainer

from streakline.data.conversations import read_conversations
from streakline.errors import ConfigError
from streakline.evaluation.scores import read_scores
from streakline.modules.held_out import HeldOutConfig
from streakline.rewards.base import Reward
from streakline.rollout.sampling import SamplingPolicy


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return policy_folder(tmp_path_factory.mktemp("policy"))


def _module(folder, *, held_out=None, **options):
    module = grpo_module(folder, **options)
    module.held_out = held_out or HeldOutConfig(num_samples=3)
    return module


def _test(folder, tmp_path, **options):
    (result,) = trainer(tmp_path).test(_module(folder, **options), datamodule=task_data(), verbose=False)
    return result, read_scores(tmp_path / "test_scores.jsonl")


def test_each_task_is_attempted_sampled_and_greedy(folder, tmp_path):
    result, scores = _test(folder, tmp_path)

    assert [score.task_id for score in scores] == [task.id for task in task_set(3, prefix="test")]
    assert [score.kind for score in scores] == ["kind-0", "kind-1", "kind-0"]
    assert all(len(score.sampled) == 3 and score.greedy in {0.0, 1.0} for score in scores)
    sampled = [value for score in scores for value in score.sampled]
    assert result["test/success_sampled"] == pytest.approx(sum(sampled) / 9)
    assert result["test/success_greedy"] == pytest.approx(sum(score.greedy for score in scores) / 3)
    assert {"test/success_sampled/kind-0", "test/success_greedy/kind-1", "test/termination/length"} <= result.keys()


def test_every_term_of_the_reward_is_reported_for_each_way_of_decoding(folder, tmp_path):
    both = Reward({"right": ConstantReward(1.0), "strict": ConstantReward(0.25)}, {"strict": 0.0})
    held_out = HeldOutConfig(num_samples=2, reward=both)

    result, scores = _test(folder, tmp_path, held_out=held_out)

    assert result["test/reward_term_sampled/strict"] == result["test/reward_term_greedy/strict"] == 0.25
    assert result["test/reward_term_greedy/right"] == result["test/success_greedy"] == 1.0
    assert all(score.terms == {"right": (1.0,) * 3, "strict": (0.25,) * 3} for score in scores)


def test_a_rerun_meets_the_same_draws(folder, tmp_path):
    torch.manual_seed(1)
    first = _test(folder, tmp_path)
    torch.manual_seed(2)

    assert _test(folder, tmp_path) == first


def test_the_draws_do_not_depend_on_the_seed_of_the_run(folder, tmp_path):
    # Equal weights: the policy is drawn under seed 0 in both.
    module = _module(folder)
    module.configure_model()
    module.seed = 17
    trainer(tmp_path).test(module, datamodule=task_data(), verbose=False)

    assert read_scores(tmp_path / "test_scores.jsonl") == _test(folder, tmp_path)[1]


def test_greedy_alone_and_sampled_alone(folder, tmp_path):
    _, scores = _test(folder, tmp_path, held_out=HeldOutConfig(num_samples=0))
    assert all(score.sampled == () and score.greedy is not None for score in scores)

    _, scores = _test(folder, tmp_path, held_out=HeldOutConfig(num_samples=1, greedy=False))
    assert all(len(score.sampled) == 1 and score.greedy is None for score in scores)

    with pytest.raises(ConfigError, match=r"`held_out\.num_samples`"):
        HeldOutConfig(num_samples=0, greedy=False)


def test_unscored_episodes_are_null_and_no_failures(folder, tmp_path):
    result, scores = _test(folder, tmp_path, reward=ConstantReward(None))

    assert all(score.sampled == (None, None, None) and score.greedy is None for score in scores)
    assert result["test/unscored"] == 1.0
    assert "test/success_sampled" not in result


def test_the_score_can_be_one_term_of_the_reward(folder, tmp_path):
    _, scores = _test(folder, tmp_path, reward=ConstantReward(0.5), held_out=HeldOutConfig(score="success"))
    assert {score.greedy for score in scores} == {0.5}

    with pytest.raises(ConfigError, match=r"`held_out\.score` to be one of \['success'\], but got 'answer'"):
        _test(folder, tmp_path, held_out=HeldOutConfig(score="answer"))


def test_held_out_episodes_can_be_decoded_in_their_own_way(folder, tmp_path):
    one_token = HeldOutConfig(num_samples=1, sampling=SamplingPolicy(top_p=0.5, max_new_tokens=1, max_tokens=512))

    short, _ = _test(folder, tmp_path, held_out=one_token)
    long, _ = _test(folder, tmp_path)

    assert short["test/tokens"] == long["test/tokens"] - 3


def test_predict_writes_trajectories_that_can_be_read_again(folder, tmp_path):
    trainer(tmp_path).predict(_module(folder), datamodule=task_data(), return_predictions=False)

    path = tmp_path / "trajectories" / "predict.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    conversations = read_conversations(path)
    assert len(rows) == len(conversations) == 3 * 4
    assert [row["decoding"] for row in rows[:4]] == ["sampled"] * 3 + ["greedy"]
    assert {row["termination"] for row in rows} <= {"length", "answer", "max_turns", "invalid_calls"}
    assert conversations[0].tools[0].name == "look_up"
    assert len(read_scores(tmp_path / "predict_scores.jsonl")) == 3


def test_weights_stay_trainable_after_a_test_in_the_same_process(folder, tmp_path):
    # Lightning tests under inference mode: whatever the engine keeps from there must not meet a loss.
    module = _module(folder)
    trainer(tmp_path).test(module, datamodule=task_data(), verbose=False)

    trainer(tmp_path, max_steps=1).fit(module, datamodule=task_data())

    assert module.trainer.global_step == 1
