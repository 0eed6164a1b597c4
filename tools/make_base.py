"""Train the base checkpoint of the quickstart from scratch: `python tools/make_base.py` (25 to 35 minutes on one core).

Real users start from a base model that can copy and knows the format. Offline there is none small enough, so the
project makes its own: a Qwen3 of 0.67M parameters, trained on the tasks of base_tasks/, which share no phrase and no
value with any split of ToolWorld. First mostly dictated calls (copying appears suddenly, and only in varied data), then
mostly requests that name each step. Same seed, threads and versions give the same file; its SHA-256 and what it was
made with stand beside it in `base.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import transformers
from base_tasks import BaseTaskSet
from transformers import Qwen3Config, Qwen3ForCausalLM

from streakline.policy.export import export_policy
from streakline.rendering.chat_template import ChatTemplateRenderer
from streakline.rendering.encode import encode_conversation
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.tokenizer import load_tokenizer
from streakline.tasks.toolworld import demonstrate
from streakline.types import Sample


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides the weights."""

    seed: int = 1
    threads: int = 1
    tasks: tuple[int, ...] = (26_000, 24_000)
    """Demonstrations of each phase."""
    dictated_shares: tuple[float, ...] = (0.6, 0.3)
    """Share of dictated calls in each phase."""
    batch: int = 16
    muon_lr: float = 0.02
    adamw_lr: float = 4e-3
    other_weight: float = 0.1
    """Weight of the tokens that the assistant does not write: a little of them teaches the words faster."""
    layers: int = 3
    hidden: int = 128
    ffn: int = 256


_HELD_OUT_SEED = 777
_HELD_OUT_TASKS = 150


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal (Jordan et al. 2024), in float32: torch's own works in bfloat16, which CPUs do slowly.

    Args:
        parameters: Matrices.
        lr: Step size for a square matrix; a tall one takes sqrt(rows / columns) times as much.
        momentum: Nesterov momentum.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], *, lr: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update; matrices of one shape go through the iteration together."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[torch.nn.Parameter]] = {}
            for parameter in group["params"]:
                shapes.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in shapes.items():
                update = orthogonal(torch.stack([self._momentum(item, group["momentum"]) for item in parameters]))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, direction in zip(parameters, update, strict=True):
                    parameter.add_(direction, alpha=-scale)

    def _momentum(self, parameter: torch.nn.Parameter, momentum: float) -> torch.Tensor:
        buffer = self.state[parameter].setdefault("buffer", torch.zeros_like(parameter))
        buffer.mul_(momentum).add_(parameter.grad)
        return parameter.grad + momentum * buffer


def orthogonal(matrices: torch.Tensor, *, steps: int = 5) -> torch.Tensor:
    """[N, R, C] matrices -> nearly the closest (semi-)orthogonal ones, by the quintic Newton-Schulz iteration."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonal(matrices.transpose(1, 2), steps=steps).transpose(1, 2)
    result = matrices / (matrices.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(steps):
        gram = result @ result.transpose(1, 2)
        result = 3.4445 * result + (-4.7750 * gram + 2.0315 * gram @ gram) @ result
    return result


def encode_phase(recipe: Recipe, phase: int, renderer: ChatTemplateRenderer) -> list[Sample]:
    """Demonstrations of one phase as token sequences."""
    samples: list[Sample] = []
    share = recipe.dictated_shares[phase]
    for task in BaseTaskSet(recipe.tasks[phase], seed=recipe.seed + phase, dictated_share=share):
        shown = demonstrate(task, habits={}, seed=recipe.seed)
        trajectory = encode_conversation(
            renderer, shown.messages, tools=task.tools, task_id=task.id, revealed_tools=task.revealed_tools
        )
        samples.extend(trajectory.samples)
    return samples


def copied_share(model: Qwen3ForCausalLM, renderer: ChatTemplateRenderer, *, dictated_share: float) -> float:
    """Share of some 150 held-out token sequences of which the model's likeliest token is right at each assistant token.

    When copying appears depends on the seed and the order of the data: this tells a base that can from one that can't.
    """
    recipe = Recipe(seed=_HELD_OUT_SEED, tasks=(_HELD_OUT_TASKS,), dictated_shares=(dictated_share,))
    right: list[bool] = []
    for sample in encode_phase(recipe, 0, renderer):
        ids = torch.tensor(sample.token_ids)
        with torch.no_grad():
            likeliest = model(input_ids=ids[None]).logits[0, :-1].argmax(dim=-1)
        mask = torch.tensor(sample.loss_mask[1:])
        right.append(bool((likeliest == ids[1:])[mask].all()))
    return sum(right) / len(right)


def batches(samples: list[Sample], recipe: Recipe, rng: random.Random) -> Iterator[list[Sample]]:
    """One pass over the samples in batches of similar length."""
    order = list(samples)
    rng.shuffle(order)
    window = recipe.batch * 32
    for start in range(0, len(order), window):
        chunk = sorted(order[start : start + window], key=lambda sample: len(sample.token_ids))
        rows = [chunk[at : at + recipe.batch] for at in range(0, len(chunk), recipe.batch)]
        rng.shuffle(rows)
        yield from rows


def weighted_loss(model: Qwen3ForCausalLM, rows: list[Sample], *, other_weight: float) -> torch.Tensor:
    """Mean cross-entropy, the assistant's tokens with weight 1 and the others with `other_weight`."""
    length = max(len(row.token_ids) for row in rows)
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    weights = torch.zeros(len(rows), length)
    for index, row in enumerate(rows):
        ids[index, : len(row.token_ids)] = torch.tensor(row.token_ids)
        mask = torch.tensor(row.loss_mask, dtype=torch.float32)
        weights[index, : len(row.token_ids)] = mask + other_weight * (1 - mask)
    logits = model(input_ids=ids).logits[:, :-1]
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    wanted = weights[:, 1:].flatten()
    return (losses * wanted).sum() / wanted.sum()


