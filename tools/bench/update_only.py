"""An update along prefix trees beside the same update on padded rows: `python tools/bench/update_only.py`.

One group at a time, random tokens: a prompt that all members share, and 48 to 64 tokens that each wrote. The model is a
Qwen3 of 17 million parameters with a vocabulary of 49 thousand. Timed are forward and backward passes:

- padded: a row for each member, logits only where a token is trained; left out where over a minute is predicted;
- tree: what `packing: auto` does; tree, m=4: the same on four of the members;
- floor: one causal row with as many tokens as the tree has distinct ones, and as many trained ones.

The last line is the quickstart's update: the rollouts of its base model, 24 tasks of 8 trajectories.

Repetitions of all alternate, and a ratio is always of neighbours. Seconds are of the processor, not of the clock: other
programs then matter less.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from peft import PeftModel
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar

from streakline.algorithms.logprobs import token_logprobs
from streakline.algorithms.prefix_tree import TreeCost
from streakline.data.packing import MicroBatch, micro_batches
from streakline.data.rows import TrainingRow, collate_rows, rows_of
from streakline.environment.live import LiveEnvironment
from streakline.errors import ConfigError
from streakline.policy.config import PolicyConfig
from streakline.policy.load import load_policy
from streakline.policy.tree_forward import enable_trees
from streakline.rendering.create import create_renderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.tokenizer import load_tokenizer
from streakline.rollout.agent_loop import AgentLoop, EpisodeConfig
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Sample

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "data" / "base"
MICRO_BATCH_TOKENS = 16384
"""The default of GRPOConfig."""
KEPT = 4
"""Members that down-sampling keeps."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Rows of one update."""

    name: str
    rows: Sequence[TrainingRow]
    kept: Sequence[TrainingRow]
    """After down-sampling."""
    is_group: bool
    """Whether all rows share one prompt; only then the floor says something."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a case took."""

    name: str
    seconds: dict[str, list[float]]
    """Way -> of each repetition."""
    share: float
    """Distinct tokens / tokens of padded rows."""
    gap_logprobs: float
    """Largest difference between tree and padded rows; nan where those were left out."""
    gap_gradient: float
    """Norm of the difference of the gradients, over the norm."""

    def ratio(self, way: str, other: str) -> float:
        """Median over repetitions of the seconds of one way over those of another; nan where one was left out."""
        pairs = zip(self.seconds.get(way, []), self.seconds.get(other, []), strict=False)
        return statistics.median([first / second for first, second in pairs] or [math.nan])


def make_model(hidden: int = 256, layers: int = 6, vocabulary: int = 49152) -> PreTrainedModel:
    """Random weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=max(hidden // 128, 1),
        head_dim=64,
        max_position_embeddings=16384,
        tie_word_embeddings=True,
    )
    model: PreTrainedModel = Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]
    return model


def group_case(prompt: int, members: int, *, vocabulary: int) -> Case:
    """One group; every fourth member begins as the one before it does."""
    draw = random.Random(f"{prompt}/{members}")

    def tokens(count: int) -> list[int]:
        return [draw.randrange(vocabulary) for _ in range(count)]

    shared, written = tokens(prompt), [tokens(draw.randint(48, 64)) for _ in range(members)]
    for member in range(1, members, 4):
        written[member][:5] = written[member - 1][:5]
    rows = [
        TrainingRow(
            sample=Sample(token_ids=(*shared, *own), loss_mask=(False,) * prompt + (True,) * len(own)), advantage=1.0
        )
        for own in written
    ]
    return Case(name=f"prompt {prompt}, n={members}", rows=rows, kept=rows[:KEPT], is_group=True)


def quickstart_case(model: PreTrainedModel | PeftModel, *, tasks: int, members: int) -> Case:
    """Rollouts of the quickstart's base model."""
    renderer = create_renderer(load_tokenizer(str(BASE)), RenderingPolicy(schema_style="short"))
    loop = AgentLoop(
        engine=HFEngine(model, (renderer.terminator_id,)),
        renderer=renderer,
        sampling=SamplingPolicy(max_new_tokens=64, max_tokens=512),
        episode=EpisodeConfig(max_turns=8),
        run_seed=0,
    )
    groups = loop.run(
        ToolWorldTaskSet(tasks, split="train", seed=1).tasks(),
        num_samples=members,
        make_environment=LiveEnvironment,
        epoch=0,
    )
    rows, kept = (
        rows_of(trajectories, [1.0] * len(trajectories))
        for trajectories in ([one for group in groups for one in group[:limit]] for limit in (members, KEPT))
    )
    return Case(name=f"quickstart, {tasks} x {members}", rows=rows, kept=kept, is_group=False)


