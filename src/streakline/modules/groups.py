"""Rollouts to scored groups."""

from __future__ import annotations

from collections.abc import Sequence

from streakline.rewards.base import Reward
from streakline.types import Group, Task, Trajectory

__all__ = ["score_group"]


def score_group(task: Task, trajectories: Sequence[Trajectory], *, reward: Reward) -> Group:
    """Score the trajectories of a task.

    An episode that the machinery broke says nothing about the policy: it stays unscored, whatever a term thinks.

    Args:
        task: What was attempted.
        trajectories: [n] unscored.
        reward: Scores them.

    Returns:
        A group in which `all_rewards` are the rewards of its trajectories.
    """
    scored = tuple(
        trajectory if trajectory.termination.is_error else reward(task, trajectory) for trajectory in trajectories
    )
    return Group(task=task, trajectories=scored, all_rewards=tuple(trajectory.reward for trajectory in scored))
