"""Many episodes at once: one engine call, in which every row goes on as soon as its own tools have answered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import final

from streakline.environment.base import Environment, EnvironmentFactory
from streakline.errors import ConfigError
from streakline.rendering.renderer import Renderer
from streakline.rollout.draw import derive_seed
from streakline.rollout.engine import RolloutEngine
from streakline.rollout.episode import Episode, opening_messages, opening_tools
from streakline.rollout.episode import EpisodeConfig as EpisodeConfig
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Task, Trajectory

_WORLD = -1
"""Stands for the turn in the seed of what a world draws."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutTiming:
    """Where the time of a rollout went."""

    seconds: float
    """Wall time of all."""
    tool_seconds: float
    """Part of it that was spent in environments."""
    generated_tokens: int
    """Tokens sampled."""
    injected_tokens: int
    """Tokens of tool results and later requests that were fed, prompts apart."""


_NO_TIME = RolloutTiming(seconds=0.0, tool_seconds=0.0, generated_tokens=0, injected_tokens=0)


@final
@dataclass(kw_only=True)
class AgentLoop:
    """Attempts tasks with a policy; `run_seed`, epoch, task, member and turn give every draw.

    Example:
        Two members of each of two groups, without a model::

            loop = AgentLoop(engine=ScriptedEngine(...), renderer=renderer, sampling=SamplingPolicy(),
                             episode=EpisodeConfig(), run_seed=0)
            groups = loop.run([task_a, task_b], num_samples=2, make_environment=LiveEnvironment, epoch=0)
            groups[1][0].termination  # first member on task_b
    """

    engine: RolloutEngine
    renderer: Renderer
    sampling: SamplingPolicy
    episode: EpisodeConfig
    run_seed: int
    last_timing: RolloutTiming = field(default=_NO_TIME, init=False)
    """Of the last `run`."""

    def run(
        self, tasks: Sequence[Task], *, num_samples: int, make_environment: EnvironmentFactory, epoch: int
    ) -> list[list[Trajectory]]:
        """Attempt each task `num_samples` times: [tasks][num_samples] trajectories.

        Whatever goes wrong inside one is its termination.

        Raises:
            ConfigError: If `num_samples` is not positive or a task comes twice.
            EngineError: If the engine fails as a whole.
        """
        if num_samples < 1:
            raise ConfigError(f"Expected `num_samples` to be at least 1, but got {num_samples}")
        if len({task.id for task in tasks}) < len(tasks):
            raise ConfigError("Expected `tasks` to have different ids, but got one twice: its draws would be equal")
        started = time.perf_counter()
        episodes = [
            episode for task in tasks for episode in self._episodes(task, num_samples, make_environment, epoch=epoch)
        ]
        running = [(episode, request) for episode in episodes if (request := episode.start()) is not None]
        if running:
            self.engine.generate(
                [request for _, request in running],
                lambda row, completion: running[row][0].advance(completion),
                sampling=self.sampling,
            )
        trajectories = [episode.trajectory() for episode in episodes]
        self.last_timing = RolloutTiming(
            seconds=time.perf_counter() - started,
            tool_seconds=sum(episode.tool_seconds for episode in episodes),
            generated_tokens=sum(episode.generated_tokens for episode in episodes),
            injected_tokens=sum(episode.injected_tokens for episode in episodes),
        )
        return [trajectories[start : start + num_samples] for start in range(0, len(trajectories), num_samples)]

    def _episodes(
        self, task: Task, num_samples: int, make_environment: EnvironmentFactory, *, epoch: int
    ) -> list[Episode]:
        mode = self.episode.mode
        prompt = self.renderer.prompt(
            opening_messages(task, mode=mode), tools=opening_tools(task, mode=mode), task_id=task.id
        )
        seeds = [partial(self._seed, epoch, task.id, member) for member in range(num_samples)]
        return [
            Episode(
                task=task,
                make_environment=partial(_seeded_world, make_environment, task, seed_of_turn(_WORLD)),
                prompt_ids=prompt,
                renderer=self.renderer,
                sampling=self.sampling,
                config=self.episode,
                group_member=member,
                seed_of_turn=seed_of_turn,
            )
            for member, seed_of_turn in enumerate(seeds)
        ]

    def _seed(self, epoch: int, task_id: str, member: int, turn: int) -> int:
        return derive_seed(run_seed=self.run_seed, epoch=epoch, task_id=task_id, group_member=member, turn=turn)


def _seeded_world(make_environment: EnvironmentFactory, task: Task, seed: int) -> Environment:
    world = make_environment(task)
    world.seed_draws(seed)
    return world
