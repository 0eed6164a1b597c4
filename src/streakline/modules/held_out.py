"""Episodes on held-out tasks, and the files that they leave: the same for both modules and every command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from transformers import PreTrainedTokenizerFast

from streakline.data.jsonl import write_jsonl
from streakline.environment.base import EnvironmentFactory
from streakline.errors import ConfigError
from streakline.metrics.held_out import HeldOutScore
from streakline.modules.distributed import gather_lists
from streakline.modules.episode_rows import trajectory_to_json
from streakline.modules.groups import score_groups
from streakline.rewards.base import Reward
from streakline.rollout.agent_loop import AgentLoop
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import JSON, Group, Task, Trajectory


@dataclass(frozen=True, kw_only=True)
class HeldOutConfig:
    """How a policy is measured on held-out tasks."""

    num_samples: int = 1
    """Sampled episodes of each task; 0 = none."""
    greedy: bool = True
    """Whether each task gets a greedy episode too."""
    sampling: SamplingPolicy | None = None
    """Decoding of the sampled episodes, and limits of all; None = that of the module."""
    reward: Reward | None = None
    """Scores the episodes; None = the reward of the module. Training on recorded results still needs a live measure."""
    score: str = ""
    """Reward term that is the score of an episode; empty = the combined reward."""
    success_threshold: float = 1.0
    """Score from which an episode counts as a success."""
    seed: int = 0
    """Of the draws. Apart from the seed of the run, so that policies of different runs meet the same draws."""

    def __post_init__(self) -> None:
        """Check that there is something to run."""
        if self.num_samples < 0 or (self.num_samples == 0 and not self.greedy):
            raise ConfigError(
                "Expected `held_out.num_samples` to be at least 1, or 0 with `greedy`, "
                f"but got {self.num_samples} and greedy={self.greedy}"
            )


@final
class HeldOutRunner:
    """Collects the scores, and where asked the trajectories, of one pass over held-out tasks."""

    def __init__(self, config: HeldOutConfig, *, sampling: SamplingPolicy, reward: Reward) -> None:
        self._config = config
        self._sampling = config.sampling or sampling
        self._reward = reward
        self._scores: list[HeldOutScore] = []
        self._trajectories: list[dict[str, JSON]] = []

    def run(
        self,
        tasks: Sequence[Task],
        *,
        make_loop: Callable[[SamplingPolicy, int], AgentLoop],
        make_environment: EnvironmentFactory,
        keep_trajectories: bool = False,
        tokenizer: PreTrainedTokenizerFast | None = None,
    ) -> list[Group]:
        """Attempt some tasks; gives the groups of sampled episodes, or of greedy ones where none was sampled.

        Trajectories that are kept hold their tokens as text where there is a `tokenizer`.
        """
        config = self._config

        def attempt(sampling: SamplingPolicy, num_samples: int) -> list[Group]:
            loop = make_loop(sampling, config.seed)
            episodes = loop.run(tasks, num_samples=num_samples, make_environment=make_environment, epoch=0)
            return score_groups(tasks, episodes, reward=self._reward)

        sampled = attempt(self._sampling, config.num_samples) if config.num_samples else []
        greedy = attempt(replace(self._sampling, greedy=True), 1) if config.greedy else []
        for index, task in enumerate(tasks):
            members = [member for groups in (sampled, greedy) if groups for member in groups[index].trajectories]
            scores = [self._score(trajectory) for trajectory in members]
            self._scores.append(
                HeldOutScore(
                    task_id=task.id,
                    kind=task.kind,
                    sampled=tuple(scores[: config.num_samples]),
                    greedy=scores[-1] if config.greedy else None,
                    terms={
                        name: tuple(trajectory.reward_terms.get(name) for trajectory in members)
                        for name in self._reward.names
                    },
                )
            )
            if keep_trajectories:
                self._trajectories += [
                    trajectory_to_json(task, trajectory, tokenizer=tokenizer)
                    | {"decoding": "sampled" if n < config.num_samples else "greedy"}
                    for n, trajectory in enumerate(members)
                ]
        return sampled or greedy

    def finish(self, *, run_dir: Path, stage: str, write: bool) -> tuple[HeldOutScore, ...]:
        """Gather the processes' scores and trajectories, write them where this process shall, and begin a new pass.

        Raises:
            DataError: If a file can't be written.
        """
        scores, trajectories = gather_lists(self._scores), gather_lists(self._trajectories)
        self._scores, self._trajectories = [], []
        if write and scores:
            write_jsonl(run_dir / f"{stage}_scores.jsonl", [score.to_json() for score in scores])
        if write and trajectories:
            write_jsonl(run_dir / "trajectories" / f"{stage}.jsonl", trajectories)
        return tuple(scores)

    def _score(self, trajectory: Trajectory) -> float | None:
        if not self._config.score:
            return trajectory.reward
        if trajectory.reward is not None and self._config.score not in trajectory.reward_terms:
            raise ConfigError(
                f"Expected `held_out.score` to be one of {sorted(trajectory.reward_terms)}, "
                f"but got {self._config.score!r}"
            )
        return trajectory.reward_terms.get(self._config.score)
