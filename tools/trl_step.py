"""The TRL side of `tools/bench/grpo_step_vs_trl.py`, which starts it in a virtual environment of its own.

Trains a model for some GRPO steps on given prompts with TRL's own trainer, prints nothing, and leaves in a folder the
seconds that each step took, and one batch of rollouts with TRL's loss on it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

# TRL imports vLLM where it is installed; it is not used here.
sys.modules["vllm"] = None  # type: ignore[assignment]
from datasets import Dataset  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

NOISE = 0.6
"""Half the range of what separates old from current log-probabilities in the comparison of losses: wide enough that
clipping takes part."""


class Clock(TrainerCallback):
    """Wall and CPU seconds of each optimiser step, rollout included."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self._start = self._cpu_start = 0.0

    def on_step_begin(self, *_args: object, **_options: object) -> None:
        """Start."""
        self._start, self._cpu_start = time.perf_counter(), time.process_time()

    def on_step_end(self, *_args: object, **_options: object) -> None:
        """Stop."""
        self.seconds.append(time.perf_counter() - self._start)
        self.cpu_seconds.append(time.process_time() - self._cpu_start)


class TimedTrainer(GRPOTrainer):
    """TRL's trainer, which notes the seconds of its rollouts and keeps the last batch of them."""

    rollout_seconds: list[float]
    rollouts: dict[str, torch.Tensor]

    def _generate_and_score_completions(self, inputs: list[dict[str, object]]) -> dict[str, torch.Tensor]:
        start = time.perf_counter()
        self.rollouts = super()._generate_and_score_completions(inputs)
        self.rollout_seconds.append(time.perf_counter() - start)
        return self.rollouts


def reward(completion_ids: list[list[int]], **_columns: object) -> list[float]:
    """As `IdReward` of the other side."""
    return [sum(ids) % 97 / 97 for ids in completion_ids]


def make_trainer(options: dict[str, object], folder: Path) -> TimedTrainer:
    """TRL with its defaults, but in float32 and without recomputing activations, as the other side."""
    rows, members = int(options["prompts_a_step"]) * int(options["members"]), int(options["members"])
    config = GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=int(options["trl_rows"]),
        gradient_accumulation_steps=rows // int(options["trl_rows"]),
        num_generations=members,
        max_completion_length=int(options["completion"]),
        max_steps=len(options["prompts"]) // int(options["prompts_a_step"]),
        learning_rate=float(options["lr"]),
        lr_scheduler_type="constant",
        shuffle_dataset=False,
        seed=int(options["seed"]),
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    model = AutoModelForCausalLM.from_pretrained(options["model"], dtype=torch.float32, attn_implementation="sdpa")
    trainer = TimedTrainer(
        model=model,
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in options["prompts"]]),
        processing_class=AutoTokenizer.from_pretrained(options["model"]),
    )
    trainer.rollout_seconds = []
    return trainer


def loss_on_rollouts(trainer: TimedTrainer, *, rows: int) -> dict[str, object]:
    """TRL's loss and norm of the gradient on the last rollouts, from old log-probabilities that are not the current."""
    model, rollouts = trainer.model, trainer.rollouts
    mask = rollouts["completion_mask"]
    ids = torch.cat([rollouts["prompt_ids"], rollouts["completion_ids"]], dim=1)
    attention = torch.cat([rollouts["prompt_mask"], mask], dim=1)
    parts = range(0, len(ids), rows)
    trainer.current_gradient_accumulation_steps = len(parts)
    model.train()
    model.zero_grad()
    loss, old = 0.0, []
    generator = torch.Generator().manual_seed(0)
    for start in parts:
        part = slice(start, start + rows)
        with torch.no_grad():
            current, *_ = trainer._get_per_token_logps_and_entropies(model, ids[part], attention[part], mask.shape[1])
        old.append(current + NOISE * (2 * torch.rand(current.shape, generator=generator) - 1))
        inputs = {
            name: value if name == "num_items_in_batch" else value[part]
            for name, value in rollouts.items()
            if name == "num_items_in_batch" or isinstance(value, torch.Tensor)
        }
        value = trainer._compute_loss(model, inputs | {"old_per_token_logps": old[-1]})
        value.backward()
        loss += value.item()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    return {
        "prompt_ids": [row[kept.bool()].tolist() for row, kept in zip(ids, _prompts(rollouts), strict=True)],
        "completion_ids": [
            row[kept.bool()].tolist() for row, kept in zip(rollouts["completion_ids"], mask, strict=True)
        ],
        "advantages": rollouts["advantages"].tolist(),
        "old_logprobs": torch.cat(old).tolist(),
        "loss": loss,
        "grad_norm": norm.item(),
    }


def _prompts(rollouts: dict[str, torch.Tensor]) -> torch.Tensor:
    """[B, P + T]: where prompts and completions put together hold a prompt."""
    return torch.cat([rollouts["prompt_mask"], torch.zeros_like(rollouts["completion_ids"])], dim=1)


def main() -> None:
    """Train, measure, and write `trl.json`, and the model that it ends with, into the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="has options.json; gets trl.json and trained/")
    folder = parser.parse_args().folder
    options = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    torch.set_num_threads(int(options["threads"]))
    trainer, clock = make_trainer(options, folder), Clock()
    trainer.add_callback(clock)
    trainer.train()
    results: dict[str, object] = {
        "seconds": clock.seconds,
        "cpu_seconds": clock.cpu_seconds,
        "rollout_seconds": trainer.rollout_seconds,
        "completion_lengths": trainer.rollouts["completion_mask"].sum(1).tolist(),
    }
    if options["compare_losses"]:
        results["rollouts"] = loss_on_rollouts(trainer, rows=int(options["trl_rows"]))
        trainer.model.save_pretrained(folder / "trained")
        trainer.processing_class.save_pretrained(folder / "trained")
    (folder / "trl.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