def schedule(progress: float) -> float:
    """Warm up, hold, and fall by a cosine over the last half."""
    if progress < 0.5:
        return min(1.0, progress / 0.02)
    return 0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * (progress - 0.5) / 0.5))


def train(model: Qwen3ForCausalLM, phases: list[list[Sample]], recipe: Recipe) -> int:
    """Run all phases; returns the tokens seen."""
    inner = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    outer = [p for name, p in model.named_parameters() if not (p.ndim == 2 and "embed" not in name)]
    optimizers = [
        Muon(inner, lr=recipe.muon_lr),
        torch.optim.AdamW(outer, lr=recipe.adamw_lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    rates = (recipe.muon_lr, recipe.adamw_lr)
    total = sum(math.ceil(len(phase) / recipe.batch) for phase in phases)
    rng = random.Random(recipe.seed)
    step = tokens = 0
    started = time.monotonic()
    for phase in phases:
        for rows in batches(phase, recipe, rng):
            factor = schedule(step / total)
            for optimizer, rate in zip(optimizers, rates, strict=True):
                optimizer.param_groups[0]["lr"] = rate * factor
            loss = weighted_loss(model, rows, other_weight=recipe.other_weight)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            step += 1
            tokens += sum(len(row.token_ids) for row in rows)
            if step % 100 == 0 or step == total:
                seconds = time.monotonic() - started
                print(f"step {step}/{total}  loss {loss.item():.3f}  {tokens / seconds:.0f} tokens/s", flush=True)
    return tokens


def main() -> None:
    """Make the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("data/base"), help="folder with the tokenizer, written to")
    parser.add_argument("--tasks", type=int, nargs=2, default=None, help="demonstrations of each phase")
    parser.add_argument("--threads", type=int, default=1, help="torch threads; part of what decides the last bits")
    arguments = parser.parse_args()
    recipe = Recipe(threads=arguments.threads, **({"tasks": tuple(arguments.tasks)} if arguments.tasks else {}))
    torch.set_num_threads(recipe.threads)
    torch.manual_seed(recipe.seed)
    tokenizer = load_tokenizer(str(arguments.out))
    renderer = ChatTemplateRenderer(tokenizer, RenderingPolicy(schema_style="short"))
    phases = [encode_phase(recipe, phase, renderer) for phase in range(len(recipe.tasks))]
    lengths = [len(sample.token_ids) for phase in phases for sample in phase]
    print(f"{len(lengths)} demonstrations, {sum(lengths)} tokens", flush=True)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=recipe.hidden,
            intermediate_size=recipe.ffn,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.hidden // 32,
            num_key_value_heads=recipe.hidden // 32,
            head_dim=32,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    tokens = train(model, phases, recipe)
    export_policy(model, tokenizer, arguments.out)
    digest = hashlib.sha256((arguments.out / "model.safetensors").read_bytes()).hexdigest()
    record = {
        "sha256": digest,
        "tokens": tokens,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "copied": {
            name: copied_share(model, renderer, dictated_share=share)
            for name, share in (("dictated", 1.0), ("requests", 0.0))
        },
        "recipe": asdict(recipe),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    (arguments.out / "base.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"{arguments.out / 'model.safetensors'}: sha256 {digest}")


if __name__ == "__main__":
    main()