def parts_of(rows: Sequence[TrainingRow], cost: TreeCost | None) -> list[MicroBatch]:
    """Micro-batches as a GRPO step has them."""
    return list(micro_batches([row.sample.token_ids for row in rows], max_tokens=MICRO_BATCH_TOKENS, cost=cost))


def update(
    model: PreTrainedModel | PeftModel, rows: Sequence[TrainingRow], cost: TreeCost | None
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Forward and backward passes; gives [T] log-probabilities of each row, and the gradient."""
    model.zero_grad()
    found: dict[int, torch.Tensor] = {}
    for part in parts_of(rows, cost):
        batch = collate_rows([rows[index] for index in part.indices], pad_id=0)
        logprobs = token_logprobs(
            model,
            input_ids=batch.input_ids,
            loss_mask=batch.loss_mask,
            tree=part.tree,
        ).logprobs
        # Rows weigh differently, so that none stands for another.
        (logprobs.sum(1) * torch.tensor([1.0 + index % 3 for index in part.indices])).sum().backward()  # type: ignore[no-untyped-call]
        found |= {index: logprobs[place].detach() for place, index in enumerate(part.indices)}
    ordered = [found[index][: len(row.sample.token_ids)] for index, row in enumerate(rows)]
    return ordered, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def floor_row(case: Case) -> TrainingRow:
    """One row with as many tokens, and as many trained ones, as the tree of a group."""
    distinct = {row.sample.token_ids[: end + 1] for row in case.rows for end in range(len(row.sample.token_ids))}
    trained = {
        row.sample.token_ids[: end + 1] for row in case.rows for end, kept in enumerate(row.sample.loss_mask) if kept
    }
    mask = (False,) * (len(distinct) - len(trained)) + (True,) * len(trained)
    return TrainingRow(sample=Sample(token_ids=tuple(place % 64 for place in range(len(mask))), loss_mask=mask))


def measure(
    case: Case, *, model: PreTrainedModel | PeftModel, cost: TreeCost, repetitions: int, limit: float
) -> Result:
    """Time every way, padded rows only if they are predicted to take less than `limit` seconds."""
    ways: dict[str, tuple[Sequence[TrainingRow], TreeCost | None]] = {"tree": (case.rows, cost)}
    ways["tree, m=4"] = (case.kept, cost)
    if case.is_group:
        ways["floor"] = ([floor_row(case)], None)
    started = time.process_time()
    packed = update(model, case.rows, cost)  # also the warm-up
    parts, padded = parts_of(case.rows, cost), parts_of(case.rows, None)
    trees = sum(cost.of_tree(part.tree) for part in parts if part.tree is not None)
    rows = sum(cost.of_rows(len(part.indices), part.num_padded // len(part.indices)) for part in padded)
    gaps = (math.nan, math.nan)
    if not trees or (time.process_time() - started) * rows / trees < limit:
        ways["padded"] = (case.rows, None)
        logprobs, gradient = update(model, case.rows, None)
        largest = max(float((a - b).abs().max()) for a, b in zip(packed[0], logprobs, strict=True))
        gaps = (largest, float((packed[1] - gradient).norm() / gradient.norm()))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for repetition in range(repetitions):
        # Each goes first in turn, so that a machine that slows down favours none.
        for name in list(ways)[:: 1 if repetition % 2 == 0 else -1]:
            started = time.process_time()
            update(model, *ways[name])
            seconds[name].append(time.process_time() - started)
    share = sum(part.num_tokens for part in parts) / sum(part.num_padded for part in padded)
    return Result(name=case.name, seconds=seconds, share=share, gap_logprobs=gaps[0], gap_gradient=gaps[1])


def print_table(results: Sequence[Result]) -> None:
    """One line for each case."""
    ways = ("padded", "tree", "tree, m=4", "floor")
    print(f"{'case':<22}{'share':>6}{''.join(f'{way:>11}' for way in ways)}{'padded/tree':>13}{'tree/floor':>12}  gaps")
    for one in results:
        medians = [f"{statistics.median(one.seconds[way]):.2f}" if way in one.seconds else "-" for way in ways]
        ratios = f"{one.ratio('padded', 'tree'):>13.2f}{one.ratio('tree', 'floor'):>12.2f}"
        cells = "".join(f"{cell:>11}" for cell in medians)
        print(f"{one.name:<22}{one.share:>6.2f}{cells}{ratios}  {one.gap_logprobs:.0e} {one.gap_gradient:.0e}")


def draw(results: dict[tuple[int, int], Result], path: Path) -> None:
    """How cost grows with the prompt, one panel for each size of a group."""
    sizes = sorted({members for _, members in results})
    figure = Figure(figsize=(4 * len(sizes), 3.6), layout="constrained")
    for place, members in enumerate(sizes):
        axes = figure.add_subplot(1, len(sizes), place + 1)
        for way in ("padded", "tree", "tree, m=4", "floor"):
            points = [
                (prompt, statistics.median(one.seconds[way]))
                for (prompt, size), one in sorted(results.items())
                if size == members and way in one.seconds
            ]
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", linestyle=":" if way == "floor" else "-", label=way)
        axes.set(xscale="log", yscale="log", title=f"n = {members}", xlabel="prompt tokens", ylabel="seconds")
    figure.axes[0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def figures_of(results: dict[tuple[int, int], Result], quickstart: Result) -> dict[str, float]:
    """What the JSON file holds."""
    everything = [*results.values(), quickstart]
    return {
        "update_over_floor": max(one.ratio("tree", "floor") for one in results.values()),
        "update_over_padded": max(one.ratio("tree", "padded") for one in everything if "padded" in one.seconds),
        "update_quickstart_speedup": quickstart.ratio("padded", "tree"),
        "logprob_gap": max(one.gap_logprobs for one in everything if "padded" in one.seconds),
        "gradient_gap": max(one.gap_gradient for one in everything if "padded" in one.seconds),
    }


def main() -> None:
    """Measure, print, draw, and write the figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, nargs="+", default=[64, 512, 1024, 2048, 8192], help="prompt tokens")
    parser.add_argument("--members", type=int, nargs="+", default=[4, 8, 32], help="sizes of a group, 4 or more")
    parser.add_argument("--quick", action="store_true", help="prompts of 64 and 512, groups of 8")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that an update on padded rows may take")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--picture", type=Path, default=ROOT / "mlruns" / "bench" / "update_only.png")
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    prompts, sizes = ([64, 512], [8]) if arguments.quick else (arguments.prompts, arguments.members)
    options = {"repetitions": arguments.repetitions, "limit": arguments.limit}

    model = make_model()
    cost = require_trees(model)
    results = {}
    for prompt in prompts:
        for members in sizes:
            case = group_case(prompt, members, vocabulary=model.config.vocab_size)
            results[prompt, members] = measure(case, model=model, cost=cost, **options)
    small = load_policy(PolicyConfig(name_or_path=str(BASE)))
    cost = require_trees(small)
    quickstart = measure(quickstart_case(small, tasks=24, members=8), model=small, cost=cost, **options)

    print_table([*results.values(), quickstart])
    draw(results, arguments.picture)
    figures = figures_of(results, quickstart)
    print(
        f"at most {figures['update_over_floor']:.2f} times the floor and {figures['update_over_padded']:.2f} times "
        f"padded rows; picture in {arguments.picture}"
    )
    if arguments.json:
        rounded = {name: float(f"{value:.4g}") for name, value in figures.items()}
        arguments.json.write_text(json.dumps({"figures": rounded}, indent=2) + "\n", encoding="utf-8")


def require_trees(model: PreTrainedModel | PeftModel) -> TreeCost:
    """What trees cost a model that can follow them."""
    cost = enable_trees(model)
    if cost is None:
        raise ConfigError("Expected a model that can follow trees, but got one that can't")
    return cost


if __name__ == "__main__":
    main()
