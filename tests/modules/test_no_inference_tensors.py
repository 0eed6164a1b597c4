"""What a rollout computes can enter a loss later on, which a tensor made under inference mode can't."""

import pytest
import torch
from tests.fixtures.tiny_agents import fit, grpo_module, policy_folder, task_data, trainer

from streakline.modules.grpo_config import GRPOConfig
from streakline.rollout.engine import GenerationRequest
from streakline.rollout.sampling import SamplingPolicy


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return policy_folder(tmp_path_factory.mktemp("policy"))


class Outputs:
    """Keeps all that the policy's layers give while it samples, keys and values included."""

    def __init__(self, module):
        module.configure_model()
        self.tensors = []
        self.grad_was_enabled = False
        for layer in module.policy.modules():
            layer.register_forward_hook(self._keep)

    def _keep(self, layer, inputs, output):
        self.grad_was_enabled |= torch.is_grad_enabled()
        self.tensors += [value for value in (*inputs, output) if isinstance(value, torch.Tensor)]


def _require_trainable(tensors):
    assert tensors
    assert not any(tensor.is_inference() for tensor in tensors)
    for tensor in tensors:
        if tensor.is_floating_point():
            # The product keeps the tensor for the backward pass.
            weight = torch.ones((), dtype=tensor.dtype, requires_grad=True)
            (weight * tensor).sum().backward()
            torch.testing.assert_close(weight.grad, tensor.sum())


def _sample(module):
    completions = []
    module.engine.generate(
        [GenerationRequest(prompt_ids=(1, 2, 3), seed=seed, max_new_tokens=3) for seed in range(2)],
        lambda _row, completion: completions.append(completion),
        sampling=SamplingPolicy(),
    )
    assert len(completions) == 2


def test_an_engine_samples_without_gradients_and_without_inference_mode(folder):
    module = grpo_module(folder)
    outputs = Outputs(module)

    _sample(module)

    assert not outputs.grad_was_enabled
    _require_trainable(outputs.tensors)


def test_acting_leaves_an_inference_mode_around_it(folder):
    module = grpo_module(folder)
    outputs = Outputs(module)

    with torch.inference_mode(), module.acting():
        _sample(module)

    assert not outputs.grad_was_enabled
    _require_trainable(outputs.tensors)


def test_the_check_notices_inference_mode(folder):
    module = grpo_module(folder)
    outputs = Outputs(module)

    with torch.inference_mode():
        _sample(module)

    assert any(tensor.is_inference() for tensor in outputs.tensors)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        (torch.ones((), requires_grad=True) * outputs.tensors[-1]).sum().backward()


@pytest.mark.parametrize("stage", ["validate", "test"])
def test_held_out_rollouts_of_a_trainer_in_inference_mode_leave_trainable_tensors(folder, tmp_path, stage):
    module = grpo_module(folder)
    outputs = Outputs(module)
    runner = trainer(tmp_path, inference_mode=True, limit_val_batches=1)

    {"validate": runner.validate, "test": runner.test}[stage](module, datamodule=task_data(), verbose=False)

    assert not outputs.grad_was_enabled
    _require_trainable(outputs.tensors)
    # The weights were loaded by the same trainer.
    assert not any(value.is_inference() for value in (*module.parameters(), *module.buffers()))


def test_a_module_that_was_tested_first_can_be_trained(folder, tmp_path):
    module = grpo_module(folder)
    trainer(tmp_path, inference_mode=True).test(module, datamodule=task_data(), verbose=False)
    before = [parameter.detach().clone() for parameter in module.parameters()]

    fit(module, task_data(), tmp_path, max_steps=2)

    changed = [not torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True)]
    assert any(changed)


def test_the_buffer_of_rollouts_holds_trainable_tensors(folder, tmp_path):
    grpo = GRPOConfig(group_size=4, micro_batch_tokens=600, updates_per_rollout=2)
    module = grpo_module(folder, grpo=grpo)

    # One of two updates: the rollouts and their log-probabilities wait for the other.
    fit(module, task_data(), tmp_path, max_steps=1)

    buffer = module.extra_state()["buffer"]
    assert len(buffer["logprobs_old"])
    _require_trainable([value for value in buffer.values() if isinstance(value, torch.Tensor)])
