"""One GRPO step, rollout and update, beside the same step of TRL 1.16: `make bench-trl` (`QUICK=1` = prompt 512 alone).

Both train the same Qwen3 of 17 million parameters with a vocabulary of 49 thousand, from the same weights, in float32,
on the same four prompts a step, eight completions each, every completion 48 tokens long. Prompts are random words and
have next to nothing in common, so that only the members of a group share one. Each side runs in a process of its own,
with its own trainer: Lightning with `GRPOModule`, and TRL's `GRPOTrainer`. A first step on short prompts is not
counted. Processes alternate: streakline before and after each run of TRL. CPU seconds stand beside those on the clock,
since other programs on the machine disturb them less.

TRL's last rollouts, with advantages and old log-probabilities, are then given to `GRPOModule` as a rollout batch under
training, on the weights that TRL ended with, and the losses are compared.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast, final

import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from matplotlib.figure import Figure
from torch.utils.data import DataLoader, Dataset
from transformers import AutoTokenizer
from update_only import make_model

from streakline.data.tasks import TaskDataModule
from streakline.errors import ConfigError, StreaklineError
from streakline.modules.buffer import BufferState
from streakline.modules.grpo import GRPOModule
from streakline.modules.grpo_config import GRPOConfig
from streakline.policy.config import PolicyConfig
from streakline.rendering.create import create_renderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.renderer import Renderer
from streakline.rendering.tokenizer import load_tokenizer
from streakline.rewards.base import Reward, RewardTerm
from streakline.rollout.agent_loop import EpisodeConfig
from streakline.rollout.sampling import SamplingPolicy
from streakline.tasks.base import ListTaskSet
from streakline.types import Message, Role, Task, Trajectory

ROOT = Path(__file__).resolve().parents[2]
PROMPTS, MEMBERS, COMPLETION = 4, 8, 48
WARM_UP = 64
"""Prompt tokens of the step that is not counted."""
VOCABULARY = 49152
LR = 1e-6
TRL_ROWS = 8
"""Rows of one of TRL's forward passes: its default, and on two cores no slower than more."""
TOKENIZER = ROOT / "data" / "base"


@final
class IdReward(RewardTerm):
    """A number in [0, 1) that follows from the sampled ids: contrast in every group."""

    def score(self, task: Task, trajectory: Trajectory) -> float:
        """Sum of the ids modulo 97, over 97."""
        sample = trajectory.samples[-1]
        return sum(token for token, kept in zip(sample.token_ids, sample.loss_mask, strict=True) if kept) % 97 / 97


