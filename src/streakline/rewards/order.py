"""Whether tools were called in the order of the right calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from streakline.rewards.base import RewardTerm
from streakline.types import Task, Trajectory


@final
class CallOrder(RewardTerm):
    """Longest common subsequence of the tools that were called and those of the gold calls, over the longer of both.

    Calls of one step do not depend on each other, so those of a gold step come in the order in which they were made.
    """

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Share of one trajectory; None where the task has no gold calls and nothing was called."""
        made = [call.name for call in trajectory.calls]
        first = {name: made.index(name) for name in made}
        wanted: list[str] = []
        for steps in task.gold:
            for calls in steps:
                wanted += sorted((call.name for call in calls), key=lambda name: first.get(name, len(made)))
        longest = max(len(made), len(wanted))
        return common_subsequence(made, wanted) / longest if longest else None


def common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for item in one:
        above = row
        row = [0]
        for place, candidate in enumerate(other):
            row.append(above[place] + 1 if item == candidate else max(above[place + 1], row[place]))
    return row[-1]
