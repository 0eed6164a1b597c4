"""HFEngine against `model.generate`, side by side: `python tools/bench/engine.py` (under a minute on one core).

One batch of rollouts as in the quickstart, its tools live: 32 tasks of ToolWorld, 4 episodes each. The baseline calls
`model.generate` once a turn on all rows that wait, padded to one length: it keeps keys and values within a turn, but
computes the conversation anew each turn, and a prompt once for each member of a group. Both draw the same numbers from
the same distributions, so that they write the same episodes, and the time is all that differs; how many episodes really
are the same is printed. Repetitions of the two alternate, and a ratio is always of two neighbours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast, final

import torch
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
from streakline.rollout.draw import draw_tokens, uniforms
from streakline.rollout.engine import GenerationRequest, Respond, RolloutEngine
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Completion, Task, Trajectory

SAMPLING = SamplingPolicy(max_new_tokens=64, max_tokens=512)
EPISODE = EpisodeConfig(max_turns=8)
RENDERING = RenderingPolicy(schema_style="short")


@final
class Draws(LogitsProcessor):
    """Draws each row's token as HFEngine does, and leaves `generate` only that one to choose."""

    def __init__(self, requests: Sequence[GenerationRequest], *, sampling: SamplingPolicy, terminator_id: int) -> None:
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
            may_stop=[True] * len(self._numbers),
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

    @property
    def weight_version(self) -> int:
        """Always the first."""
        return 0

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
    trajectories: tuple[Trajectory, ...]


def measure(
    engine: RolloutEngine, *, renderer: Renderer, tasks: Sequence[Task], members: int, seed: int
) -> Measurement:
    """Attempt each task `members` times."""
    loop = AgentLoop(engine=engine, renderer=renderer, sampling=SAMPLING, episode=EPISODE, run_seed=seed)
    started = time.perf_counter()
    groups = loop.run(tasks, num_samples=members, make_environment=LiveEnvironment, epoch=0)
    return Measurement(
        seconds=time.perf_counter() - started,
        tokens=loop.last_timing.generated_tokens,
        trajectories=tuple(trajectory for group in groups for trajectory in group),
    )


def share_equal(first: Sequence[Measurement], second: Sequence[Measurement]) -> float:
    """Share of the episodes in which both wrote the same tokens."""
    pairs = [
        [sample.token_ids for sample in one.samples] == [sample.token_ids for sample in other.samples]
        for left, right in zip(first, second, strict=True)
        for one, other in zip(left.trajectories, right.trajectories, strict=True)
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


def main() -> None:
    """Measure, print, and write the figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="data/base", help="folder in the Hugging Face layout")
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--members", type=int, default=4, help="episodes of each task")
    parser.add_argument("--repetitions", type=int, default=3, help="each with draws of its own")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
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
        measure(engine, renderer=renderer, tasks=tasks[:2], members=1, seed=0)
    runs: dict[str, list[Measurement]] = {name: [] for name in engines}
    for repetition in range(arguments.repetitions):
        # Each goes first in turn, so that a machine that slows down favours neither.
        for name in list(engines)[:: 1 if repetition % 2 == 0 else -1]:
            runs[name].append(
                measure(engines[name], renderer=renderer, tasks=tasks, members=arguments.members, seed=repetition)
            )
    ours, baseline = runs.values()
    turns = [len(trajectory.turns) for one in ours for trajectory in one.trajectories]
    print(
        f"{arguments.tasks} tasks x {arguments.members} episodes, {statistics.mean(turns):.1f} turns each, "
        f"{arguments.threads} thread(s); median (lowest to highest) of {arguments.repetitions}"
    )
    print_table(runs)
    ratios = [slow.seconds / fast.seconds for fast, slow in zip(ours, baseline, strict=True)]
    print(f"model.generate takes {spread(ratios, 2)} times as long; {share_equal(ours, baseline):.1%} equal episodes")
    if arguments.json:
        figures = {"rollout_ratio_short": round(statistics.median(ratios), 3)}
        arguments.json.write_text(json.dumps({"figures": figures}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
