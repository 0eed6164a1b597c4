"""What a cache changes in a rollout step: `python tools/bench/cached_rollouts.py --model <SFT export>`.

Two questions, on the tasks that the quickstart trains on:

1. Seconds and tool calls of a step whose tools run, with no latency and with some simulated, against one whose calls
   the frozen cache answers. Latency is slept in the call, one call after another, as this loop runs them. `at least` is
   what a loop that waits for all episodes side by side could not go below: the calls of the longest episode.
2. How alike the rewards of a group are where its members share a served result, and where each draws its own:
   intraclass correlation ICC(1) of the rewards, and the share of groups without contrast. Policy, tasks and seeds are
   the same. `recorded` is the reward of the cache, `replayed` runs the calls that were made in the simulators.

`python tools/build_cache.py --config configs/cache/quickstart.yaml` makes the cache.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from transformers.utils.logging import disable_progress_bar

from streakline.cache.lookup import CacheOptions
from streakline.environment.base import EnvironmentFactory
from streakline.environment.cached import CachedTools
from streakline.environment.live import call_fault
from streakline.policy.config import PolicyConfig
from streakline.policy.load import load_policy
from streakline.rendering.create import create_renderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.tokenizer import load_tokenizer
from streakline.rewards.base import RewardTerm
from streakline.rewards.recorded import RecordedSuccess
from streakline.rewards.success import StateSuccess
from streakline.rollout.agent_loop import AgentLoop, EpisodeConfig
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Task, Tier, Trajectory

SAMPLING = SamplingPolicy(max_new_tokens=64, max_tokens=512)
EPISODE = EpisodeConfig(max_turns=8)
RENDERING = RenderingPolicy(schema_style="short")
RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rollout step."""

    tools: str
    latency_s: float
    seconds: float
    tool_seconds: float
    """Part of `seconds` that was spent in tools or in the cache."""
    calls: int
    """Calls that tools ran, or the cache answered, misses included."""
    at_least_s: float
    """Latency of the longest episode."""


def make_loop(model_path: str) -> AgentLoop:
    """A loop around a policy, its engine warm."""
    renderer = create_renderer(load_tokenizer(model_path), RENDERING)
    engine = HFEngine(load_policy(PolicyConfig(name_or_path=model_path)), (renderer.terminator_id,))
    return AgentLoop(engine=engine, renderer=renderer, sampling=SAMPLING, episode=EPISODE, run_seed=0)


def measure(loop: AgentLoop, tools: EnvironmentFactory, *, name: str, latency_s: float, tasks: Sequence[Task]) -> Step:
    """Roll out the same step in a world."""
    started = time.perf_counter()
    groups = loop.run(tasks, num_samples=8, make_environment=tools, epoch=0)
    seconds = time.perf_counter() - started
    calls = [num_calls(task, item) for task, group in zip(tasks, groups, strict=True) for item in group]
    return Step(
        tools=name,
        latency_s=latency_s,
        seconds=seconds,
        tool_seconds=loop.last_timing.tool_seconds,
        calls=sum(calls),
        at_least_s=latency_s * max(calls),
    )


def num_calls(task: Task, trajectory: Trajectory) -> int:
    """Calls of an episode that were not refused for their form."""
    return sum(
        not call_fault(call, visible=task.visible_tools(turn.user_turn))
        for turn in trajectory.turns
        for call, _ in zip(turn.message.tool_calls, turn.results, strict=False)
    )


def icc(rewards: npt.NDArray[np.float64]) -> float:
    """ICC(1) of [groups, members] rewards (Shrout and Fleiss 1979), nan where all are equal."""
    members = rewards.shape[1]
    between = members * rewards.mean(axis=1).var(ddof=1)
    within = rewards.var(axis=1, ddof=1).mean()
    total = between + (members - 1) * within
    return float((between - within) / total) if total else float("nan")


