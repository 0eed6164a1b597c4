"""Print what TRL's GRPO loss is on small fixed tensors, as JSON: values that streakline's own loss is tested against.

    pip install --no-deps --target /tmp/trl trl==1.16.0 datasets accelerate dill multiprocess xxhash
    PYTHONPATH=/tmp/trl python tools/trl_reference.py > tests/algorithms/trl_reference.json

TRL computes the loss inside its trainer, `GRPOTrainer._compute_loss`. It is called here on a trainer without model or
data: only the attributes that the loss reads are set, and the log-probabilities are given instead of computed. TRL is
not needed to run the tests.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from itertools import product
from types import SimpleNamespace

import torch

# TRL imports vLLM where it is installed; no loss needs it.
sys.modules["vllm"] = None  # type: ignore[assignment]
import trl  # noqa: E402
from trl.rewards import get_soft_overlong_punishment  # noqa: E402
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: E402

SEED = 1
# The last completion has no trained token, as one that TRL masks because it was cut off.
LENGTHS = (6, 3, 5, 1, 0)
# Tool results inside a completion: not trained, though they are no padding.
TOOL_RESULTS = ((0, 2), (0, 3), (2, 1))
CLIP_LOW, CLIP_HIGH = 0.2, 0.28
MAX_COMPLETION_LENGTH = 8
# Each a loss of TRL's; `gspo` is its `grpo` with ratios of whole sequences, `truncated` its `dapo` with the correction
# between engine and policy, cut at a cap, `entropy` its `dapo` with a bonus for entropy.
LOSSES = ("grpo", "dapo", "dr_grpo", "bnpo", "gspo", "cispo", "truncated", "entropy")
ENTROPY_COEF = 0.2
# TRL's own overlong punishment, by (longest completion, tokens over which it grows, completion).
OVERLONG = ((10, 4, 6), (10, 4, 7), (10, 4, 8), (10, 4, 10), (10, 4, 40), (100, 20, 93))
ENGINE_CAP = 1.3
# A mean over a sequence moves less than the ratio of a token.
GSPO_CLIP_LOW, GSPO_CLIP_HIGH = 0.04, 0.05
KL_COEFS = (0.0, 0.04)
# Rows of each micro-batch of one optimiser step.
SPLITS = ([[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1], [2], [3]], [[0, 1, 2, 3, 4]])

Tensors = dict[str, torch.Tensor]


def draw_inputs() -> Tensors:
    """Tensors of five completions of up to six tokens; [B, T] but for the [B] advantages."""
    generator = torch.Generator().manual_seed(SEED)
    shape = (len(LENGTHS), max(LENGTHS))

    def uniform() -> torch.Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    logprobs = -2.0 * uniform() - 0.1
    tool_mask = torch.ones(shape, dtype=torch.int64)
    for row, column in TOOL_RESULTS:
        tool_mask[row, column] = 0
    return {
        "logprobs": logprobs,
        "logprobs_old": logprobs + 1.2 * (uniform() - 0.5),
        "logprobs_reference": logprobs + 1.2 * (uniform() - 0.5),
        "advantages": torch.tensor([1.0, -0.5, -1.5, 0.75, 0.25], dtype=torch.float64),
        "completion_mask": (torch.arange(shape[1]) < torch.tensor(LENGTHS)[:, None]).long(),
        "tool_mask": tool_mask,
        "logprobs_engine": logprobs + 1.2 * (uniform() - 0.5),
        "entropy": 3.0 * uniform(),
    }


def bare_trainer(
    logprobs: torch.Tensor, *, entropy: torch.Tensor, loss: str, kl_coef: float, micro_batches: int
) -> GRPOTrainer:
    """A trainer that can compute its loss and nothing else."""
    trainer = GRPOTrainer.__new__(GRPOTrainer)
    trainer.args = SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=micro_batches)
    trainer.accelerator = SimpleNamespace(
        num_processes=1,
        sync_gradients=False,
        gather=lambda value: value,
        reduce=lambda value, reduction: value,
    )
    trainer.model = SimpleNamespace(training=True)
    trainer.current_gradient_accumulation_steps = micro_batches
    trainer.loss_type = {"gspo": "grpo", "truncated": "dapo", "entropy": "dapo"}.get(loss, loss)
    trainer.beta = kl_coef
    trainer.epsilon_low, trainer.epsilon_high = CLIP_LOW, CLIP_HIGH
    if loss == "gspo":
        trainer.epsilon_low, trainer.epsilon_high = GSPO_CLIP_LOW, GSPO_CLIP_HIGH
    elif loss == "cispo":
        # The bound itself, not its distance from 1; there is none below.
        trainer.epsilon_high = 1 + CLIP_HIGH
    trainer.max_completion_length = MAX_COMPLETION_LENGTH
    trainer.importance_sampling_level = "sequence" if loss == "gspo" else "token"
    trainer.top_entropy_quantile = 1.0
    trainer.off_policy_mask_threshold = None
    trainer.aux_loss_enabled = trainer.use_adaptive_entropy = False
    trainer._entropy_bonus_enabled, trainer.entropy_coef = loss == "entropy", ENTROPY_COEF
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = loss == "truncated"
    trainer._metrics = {"train": defaultdict(list)}
    trainer._get_per_token_logps_and_entropies = lambda *_args, **_options: (
        logprobs,
        entropy,
        None,
    )
    return trainer


def trl_loss(tensors: Tensors, *, loss: str, kl_coef: float, split: list[list[int]]) -> dict[str, object]:
    """Loss of one optimiser step, summed over its micro-batches, and its gradient by log-probability."""
    logprobs = tensors["logprobs"].clone().requires_grad_()
    # TRL counts the trained tokens of the whole generation batch, before it is split.
    mask = tensors["completion_mask"] * tensors["tool_mask"]
    # As `_generate_and_score_completions` does in the mode `token_truncate`.
    engine_ratio = ((tensors["logprobs_old"] - tensors["logprobs_engine"]) * mask).exp().clamp(max=ENGINE_CAP)
    values = []
    for rows in split:
        options = {"loss": loss, "kl_coef": kl_coef, "micro_batches": len(split)}
        trainer = bare_trainer(logprobs[rows], entropy=tensors["entropy"][rows], **options)
        inputs = {
            "prompt_ids": torch.zeros((len(rows), 1), dtype=torch.int64),
            "prompt_mask": torch.ones((len(rows), 1), dtype=torch.int64),
            "completion_ids": torch.zeros((len(rows), max(LENGTHS)), dtype=torch.int64),
            "completion_mask": tensors["completion_mask"][rows],
            "tool_mask": tensors["tool_mask"][rows],
            "advantages": tensors["advantages"][rows],
            "old_per_token_logps": tensors["logprobs_old"][rows],
            "ref_per_token_logps": tensors["logprobs_reference"][rows],
            "num_items_in_batch": mask.sum(),
            "importance_sampling_ratio": engine_ratio[rows],
        }
        values.append(trainer._compute_loss(None, inputs))
    total = torch.stack(values).sum()
    total.backward()
    return {
        "loss": loss,
        "kl_coef": kl_coef,
        "split": split,
        "value": total.item(),
        "gradient": logprobs.grad.tolist(),
    }


def main() -> None:
    """Print inputs and values."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    tensors = draw_inputs()
    reference = {
        "trl": trl.__version__,
        "seed": SEED,
        "clip_low": CLIP_LOW,
        "clip_high": CLIP_HIGH,
        "max_completion_length": MAX_COMPLETION_LENGTH,
        "gspo_clip_low": GSPO_CLIP_LOW,
        "gspo_clip_high": GSPO_CLIP_HIGH,
        "engine_cap": ENGINE_CAP,
        "entropy_coef": ENTROPY_COEF,
        "overlong": [[*case, get_soft_overlong_punishment(*case[:2])([[1] * case[2]])[0]] for case in OVERLONG],
        "inputs": {name: tensor.tolist() for name, tensor in tensors.items()},
        "cases": [
            trl_loss(tensors, loss=loss, kl_coef=kl_coef, split=split)
            for loss, kl_coef, split in product(LOSSES, KL_COEFS, SPLITS)
            # TRL's bonus is a mean over each micro-batch, so that it depends on how a step is split.
            if loss != "entropy" or len(split) == 1
        ],
    }
    sys.stdout.write(json.dumps(reference, indent=1) + "\n")


if __name__ == "__main__":
    main()
