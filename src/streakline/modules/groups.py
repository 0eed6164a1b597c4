"""Rollouts to scored groups."""

from __future__ import annotations

from collections.abc import Sequence

from streakline.rewards.base import Reward
from streakline.types import Group, Task, Trajectory


def score_groups(tasks: Sequence[Task], episodes: Sequence[Sequence[Trajectory]], *, reward: Reward) -> list[Group]:
    """Score the trajectories of some tasks, all at once.

    An episode that the machinery broke says nothing about the policy: it stays unscored, whatever a term thinks.
    """
    sound = [[one for one in members if not one.termination.is_error] for members in episodes]
    scored = reward.score_groups(list(zip(tasks, sound, strict=True)))
    groups = []
    for task, members, of_task in zip(tasks, episodes, scored, strict=True):
        rest = iter(of_task)
        trajectories = tuple(one if one.termination.is_error else next(rest) for one in members)
        rewards = tuple(trajectory.reward for trajectory in trajectories)
        groups.append(Group(task=task, trajectories=trajectories, all_rewards=rewards))
    return groups