@final
class Clock(Callback):
    """Wall and CPU seconds of each step, and what of them the ledger says of its parts."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self.rollout_seconds: list[float] = []
        self.completion_lengths: list[float] = []
        self._start = self._cpu_start = 0.0

    def on_train_batch_start(self, *_args: object) -> None:
        """Start."""
        self._start, self._cpu_start = time.perf_counter(), time.process_time()

    def on_train_batch_end(self, trainer: Trainer, *_args: object) -> None:
        """Stop."""
        self.seconds.append(time.perf_counter() - self._start)
        self.cpu_seconds.append(time.process_time() - self._cpu_start)
        self.rollout_seconds.append(float(trainer.callback_metrics["time/rollout"]))
        self.completion_lengths.append(float(trainer.callback_metrics["train/sampled_tokens"]))


def write_model(folder: Path, *, hidden: int = 256, layers: int = 6, vocabulary: int = VOCABULARY) -> None:
    """Save a model with random weights, and a tokenizer whose ids it understands."""
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    model = make_model(hidden, layers, vocabulary)
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_renderer(model: str) -> Renderer:
    """How prompts are written."""
    return create_renderer(load_tokenizer(model), RenderingPolicy())


def make_tasks(renderer: Renderer, *, length: int, count: int, seed: int) -> list[Task]:
    """Tasks whose prompts are of exactly `length` tokens."""
    return [_task(renderer, length, f"{seed}/{length}/{index}") for index in range(count)]


def _task(renderer: Renderer, length: int, name: str) -> Task:
    draw = random.Random(name)
    words: list[str] = []

    def task(words: Sequence[str]) -> Task:
        request = (Message(role=Role.USER, content=" ".join(words)),)
        return Task(id=f"bench/{name}", source="bench", kind="words", tools=(), requests=(request,))

    while len(prompt_of(renderer, task(words))) < length - 12:
        words += ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 7)))]
    # " a" is one token.
    words += ["a"] * (length - len(prompt_of(renderer, task([*words, "a"]))) + 1)
    if len(prompt_of(renderer, task(words))) != length:
        raise ConfigError(f"Expected a prompt of {length} tokens to be possible, but got another length")
    return task(words)


def prompt_of(renderer: Renderer, task: Task) -> tuple[int, ...]:
    """[T] the ids that both sides start from."""
    return tuple(renderer.prompt(task.requests[0], tools=(), task_id=task.id))


def make_module(model: str, *, length: int, threads: int) -> GRPOModule:
    """As a user would write it in a config, everything else at its default."""
    torch.set_num_threads(threads)
    return GRPOModule(
        policy=PolicyConfig(name_or_path=model),
        reward=Reward({"ids": IdReward()}),
        # The completion, and a terminator of ours behind it.
        sampling=SamplingPolicy(max_new_tokens=COMPLETION, max_tokens=max(length, WARM_UP) + COMPLETION + 1),
        episode=EpisodeConfig(mode="turn"),
        grpo=GRPOConfig(group_size=MEMBERS),
        optimizer=partial(torch.optim.AdamW, lr=LR, weight_decay=0.0),
    )


def fit(
    module: LightningModule, data: LightningDataModule | DataLoader[list[Task]], folder: Path, *callbacks: Callback
) -> Trainer:
    """Train without logs, checkpoints and validation."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for message in ("does not have many workers", "LeafSpec", "You defined a `validation_step`"):
        warnings.filterwarnings("ignore", message=f".*{message}")
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=1,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        default_root_dir=folder,
        callbacks=list(callbacks),
    )
    trainer.fit(module, data)
    return trainer


def our_side(folder: Path) -> None:
    """Take the steps that `options.json` asks for, and write `streakline.json`."""
    options = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    renderer = make_renderer(options["model"])
    tasks = options_tasks(renderer, options)
    module = make_module(options["model"], length=options["length"], threads=options["threads"])
    data = TaskDataModule(train=ListTaskSet(tasks), batch_size=PROMPTS, shuffle=False)
    clock = Clock()
    fit(module, data, folder, clock)
    results = {
        name: getattr(clock, name) for name in ("seconds", "cpu_seconds", "rollout_seconds", "completion_lengths")
    }
    (folder / "streakline.json").write_text(json.dumps(results), encoding="utf-8")


def options_tasks(renderer: Renderer, options: dict[str, Any]) -> list[Task]:
    """Short prompts to warm up, and then those of the counted steps."""
    first = make_tasks(renderer, length=WARM_UP, count=PROMPTS, seed=options["seed"])
    return first + make_tasks(
        renderer, length=options["length"], count=PROMPTS * options["steps"], seed=options["seed"]
    )


