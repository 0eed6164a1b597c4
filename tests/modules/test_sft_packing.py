from functools import partial

import pytest
import torch
from lightning.pytorch import Callback
from tests.fixtures.tiny_agents import TOOL, EchoEnvironment, fit, policy_folder, sft_module, task_set

from streakline.data.conversations import Conversation
from streakline.data.demonstrations import DemonstrationDataModule
from streakline.data.sources import DemonstrationSource
from streakline.rendering.policy import RenderingPolicy
from streakline.types import Message, Role


class Dialogues(DemonstrationSource):
    """Three user turns each, answered with thinking, which history `split` rewrites twice."""

    def conversations(self, *, limit=None):
        return [self._conversation(index) for index in range(6)][:limit]

    def _conversation(self, index):
        turns = [
            (
                Message(role=Role.USER, content=f"Question {turn} of {'many ' * index}."),
                Message(role=Role.ASSISTANT, content="Yes.", thinking=f"Hm, {index + turn}."),
            )
            for turn in range(3)
        ]
        messages = tuple(message for turn in turns for message in turn)
        return Conversation(task_id=f"test/{index}", messages=messages, tools=(TOOL,))


class Tokens(Callback):
    """Counts what the policy computes in training, and what padded rows would hold."""

    def __init__(self):
        self.computed = self.padded = 0

    def on_train_start(self, trainer, module):
        def count(_embeddings, inputs):
            self.computed += inputs[0].numel()

        module.policy.get_input_embeddings().register_forward_pre_hook(count)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.padded += batch.input_ids.numel()


@pytest.mark.parametrize("untrained_weight", [0.0, 0.1])
def test_samples_of_a_split_history_are_trained_along_their_tree(tmp_path, untrained_weight):
    folder = policy_folder(tmp_path / "policy", initializer_range=0.1)
    weights, losses, shares = [], [], []
    for packing in ("padded", "auto"):
        module = sft_module(
            folder,
            packing=packing,
            untrained_weight=untrained_weight,
            rendering=RenderingPolicy(thinking="split"),
        )
        # SGD: AdamW turns rounding errors of a gradient near 0 into whole steps.
        module._make_optimizer = partial(torch.optim.SGD, lr=0.3)
        data = DemonstrationDataModule(
            train=Dialogues(), validation_tasks=task_set(1), environment=EchoEnvironment, batch_size=6, pool=2
        )
        tokens = Tokens()
        record = fit(module, data, tmp_path, tokens)
        weights.append(torch.cat([parameter.detach().flatten() for parameter in module.policy.parameters()]))
        losses.append([step["train/loss"] for step in record.metrics])
        shares.append(tokens.computed / tokens.padded)

    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    torch.testing.assert_close(weights[1], weights[0], atol=1e-6, rtol=1e-4)
    assert shares[0] == pytest.approx(1.0, rel=0.01)  # and the two tokens that try the head out
    assert shares[1] < 0.6
