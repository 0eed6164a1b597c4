"""Rollouts to scored groups."""

from __future__ import annotations

from collections.abc import Sequence

from streakline.rewards.base import Reward
from streakline.types import Group, Task, Trajectory


def score_group(task: Task, trajectories: Sequence[Trajectory], *, reward: Reward) -> Group:
    """Score all [n] trajectories of a task.

    An episode that the machinery broke says nothing about the policy: it stays unscored, whatever a term thinks.
    """
    scored = tuple(
        trajectory if trajectory.termination.is_error else reward(task, trajectory) for trajectory in trajectories
    )
    return Group(task=task, trajectories=scored, all_rewards=tuple(trajectory.reward for trajectory in scored))
