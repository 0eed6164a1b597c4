import numpy as np
import pytest
import torch
from tests.fixtures.tiny_agents import (
    Dialogues,
    demonstration_data,
    fit,
    grpo_module,
    policy_folder,
    sft_module,
    task_data,
    trainer,
)

from streakline.data.demonstrations import encode_demonstrations
from streakline.data.rows import collate_rows
from streakline.errors import ConfigError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return policy_folder(tmp_path_factory.mktemp("policy"))


def _batch(module, rows=4):
    encoded = encode_demonstrations(Dialogues().conversations(), renderer=module.renderer())
    return collate_rows(encoded[:rows], pad_id=module.pad_id)


def _oracle(module, batch, untrained_weight):
    """Row by row, without padding, token by token."""
    total = weight = 0.0
    for row in range(len(batch.input_ids)):
        length = int(batch.attention_mask[row].sum())
        with torch.no_grad():
            logits = module.policy(input_ids=batch.input_ids[row : row + 1, :length]).logits[0].double().numpy()
        logprobs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        for column in range(1, length):
            share = 1.0 if batch.loss_mask[row, column] else untrained_weight
            total -= share * logprobs[column - 1, batch.input_ids[row, column]]
            weight += share
    return total / weight


@pytest.mark.parametrize("untrained_weight", [0.0, 0.1])
def test_the_loss_is_the_weighted_mean_over_tokens(folder, untrained_weight):
    module = sft_module(folder, untrained_weight=untrained_weight)
    module.configure_model()
    batch = _batch(module)

    loss, _ = module._loss(batch, untrained_weight=untrained_weight)

    assert loss.item() == pytest.approx(_oracle(module, batch, untrained_weight), rel=1e-5)


def test_the_policy_learns_the_demonstrations(folder, tmp_path):
    module = sft_module(folder, lr=0.01)
    record = fit(module, demonstration_data(size=10, batch_size=5), tmp_path, max_epochs=30)

    assert record.metrics[-1]["train/loss"] < 0.5 * record.metrics[0]["train/loss"]
    assert record.metrics[-1]["train/token_accuracy"] > record.metrics[0]["train/token_accuracy"]


def test_only_what_the_assistant_writes_is_trained_and_its_end_is(folder):
    module = sft_module(folder)
    tokenizer = module.renderer().tokenizer
    batch = _batch(module, rows=1)

    trained = tokenizer.decode(batch.input_ids[0][batch.loss_mask[0]].tolist())

    assert trained.count(tokenizer.decode([module.renderer().terminator_id])) == 2
    assert "Look up" not in trained
    assert "tool_response" not in trained
    assert '"name": "look_up"' in trained


def test_validation_measures_loss_over_all_tokens_and_attempts_tasks(folder, tmp_path):
    data = demonstration_data()
    data._sets["validate"] = data._sets["test"]
    module = sft_module(folder)

    (result,) = _merged(trainer(tmp_path, limit_val_batches=1.0).validate(module, datamodule=data, verbose=False))

    batch = _batch(module, rows=3)
    assert result["validate/loss"] == pytest.approx(_oracle(module, batch, 0.0), rel=1e-5)
    assert 0 <= result["validate/token_accuracy"] <= 1
    assert "validate/success_sampled" in result
    assert (tmp_path / "validate_scores.jsonl").exists()


def _merged(results):
    """Lightning gives one dictionary for each loader."""
    return [{name: value for result in results for name, value in result.items()}]


def test_validation_works_without_tasks(folder, tmp_path):
    (result,) = trainer(tmp_path, limit_val_batches=1.0).validate(
        sft_module(folder), datamodule=demonstration_data(), verbose=False
    )

    assert set(result) == {"validate/loss", "validate/token_accuracy"}


def test_accumulated_batches_make_one_step(folder, tmp_path):
    module = sft_module(folder)
    fit(module, demonstration_data(size=8, batch_size=2), tmp_path, accumulate_grad_batches=2)

    assert module.trainer.global_step == 2


@pytest.mark.parametrize("weight", [-0.1, 1.5])
def test_a_weight_out_of_range_is_refused(folder, weight):
    with pytest.raises(ConfigError, match=f"`untrained_weight` to be in \\[0, 1\\], but got {weight}"):
        sft_module(folder, untrained_weight=weight)


def test_a_grpo_checkpoint_can_be_tested_by_either_module(folder, tmp_path):
    module = grpo_module(folder)
    run = trainer(tmp_path, max_steps=1)
    run.fit(module, datamodule=task_data())
    run.save_checkpoint(tmp_path / "one.ckpt")

    trainer(tmp_path).test(
        sft_module(folder),
        datamodule=task_data(),
        ckpt_path=str(tmp_path / "one.ckpt"),
        weights_only=True,
        verbose=False,
    )

    assert (tmp_path / "test_scores.jsonl").exists()