def drawn_rewards(
    loop: AgentLoop, cache: Path, draw: Literal["shared", "independent"], *, tasks: Sequence[Task]
) -> dict[str, npt.NDArray[np.float64]]:
    """[tasks, members] rewards by name, and whether the episode was served something inexact."""
    options = replace(CacheOptions(), draw=draw)
    groups = loop.run(tasks, num_samples=8, make_environment=CachedTools(str(cache), options=options), epoch=0)
    terms: dict[str, RewardTerm] = {"recorded": RecordedSuccess(str(cache)), "replayed": StateSuccess()}
    pairs = list(zip(tasks, groups, strict=True))
    rewards = {
        name: np.array([[term.score(task, item) or 0.0 for item in group] for task, group in pairs])
        for name, term in terms.items()
    }
    return rewards | {"inexact": np.array([[float(is_inexact(item)) for item in group] for group in groups])}


def is_inexact(trajectory: Trajectory) -> bool:
    """Whether a result of the episode was recorded for another call or state."""
    return any(result.tier in (Tier.FUZZY, Tier.BEST_EFFORT) for turn in trajectory.turns for result in turn.results)


def compare_draws(loop: AgentLoop, cache: Path, *, tasks: Sequence[Task]) -> dict[str, float]:
    """Correlation of rewards with either draw, and their difference with its interval over tasks."""
    shared = drawn_rewards(loop, cache, "shared", tasks=tasks)
    independent = drawn_rewards(loop, cache, "independent", tasks=tasks)
    samples = np.random.default_rng(0).integers(len(tasks), size=(RESAMPLES, len(tasks)))
    figures = {"inexact_episodes": float(shared.pop("inexact").mean())}
    for name, first in shared.items():
        second = independent[name]
        low, high = np.nanquantile([icc(first[rows]) - icc(second[rows]) for rows in samples], [0.025, 0.975])
        figures |= {
            f"{name}_icc_shared": icc(first),
            f"{name}_icc_independent": icc(second),
            f"{name}_icc_difference": icc(first) - icc(second),
            f"{name}_icc_difference_low": float(low),
            f"{name}_icc_difference_high": float(high),
            f"{name}_zero_variance_shared": float((first.std(axis=1) == 0).mean()),
            f"{name}_zero_variance_independent": float((second.std(axis=1) == 0).mean()),
        }
    return figures


def print_steps(steps: Sequence[Step]) -> None:
    """A Markdown table."""
    print("| tools | latency, s | seconds a step | in tools, s | calls | at least, s |\n|---|---|---|---|---|---|")
    for step in steps:
        print(
            f"| {step.tools} | {step.latency_s:g} | {step.seconds:.1f} | {step.tool_seconds:.3f} | {step.calls} "
            f"| {step.at_least_s:.1f} |"
        )


def main() -> None:
    """Measure, print, and write the figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="data/base", help="folder in the Hugging Face layout")
    parser.add_argument("--cache", type=Path, default=Path("mlruns/cache/quickstart.sqlite"))
    parser.add_argument("--tasks", type=int, default=24, help="tasks of a step, 8 episodes each")
    parser.add_argument("--draw-tasks", type=int, default=192, help="tasks on which rewards are compared")
    parser.add_argument("--latencies", type=float, nargs="*", default=[0.0, 0.1], help="seconds that a call takes")
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    path, loop = str(arguments.cache), make_loop(arguments.model)
    tasks = ToolWorldTaskSet(192, split="train", seed=1).tasks()
    worlds: list[tuple[str, float, EnvironmentFactory]] = [("frozen cache", 0.0, CachedTools(path))]
    worlds += [("live", s, CachedTools(path, mode="live", latency_s=s, timeout_s=None)) for s in arguments.latencies]
    for name, _, tools in worlds[:2]:  # imports and first allocations are no part of a step
        measure(loop, tools, name=name, latency_s=0.0, tasks=tasks[:2])
    steps = [measure(loop, t, name=name, latency_s=s, tasks=tasks[: arguments.tasks]) for name, s, t in worlds]
    print_steps(steps)
    draws = compare_draws(loop, arguments.cache, tasks=tasks[: arguments.draw_tasks])
    print("\n" + "\n".join(f"{name}: {value:.3f}" for name, value in draws.items()))
    if arguments.json:
        figures: dict[str, float | None] = {
            f"seconds_{step.tools.split()[0]}_{step.latency_s:g}s": round(step.seconds, 3) for step in steps
        }
        figures |= {name: None if math.isnan(value) else round(value, 4) for name, value in draws.items()}
        arguments.json.write_text(json.dumps({"figures": figures}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
