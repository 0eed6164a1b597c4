"""Rollouts to scored groups, on all processes or on none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch

from streakline.errors import JudgeOutageError
from streakline.modules.distributed import gather_lists, sum_over_ranks
from streakline.rewards.base import Reward, Tally
from streakline.types import Group, Task, Trajectory

ResultT = TypeVar("ResultT")


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
        scores = tuple(reward.success_score(trajectory) for trajectory in trajectories)
        groups.append(Group(task=task, trajectories=trajectories, all_rewards=rewards, answer_scores=scores))
    return groups


def all_or_none(work: Callable[[], ResultT], *, then: str) -> ResultT:
    """Do what needs a judge, where the judge of one process may be out: then all processes end alike.

    Every process has to come here, also one that has nothing to score.

    Args:
        work: What each process does.
        then: What the user can do about an outage, the end of its message.

    Raises:
        JudgeOutageError: A judge is out on this process or another one.
    """
    done: list[ResultT] = []
    outages: list[str] = []
    try:
        done.append(work())
    except JudgeOutageError as error:
        outages.append(str(error))
    told = gather_lists(outages)
    if told:
        raise JudgeOutageError(f"{told[0]}; {then}")
    return done[0]


def tally_values(tallies: Mapping[str, Tally], *, device: torch.device) -> dict[str, float]:
    """What was counted, over all processes, as values to be logged; nan where there was nothing to divide by."""
    if not tallies:
        return {}
    parts = [(tally.total, tally.per or 0.0) for tally in tallies.values()]
    sums = iter(sum_over_ranks(*(number for part in parts for number in part), device=device))
    values: dict[str, float] = {}
    for name, tally in tallies.items():
        total, per = next(sums), next(sums)
        values[name] = total if tally.per is None else total / per if per else math.nan
    return values
