"""HFEngine against `model.generate`, side by side: `python tools/bench/rollout.py` (about three minutes on one core).

The baseline calls `model.generate` once a turn on all rows that wait, padded to one length: it keeps keys and values
within a turn, but computes the conversation anew each turn, and a prompt once for each member of a group. Both draw the
same numbers from the same distributions, so that they write the same episodes, and the time is all that differs; how
many episodes really are the same is printed. Repetitions of the two alternate, and a ratio is always of two neighbours.

`quickstart` is one batch of rollouts as in the quickstart, its tools live: 32 tasks of ToolWorld, 4 episodes each.
`long` has the prompts of agents with many tools, cut to 2048 tokens, 8 rows each, and in every row four turns of 16 to
48 tokens, each but the last followed by a result of 48 tokens.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast, final

import torch
from matplotlib.figure import Figure
from peft import PeftModel
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from streakline.environment.live import LiveEnvironment
from streakline.policy.config import PolicyConfig
from streakline.policy.load import load_policy
from streakline.rendering.create import create_renderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.renderer import Renderer
from streakline.rendering.tokenizer import load_tokenizer
from streakline.rollout.agent_loop import AgentLoop, EpisodeConfig
from streakline.rollout.draw import derive_seed, draw_tokens, uniforms
from streakline.rollout.engine import GenerationRequest, Respond, RolloutEngine
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Completion, Task

SAMPLING = SamplingPolicy(max_new_tokens=64, max_tokens=512)
EPISODE = EpisodeConfig(max_turns=8)
RENDERING = RenderingPolicy(schema_style="short")
LONG_TURNS = range(16, 49)
"""Tokens of a turn in `long`."""
LONG_RESULT = 48


@final
class Draws(LogitsProcessor):
    """Draws each row's token as HFEngine does, and leaves `generate` only that one to choose."""

    def __init__(self, requests: Sequence[GenerationRequest], *, sampling: SamplingPolicy, terminator_id: int) -> None:
        self._requests = requests
        self._numbers = [uniforms(request.seed, request.max_new_tokens) for request in requests]
        self._sampling = sampling
        self._terminator_id = terminator_id
        self.logprobs: list[list[float]] = []

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """[B, V] logits -> [B, V] of which only the drawn tokens are finite."""
        step = len(self.logprobs)
        tokens, logprobs = draw_tokens(
            scores,
            [numbers[step] if step < len(numbers) else 0.0 for numbers in self._numbers],
            sampling=self._sampling,
            terminator_ids=(self._terminator_id,),
            may_stop=[step >= request.min_new_tokens for request in self._requests],
        )
        self.logprobs.append(logprobs)
        drawn = torch.full_like(scores, -torch.inf).scatter_(1, torch.tensor(tokens)[:, None], 0.0)
        return cast("torch.FloatTensor", drawn)


