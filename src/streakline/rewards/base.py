"""One signal about a trajectory, and the weighted combination of several."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace

from streakline.errors import ConfigError, RecordError
from streakline.types import Task, Trajectory


class RewardTerm(ABC):
    """One signal about how good a trajectory is.

    To add one, implement `score` and name the class in a config by its `class_path`. A term that could not judge (a
    judge that timed out, an episode that the machinery broke) answers None, never 0.
    """

    @abstractmethod
    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Judge one trajectory by a finite number, usually in [0, 1]; None = could not be judged."""


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
        """Copy of a trajectory with `reward` and `reward_terms`; the reward is None where no weighted term has a score.

        Raises:
            RecordError: The trajectory belongs to another task, or a term gave NaN or infinity.
        """
        if trajectory.task_id != task.id:
            raise RecordError(f"Expected a trajectory of {task.id}, but got one of {trajectory.task_id}")
        scores = {name: term.score(task, trajectory) for name, term in self._terms.items()}
        for name, score in scores.items():
            if score is not None and not math.isfinite(score):
                raise RecordError(
                    f"Expected reward term `{name}` of trajectory {task.id}, member {trajectory.group_member}, "
                    f"to be finite, but got {score}"
                )
        reward, parts = self.combine(scores, trajectory)
        return replace(trajectory, reward=reward, reward_terms=scores | parts)

    def combine(
        self, scores: Mapping[str, float | None], trajectory: Trajectory
    ) -> tuple[float | None, dict[str, float | None]]:
        """Reward from the score of each term, and what else is to be noted beside them."""
        return weighted_mean(scores, self._weights), {}


def weighted_mean(scores: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """Mean of the scores that have a weight and are not None; None where there is none."""
    weighted = [(weights[name], score) for name, score in scores.items() if score is not None and name in weights]
    total = sum(weight for weight, _ in weighted)
    return sum(weight * score for weight, score in weighted) / total if total else None
