"""Success in a world: the calls that were made, made again in a fresh one, leave it as the gold calls do."""

from __future__ import annotations

from collections import Counter
from typing import final

from streakline.environment.replay import gold_outcomes, replay, result_key
from streakline.errors import ConfigError
from streakline.rewards.base import RewardTerm
from streakline.rewards.executed import executed_calls
from streakline.types import Task, Trajectory


@final
class StateSuccess(RewardTerm):
    """1 if every user turn came out right, else 0.

    A user turn is right when, after it, the state equals the state after the gold calls, and the results that the
    gold calls of this turn gave are all among the results so far, in any order: BFCL's multi-turn rule. Errors that
    were mended cost nothing. A user turn without gold calls is right when nothing was called in it (the policy had to
    ask, or to say that it can't); upstream no longer checks that. An episode that a limit or a cap cut off is wrong,
    even where the world was left right.

    Args:
        timeout_s: Seconds that one replayed call may take.
    """

    def __init__(self, *, timeout_s: float = 5.0) -> None:
        self._timeout_s = timeout_s

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Success of one trajectory; None where the machinery failed.

        Raises:
            ConfigError: The task has no world or no gold calls.
        """
        if not task.simulators or not task.gold:
            raise ConfigError(f"Expected a task with simulators and gold calls for StateSuccess, but got {task.id}")
        if trajectory.termination.is_error:
            return None
        finished = trajectory.num_user_turns == len(task.gold) and trajectory.termination.is_finished
        return float(finished and self._is_right(task, trajectory))

    def _is_right(self, task: Task, trajectory: Trajectory) -> bool:
        steps = executed_calls(trajectory, num_user_turns=len(task.gold))
        calls = [[call for step in user_turn for call in step] for user_turn in steps]
        outcomes = replay(task, calls, timeout_s=self._timeout_s)
        seen: Counter[str] = Counter()
        for outcome, gold in zip(outcomes, gold_outcomes(task), strict=True):
            seen.update(map(result_key, outcome.results))
            needed = Counter(map(result_key, gold.results))
            if not (needed <= seen and outcome.state == gold.state if needed else not outcome.results):
                return False
        return True
