"""A function of the user's own as a reward term."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from streakline.rewards.base import RewardTerm
from streakline.types import Task, Trajectory


@final
class FunctionTerm(RewardTerm):
    """What a function says, for a signal that needs no options and no state.

    Args:
        function: (task, trajectory) -> a finite number, or None where it can't judge; in a config its import path, such
            as `my_package.rewards.is_polite`.
    """

    def __init__(self, function: Callable[[Task, Trajectory], float | None]) -> None:
        self._function = function

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """What the function says of one trajectory."""
        return self._function(task, trajectory)
