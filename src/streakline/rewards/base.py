"""One signal about a trajectory, and the weighted combination of several."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from streakline.errors import ConfigError, RecordError
from streakline.types import Task, Trajectory

Scores: TypeAlias = Mapping[str, float | None]
"""What each term made of a trajectory, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Something counted while scoring, so that it can be summed over processes."""

    total: float
    """Sum."""
    per: float | None = None
    """What the sum is divided by when it is logged, summed too (0 = nan); None = logged as it is."""

    def __add__(self, other: Tally) -> Tally:
        """Add two counts of the same thing."""
        per = None if self.per is None or other.per is None else self.per + other.per
        return Tally(total=self.total + other.total, per=per)


class RewardTerm(ABC):
    """One signal about how good a trajectory is.

    To add one, implement `score` and name the class in a config by its `class_path`. A term that could not judge (a
    judge that timed out, an episode that the machinery broke) answers None, never 0.
    """

    @abstractmethod
    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Judge one trajectory by a finite number, usually in [0, 1]; None = could not be judged."""

    def score_all(self, episodes: Sequence[tuple[Task, Trajectory]]) -> list[float | None]:
        """Judge all trajectories of a step. A term that waits for something judges them side by side here."""
        return [self.score(task, trajectory) for task, trajectory in episodes]

    def notes(self) -> Sequence[str]:
        """What is to be read beside each score of the last `score_all`; an empty text, or no text at all = nothing."""
        return ()

    def metrics(self) -> Mapping[str, Tally]:
        """What scoring took since this was last asked: the same names each time."""
        return {}


class Reward:
    """Weighted mean of terms. A term that could not be scored leaves the mean, its weight with it.

    A subclass that combines them otherwise implements `combine` and `names`.

    Args:
        terms: Signals by the name under which they are logged.
        weights: Weight by name; a name left out weighs 1; 0 = logged only.

    Raises:
        ConfigError: There is no term, a weight belongs to none or is negative, or all weights are 0.
    """

    def __init__(self, terms: dict[str, RewardTerm], weights: dict[str, float] | None = None) -> None:
        given = weights or {}
        if not terms:
            raise ConfigError("Expected `terms` to hold at least one reward term, but got none")
        strangers = sorted(given.keys() - terms.keys())
        if strangers:
            raise ConfigError(f"Expected `weights` for {', '.join(sorted(terms))}, but got {', '.join(strangers)}")
        self._terms = dict(terms)
        self._weights = {name: float(given.get(name, 1.0)) for name in terms}
        if not all(math.isfinite(weight) and weight >= 0 for weight in self._weights.values()):
            raise ConfigError(f"Expected `weights` to be finite and not negative, but got {self._weights}")
        if not any(self._weights.values()):
            raise ConfigError("Expected a weight above 0, but got none")

    @property
    def weights(self) -> Mapping[str, float]:
        """Weight by term name."""
        return self._weights

    @property
    def names(self) -> tuple[str, ...]:
        """What `reward_terms` of a scored trajectory holds."""
        return tuple(self._terms)

    def __call__(self, task: Task, trajectory: Trajectory) -> Trajectory:
        """Copy of a trajectory with `reward` and `reward_terms`, as if it were the only one of its task."""
        return self.score_groups([(task, [trajectory])])[0][0]

    def score_groups(self, groups: Sequence[tuple[Task, Sequence[Trajectory]]]) -> list[tuple[Trajectory, ...]]:
        """Copies of each task's trajectories with rewards, terms and notes, asking every term once for all of them.

        The reward is None where no weighted term has a score.

        Raises:
            RecordError: A trajectory belongs to another task, or a term gave NaN or infinity.
        """
        episodes = [(task, trajectory) for task, trajectories in groups for trajectory in trajectories]
        for task, trajectory in episodes:
            if trajectory.task_id != task.id:
                raise RecordError(f"Expected a trajectory of {task.id}, but got one of {trajectory.task_id}")
        columns = {name: _finite(name, term.score_all(episodes), episodes) for name, term in self._terms.items()}
        rows = iter([{name: column[place] for name, column in columns.items()} for place in range(len(episodes))])
        said = iter(self._notes(len(episodes)))
        return [
            self._score_group(trajectories, [next(rows) for _ in trajectories], [next(said) for _ in trajectories])
            for _, trajectories in groups
        ]

    def metrics(self) -> dict[str, Tally]:
        """What the terms' scoring took since this was last asked; what two terms name alike is added up."""
        tallies: dict[str, Tally] = {}
        for term in self._terms.values():
            for name, tally in term.metrics().items():
                tallies[name] = tallies[name] + tally if name in tallies else tally
        return tallies

    def combine(
        self, scores: Sequence[Scores], trajectories: Sequence[Trajectory]
    ) -> list[tuple[float | None, Scores]]:
        """Reward of each trajectory of a group from its terms' scores, and what else is to be noted beside them."""
        return [(weighted_mean(scores, self._weights), {}) for scores in scores]

    def success_score(self, trajectory: Trajectory) -> float | None:
        """What success of a scored trajectory is judged by."""
        return trajectory.reward

    def _notes(self, count: int) -> list[dict[str, str]]:
        columns = {name: texts for name, term in self._terms.items() if (texts := term.notes())}
        return [{name: texts[place] for name, texts in columns.items() if texts[place]} for place in range(count)]

    def _score_group(
        self, trajectories: Sequence[Trajectory], scores: Sequence[Scores], notes: Sequence[Mapping[str, str]]
    ) -> tuple[Trajectory, ...]:
        combined = self.combine(scores, trajectories)
        return tuple(
            replace(trajectory, reward=reward, reward_terms={**terms, **parts}, reward_notes=said)
            for trajectory, terms, said, (reward, parts) in zip(trajectories, scores, notes, combined, strict=True)
        )


def _finite(
    name: str, scores: Sequence[float | None], episodes: Sequence[tuple[Task, Trajectory]]
) -> Sequence[float | None]:
    for score, (task, trajectory) in zip(scores, episodes, strict=True):
        if score is not None and not math.isfinite(score):
            raise RecordError(
                f"Expected reward term `{name}` of trajectory {task.id}, member {trajectory.group_member}, "
                f"to be finite, but got {score}"
            )
    return scores


def weighted_mean(scores: Scores, weights: Mapping[str, float]) -> float | None:
    """Mean of the scores that have a weight and are not None; None where there is none."""
    weighted = [(weights[name], score) for name, score in scores.items() if score is not None and name in weights]
    total = sum(weight for weight, _ in weighted)
    return sum(weight * score for weight, score in weighted) / total if total else None