@final
class GenerateEngine(RolloutEngine):
    """The baseline: all rows that wait take their next turn together, from the whole conversation."""

    def __init__(self, model: PreTrainedModel | PeftModel, *, terminator_id: int, pad_id: int) -> None:
        self._model = model.eval()
        self._terminator_id = terminator_id
        self._pad_id = pad_id

    def generate(self, requests: Sequence[GenerationRequest], respond: Respond, *, sampling: SamplingPolicy) -> None:
        """Run every row to its end, turn by turn."""
        waiting = dict(enumerate(requests))
        while waiting:
            completions = self._complete(list(waiting.values()), sampling)
            answers = {row: respond(row, done) for row, done in zip(waiting, completions, strict=True)}
            waiting = {row: request for row, request in answers.items() if request is not None}

    def sync_weights(self, version: int) -> None:
        """Nothing: the model itself is sampled from."""

    def _complete(self, requests: Sequence[GenerationRequest], sampling: SamplingPolicy) -> list[Completion]:
        width = max(len(request.prompt_ids) for request in requests)
        ids = torch.full((len(requests), width), self._pad_id)
        mask = torch.zeros_like(ids)
        for index, request in enumerate(requests):
            ids[index, width - len(request.prompt_ids) :] = torch.tensor(request.prompt_ids)
            mask[index, width - len(request.prompt_ids) :] = 1
        draws = Draws(requests, sampling=sampling, terminator_id=self._terminator_id)
        written = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=GenerationConfig(  # type: ignore[no-untyped-call]
                max_new_tokens=max(request.max_new_tokens for request in requests),
                do_sample=False,
                eos_token_id=self._terminator_id,
                pad_token_id=self._pad_id,
            ),
            logits_processor=LogitsProcessorList([draws]),
        )[:, width:].tolist()
        return [
            self._cut(tokens, [step[index] for step in draws.logprobs], limit=request.max_new_tokens)
            for index, (request, tokens) in enumerate(zip(requests, written, strict=True))
        ]

    def _cut(self, tokens: list[int], logprobs: list[float], *, limit: int) -> Completion:
        has_stopped = self._terminator_id in tokens[:limit]
        length = tokens.index(self._terminator_id) + 1 if has_stopped else min(limit, len(tokens))
        return Completion(
            token_ids=tuple(tokens[:length]),
            logprobs=tuple(logprobs[:length]),
            finish_reason="stop" if has_stopped else "length",
        )


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One batch of rollouts with one engine."""

    seconds: float
    tokens: int
    """Tokens sampled."""
    turns: float
    """Turns of an episode."""
    episodes: tuple[tuple[int, ...], ...]
    """Tokens of each."""


Measure: TypeAlias = Callable[[RolloutEngine, int], Measurement]
"""Rolls a batch out with an engine and a seed."""


def measure_tasks(
    engine: RolloutEngine, seed: int, *, renderer: Renderer, tasks: Sequence[Task], members: int
) -> Measurement:
    """Attempt each task `members` times."""
    loop = AgentLoop(engine=engine, renderer=renderer, sampling=SAMPLING, episode=EPISODE, run_seed=seed)
    started = time.perf_counter()
    groups = loop.run(tasks, num_samples=members, make_environment=LiveEnvironment, epoch=0)
    seconds = time.perf_counter() - started
    trajectories = [trajectory for group in groups for trajectory in group]
    return Measurement(
        seconds=seconds,
        tokens=loop.last_timing.generated_tokens,
        turns=statistics.mean(len(trajectory.turns) for trajectory in trajectories),
        episodes=tuple(sample.token_ids for trajectory in trajectories for sample in trajectory.samples),
    )


def measure_long(
    engine: RolloutEngine, seed: int, *, prompts: Sequence[tuple[int, ...]], members: int, turns: int
) -> Measurement:
    """Go on from each prompt `members` times, for turns and results of lengths that follow from the seed."""
    draw = random.Random(seed)
    rows = [prompt for prompt in prompts for _ in range(members)]
    lengths = [[draw.choice(LONG_TURNS) for _ in range(turns)] for _ in rows]
    written: list[list[Completion]] = [[] for _ in rows]

    def request(row: int) -> GenerationRequest:
        turn = len(written[row])
        length = lengths[row][turn]
        return GenerationRequest(
            prompt_ids=rows[row],
            seed=derive_seed(run_seed=seed, epoch=0, task_id="long", group_member=row, turn=turn),
            max_new_tokens=length,
            min_new_tokens=length,
        )

    def respond(row: int, completion: Completion) -> GenerationRequest | None:
        written[row].append(completion)
        start = draw_start(seed, row, len(written[row]), limit=len(rows[row]) - LONG_RESULT)
        rows[row] += completion.token_ids
        if len(written[row]) == turns:
            return None
        rows[row] += rows[row][start : start + LONG_RESULT]
        return request(row)

    started = time.perf_counter()
    engine.generate([request(row) for row in range(len(rows))], respond, sampling=SamplingPolicy())
    seconds = time.perf_counter() - started
    return Measurement(seconds=seconds, tokens=sum(map(sum, lengths)), turns=turns, episodes=tuple(rows))


def draw_start(seed: int, row: int, turn: int, *, limit: int) -> int:
    """Where in what a row has read the text stands that serves as its next result."""
    return random.Random(f"{seed}/{row}/{turn}").randrange(limit)


def share_equal(first: Sequence[Measurement], second: Sequence[Measurement]) -> float:
    """Share of the episodes in which both wrote the same tokens."""
    pairs = [
        one == other
        for left, right in zip(first, second, strict=True)
        for one, other in zip(left.episodes, right.episodes, strict=True)
    ]
    return sum(pairs) / len(pairs)


def spread(values: Sequence[float], digits: int) -> str:
    """Median, and from lowest to highest."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def print_table(runs: dict[str, list[Measurement]]) -> None:
    """One line for each engine."""
    print(f"{'engine':<16}{'seconds a batch':<26}{'tokens a second':<26}tokens a batch")
    for name, measurements in runs.items():
        seconds = spread([one.seconds for one in measurements], 2)
        rates = spread([one.tokens / one.seconds for one in measurements], 0)
        print(f"{name:<16}{seconds:<26}{rates:<26}{spread([float(one.tokens) for one in measurements], 0)}")