def our_loss(rollouts: dict[str, Any], *, model: str, folder: Path, threads: int) -> dict[str, float]:
    """`loss` and `grad_norm` of a step of `GRPOModule` on rollouts of another trainer."""
    pairs = list(zip(rollouts["prompt_ids"], rollouts["completion_ids"], strict=True))
    old = [values[: len(ids)] for values, ids in zip(rollouts["old_logprobs"], rollouts["completion_ids"], strict=True)]
    lengths = [len(prompt) + len(completion) for prompt, completion in pairs]
    trained = [[False] * len(prompt) + [True] * len(completion) for prompt, completion in pairs]
    logprobs = [value for (prompt, _), row in zip(pairs, old, strict=True) for value in [0.0] * len(prompt) + row]
    buffer: BufferState = {
        "lengths": torch.tensor(lengths),
        "token_ids": torch.tensor([token for prompt, completion in pairs for token in prompt + completion]),
        "loss_mask": torch.tensor([value for row in trained for value in row]),
        "logprobs_engine": torch.tensor(logprobs, dtype=torch.float64),
        "logprobs_old": torch.tensor(logprobs, dtype=torch.float32),
        "advantages": torch.tensor(rollouts["advantages"], dtype=torch.float64),
        "trajectory_index": torch.arange(len(pairs)),
        "num_barred": torch.zeros(len(pairs), dtype=torch.int64),
        "updates_left": 1,
    }
    module = make_module(model, length=max(lengths), threads=threads)
    module.load_extra_state({"rollout_step": 1, "empty_steps": 0, "rollout_values": {}, "buffer": buffer})
    # One empty batch = train on the rollouts at hand.
    metrics = fit(module, DataLoader(cast("Dataset[list[Task]]", [[]]), batch_size=None), folder).callback_metrics
    return {"loss": float(metrics["train/loss"]), "grad_norm": float(metrics["train/grad_norm"])}


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The counted steps of one side at one prompt length."""

    length: int
    """Prompt tokens."""
    side: str
    """`streakline` or `TRL`."""
    seconds: tuple[float, ...]
    """Of each step."""
    cpu_seconds: tuple[float, ...]
    """What of it the process was computing, over all its threads."""
    rollout_seconds: tuple[float, ...]
    """What of it was the rollout."""

    @property
    def mean(self) -> float:
        """Seconds a step."""
        return statistics.mean(self.seconds)

    @property
    def cpu(self) -> float:
        """CPU seconds a step."""
        return statistics.mean(self.cpu_seconds)

    @property
    def rollout(self) -> float:
        """Rollout seconds a step."""
        return statistics.mean(self.rollout_seconds)


def run_side(command: Sequence[str], folder: Path, result: str) -> dict[str, Any]:
    """Run one side in a process of its own."""
    done = subprocess.run(
        [*command, str(folder)], check=False, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    if done.returncode:
        raise ConfigError(f"Expected {command[-1]} to work, but got:\n{done.stderr.decode()[-2000:]}")
    return cast("dict[str, Any]", json.loads((folder / result).read_text(encoding="utf-8")))


def measured(length: int, side: str, *runs: dict[str, Any]) -> Measurement:
    """Drop the step that warmed up, and check that both sides wrote as much."""
    for run in runs:
        if set(run["completion_lengths"]) != {COMPLETION}:
            raise ConfigError(f"Expected completions of {COMPLETION} tokens, but got {run['completion_lengths']}")
    return Measurement(
        length=length,
        side=side,
        seconds=tuple(second for run in runs for second in run["seconds"][1:]),
        cpu_seconds=tuple(second for run in runs for second in run["cpu_seconds"][1:]),
        rollout_seconds=tuple(second for run in runs for second in run["rollout_seconds"][1:]),
    )


def compare(
    length: int, *, model: Path, folder: Path, trl_python: Path, arguments: argparse.Namespace, compare_losses: bool
) -> tuple[list[Measurement], dict[str, float]]:
    """Both sides at one prompt length, and, where asked for, how far losses and gradients are apart."""
    renderer = make_renderer(str(model))
    options = {
        "model": str(model),
        "length": length,
        "steps": arguments.steps,
        "threads": arguments.threads,
        "seed": arguments.seed,
        "lr": LR,
        "members": MEMBERS,
        "completion": COMPLETION,
        "prompts_a_step": PROMPTS,
        "trl_rows": TRL_ROWS,
        "compare_losses": compare_losses,
    }
    tasks = options_tasks(renderer, options)
    prompts = [prompt_of(renderer, task) for task in tasks]
    options["prompts"] = [renderer.tokenizer.decode(list(prompt)) for prompt in prompts]
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    ours = [sys.executable, str(ROOT / "tools" / "bench" / "grpo_step_vs_trl.py"), "--side"]
    first = run_side(ours, folder, "streakline.json")
    trl = run_side([str(trl_python), str(ROOT / "tools" / "trl_step.py")], folder, "trl.json")
    second = run_side(ours, folder, "streakline.json")
    measurements = [measured(length, "streakline", first, second), measured(length, "TRL", trl)]
    differences: dict[str, float] = {}
    if compare_losses:
        rollouts = trl["rollouts"]
        if {tuple(ids) for ids in rollouts["prompt_ids"]} != set(prompts[-PROMPTS:]):
            raise ConfigError("Expected TRL to read the prompts as they were rendered, but got other tokens")
        own = our_loss(rollouts, model=str(folder / "trained"), folder=folder, threads=arguments.threads)
        print(f"loss on the same rollouts: streakline {own['loss']:.7f}, TRL {rollouts['loss']:.7f}; ", end="")
        print(f"norm of the gradient: {own['grad_norm']:.6f}, {rollouts['grad_norm']:.6f}", flush=True)
        differences = {
            "loss_difference_trl": abs(own["loss"] - rollouts["loss"]),
            "grad_norm_difference_trl": abs(own["grad_norm"] - rollouts["grad_norm"]) / rollouts["grad_norm"],
        }
    return measurements, differences


def print_rows(pair: Sequence[Measurement]) -> None:
    """Two lines of a Markdown table."""
    ours, trl = pair
    for one in pair:
        spread = f"{min(one.seconds):.1f} to {max(one.seconds):.1f}" if len(one.seconds) > 1 else ""
        parts = [f"{value:.2f}" for value in (one.mean, one.rollout, one.mean - one.rollout, one.cpu)]
        ratios = [f"{trl.mean / ours.mean:.2f}", f"{trl.cpu / ours.cpu:.2f}"] if one is trl else ["", ""]
        print("| " + " | ".join([str(one.length), one.side, *parts, spread, *ratios]) + " |", flush=True)


def draw(measurements: Sequence[Measurement], path: Path) -> None:
    """Bars of both sides, rollout and update on top of each other."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    lengths = sorted({one.length for one in measurements})
    for shift, side, colour in ((-0.2, "streakline", "tab:blue"), (0.2, "TRL", "tab:orange")):
        chosen = [one for one in measurements if one.side == side]
        places = [lengths.index(one.length) + shift for one in chosen]
        rollout, update = [one.rollout for one in chosen], [one.mean - one.rollout for one in chosen]
        axes.bar(places, rollout, 0.36, color=colour, alpha=0.5, label=f"{side}, rollout")
        bars = axes.bar(places, update, 0.36, bottom=rollout, color=colour, label=f"{side}, update")
        axes.bar_label(bars, [f"{one.mean:.1f}" for one in chosen], fontsize=8)
    axes.set(xticks=range(len(lengths)), xticklabels=lengths, xlabel="prompt tokens", ylabel="seconds a GRPO step")
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl-python", type=Path, default=ROOT / ".venv-trl" / "bin" / "python")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048], help="prompt tokens")
    parser.add_argument("--quick", action="store_true", help="prompt 512 alone")
    parser.add_argument("--steps", type=int, default=1, help="counted steps of each process")
    parser.add_argument("--threads", type=int, default=1, help="of torch, on both sides")
    parser.add_argument("--seed", type=int, default=0, help="of prompts and draws")
    parser.add_argument("--picture", type=Path, default=ROOT / "mlruns" / "bench" / "grpo_step_vs_trl.png")
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    parser.add_argument("--side", type=Path, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, print, draw, and write the figures where asked to."""
    arguments = parse_arguments()
    if arguments.side:
        our_side(arguments.side)
        return
    if not arguments.trl_python.is_file():
        raise SystemExit(f"Expected TRL's environment, but there is no {arguments.trl_python}: run `make bench-trl`")
    lengths = [512] if arguments.quick else arguments.lengths
    figures: dict[str, float] = {}
    measurements: list[Measurement] = []
    folder = Path(tempfile.mkdtemp())
    try:
        write_model(folder / "model")
        print(f"{PROMPTS} prompts x {MEMBERS} completions of {COMPLETION} tokens, {arguments.threads} thread(s)")
        print(
            "| prompt | trainer | seconds a step | rollout | update | CPU s | lowest to highest | ratio | CPU ratio |"
        )
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        for length in lengths:
            pair, differences = compare(
                length,
                model=folder / "model",
                folder=folder,
                trl_python=arguments.trl_python,
                arguments=arguments,
                compare_losses=length == lengths[0],
            )
            print_rows(pair)
            measurements += pair
            figures |= {f"trl_ratio_{length}": round(pair[1].mean / pair[0].mean, 3), **differences}
            figures[f"trl_cpu_ratio_{length}"] = round(pair[1].cpu / pair[0].cpu, 3)
    except StreaklineError as error:
        raise SystemExit(str(error)) from error
    finally:
        shutil.rmtree(folder)
    draw(measurements, arguments.picture)
    print(f"loss difference {figures['loss_difference_trl']:.1e}; picture in {arguments.picture}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"figures": figures}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
