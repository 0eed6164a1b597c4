"""Success in a world: the calls that were made, made again in a fresh one, leave it as the gold calls do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import final

from streakline.environment.replay import TurnOutcome, gold_outcomes, replay, result_key
from streakline.errors import ConfigError
from streakline.rewards.base import RewardTerm
from streakline.rewards.executed import executed_calls
from streakline.types import Task, Termination, Trajectory

__all__ = ["StateSuccess"]

_FINISHED = frozenset({Termination.ANSWER, Termination.ENVIRONMENT_DONE})


@final
class StateSuccess(RewardTerm):
    """1 if every user turn came out right, else 0.

    A user turn is right when, after it, the state equals the state after the gold calls, and the results that the
    gold calls of this turn gave are all among the results so far, in any order: BFCL's multi-turn rule. Errors that
    were mended cost nothing. A user turn without gold calls is right when nothing was called in it (the policy had to
    ask, or to say that it can't); upstream no longer checks that. A user turn that was never reached is wrong.

    Args:
        final_only: Compare the state, and the results of all turns, only at the end.
        partial: Give the share of user turns that came out right in place of 0 or 1.
        require_answer: A user turn that a limit or a cap cut off is wrong, even where the world was left right.
        timeout_s: Seconds that one replayed call may take.

    Raises:
        ConfigError: `partial` is combined with `final_only`, which knows no single turns.
    """

    def __init__(
        self,
        *,
        final_only: bool = False,
        partial: bool = False,
        require_answer: bool = True,
        timeout_s: float = 5.0,
    ) -> None:
        if final_only and partial:
            raise ConfigError("Expected `partial` without `final_only`, but got both")
        self._final_only = final_only
        self._partial = partial
        self._require_answer = require_answer
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
        steps = executed_calls(trajectory, num_user_turns=len(task.requests))
        calls = [[call for step in user_turn for call in step] for user_turn in steps]
        outcomes, gold = replay(task, calls, timeout_s=self._timeout_s), gold_outcomes(task)
        finished = self._finished_turns(trajectory)
        right = self._right_at_end(outcomes, gold) if self._final_only else _right_turns(outcomes, gold)
        right = [ok and index < finished for index, ok in enumerate(right)]
        return sum(right) / len(right) if self._partial else float(all(right))

    def _finished_turns(self, trajectory: Trajectory) -> int:
        """How many user turns the policy brought to an end."""
        reached = max((turn.user_turn for turn in trajectory.turns), default=-1) + 1
        cut_off = self._require_answer and trajectory.termination not in _FINISHED
        return reached - cut_off

    def _right_at_end(self, outcomes: Sequence[TurnOutcome], gold: Sequence[TurnOutcome]) -> list[bool]:
        right = [not outcome.results or bool(wanted.results) for outcome, wanted in zip(outcomes, gold, strict=True)]
        seen = Counter(result_key(result) for outcome in outcomes for result in outcome.results)
        wanted = Counter(result_key(result) for outcome in gold for result in outcome.results)
        right[-1] = right[-1] and wanted <= seen and outcomes[-1].state == gold[-1].state
        return right


def _right_turns(outcomes: Sequence[TurnOutcome], gold: Sequence[TurnOutcome]) -> list[bool]:
    """[user turns] whether each came out right."""
    right = []
    seen: Counter[str] = Counter()
    for outcome, wanted in zip(outcomes, gold, strict=True):
        seen.update(result_key(result) for result in outcome.results)
        needed = Counter(result_key(result) for result in wanted.results)
        right.append(needed <= seen and outcome.state == wanted.state if needed else not outcome.results)
    return right