def compare(
    engines: Mapping[str, RolloutEngine], measure: Measure, *, repetitions: int
) -> tuple[dict[str, list[Measurement]], float]:
    """Print what each engine took for the same batches; gives that, and the median ratio."""
    runs: dict[str, list[Measurement]] = {name: [] for name in engines}
    for repetition in range(repetitions):
        # Each goes first in turn, so that a machine that slows down favours neither.
        for name in list(engines)[:: 1 if repetition % 2 == 0 else -1]:
            runs[name].append(measure(engines[name], repetition))
    ours, baseline = runs.values()
    print_table(runs)
    ratios = [slow.seconds / fast.seconds for fast, slow in zip(ours, baseline, strict=True)]
    print(
        f"model.generate takes {spread(ratios, 2)} times as long; {share_equal(ours, baseline):.1%} equal episodes of "
        f"{statistics.mean(one.turns for one in ours):.1f} turns\n",
        flush=True,
    )
    return runs, statistics.median(ratios)


def draw(batches: Mapping[str, Mapping[str, Sequence[Measurement]]], path: Path) -> None:
    """Bars of the tokens that each engine samples in a second, medians, for each kind of batch."""
    figure = Figure(figsize=(3 * len(batches), 3), layout="constrained")
    for axes, (name, runs) in zip(figure.subplots(1, len(batches)), batches.items(), strict=True):
        rates = [statistics.median(one.tokens / one.seconds for one in chosen) for chosen in runs.values()]
        axes.bar_label(axes.bar(list(runs), rates, color=["tab:blue", "tab:orange"]), [f"{rate:.0f}" for rate in rates])
        axes.set(title=name, ylabel="sampled tokens a second")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def long_prompts(model: str, *, count: int, length: int) -> list[tuple[int, ...]]:
    """The last `length` tokens of prompts with the benchmark's own schemas."""
    renderer = create_renderer(load_tokenizer(model), RenderingPolicy())
    distractors = length // 128  # a schema has about 130 tokens of the small tokenizer
    tasks = ToolWorldTaskSet(count, split="train", seed=1, schema="long", distractors=distractors).tasks()
    prompts = [tuple(renderer.prompt(task.requests[0], tools=task.tools, task_id=task.id)) for task in tasks]
    if (shortest := min(map(len, prompts))) < length:
        raise SystemExit(f"Expected prompts of {length} tokens, but got one of {shortest}")
    return [prompt[-length:] for prompt in prompts]


def main() -> None:
    """Measure, print, and write the figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="data/base", help="folder in the Hugging Face layout")
    parser.add_argument("--tasks", type=int, default=32, help="of quickstart")
    parser.add_argument("--members", type=int, default=4, help="episodes of each task of quickstart")
    parser.add_argument("--repetitions", type=int, default=3, help="of quickstart, each with draws of its own")
    parser.add_argument("--long-prompts", type=int, default=2, help="prompts of long")
    parser.add_argument("--long-length", type=int, default=2048, help="their tokens")
    parser.add_argument("--long-turns", type=int, default=4)
    parser.add_argument("--long-repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--picture", type=Path, default=Path("mlruns/bench/rollout.png"))
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    model = load_policy(PolicyConfig(name_or_path=arguments.model))
    renderer = create_renderer(load_tokenizer(arguments.model), RENDERING)
    end = renderer.terminator_id
    engines: dict[str, RolloutEngine] = {
        "HFEngine": HFEngine(model, (end,)),
        "model.generate": GenerateEngine(model, terminator_id=end, pad_id=renderer.tokenizer.pad_token_id),
    }
    tasks = ToolWorldTaskSet(arguments.tasks, split="train", seed=1).tasks()
    for engine in engines.values():  # imports, first allocations and HFEngine's check of itself are no part of a batch
        measure_tasks(engine, 0, renderer=renderer, tasks=tasks[:2], members=1)
    print(f"quickstart: {arguments.tasks} tasks x {arguments.members} episodes, {arguments.threads} thread(s)")
    short = partial(measure_tasks, renderer=renderer, tasks=tasks, members=arguments.members)
    short_runs, short_ratio = compare(engines, short, repetitions=arguments.repetitions)
    prompts = long_prompts(arguments.model, count=arguments.long_prompts, length=arguments.long_length)
    print(f"long: {len(prompts)} prompts of {arguments.long_length} tokens x 8 rows, {arguments.long_turns} turns")
    long = partial(measure_long, prompts=prompts, members=8, turns=arguments.long_turns)
    long_runs, ratio = compare(engines, long, repetitions=arguments.long_repetitions)
    draw({"quickstart": short_runs, "long": long_runs}, arguments.picture)
    print(f"picture in {arguments.picture}")
    if arguments.json:
        figures = {"rollout_ratio_short": round(short_ratio, 3), "rollout_ratio": round(ratio, 3)}
        arguments.json.write_text(json.dumps({"figures": figures}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
