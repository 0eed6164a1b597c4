"""Our own grade of an answer to BFCL: fast enough to train with, in two degrees of strictness."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import final

from streakline.environment.live import call_fault
from streakline.environment.workers import run_with_timeout
from streakline.errors import ConfigError, DataError, StreaklineError
from streakline.rewards.base import RewardTerm
from streakline.rewards.bfcl.coercion import Mode
from streakline.rewards.bfcl.multi_turn import follows_gold
from streakline.rewards.bfcl.official import described_functions
from streakline.rewards.bfcl.single_turn import assign_calls
from streakline.rewards.executed import executed_calls
from streakline.tasks.bfcl_source import MULTI_TURN, WITHOUT_ANSWERS, language
from streakline.types import JSON, Task, Trajectory


@final
class BFCLGrade(RewardTerm):
    """1 where the answer is right, else 0, for every category of `BFCLTaskSet`; `docs/grading.md` says what is right.

    Single-turn: the calls of the first response. Irrelevance: right without a call; relevance: with one. Multi-turn:
    the executed calls, in a fresh world. What a model wrote is compared or run as literal values, never evaluated, and
    whatever it is, there is a verdict. In `strict` the episode must also have ended by itself, without a call that
    could not be read.

    Args:
        mode: `lenient` gives BFCL's verdict but for the differences that the document lists; `strict` wants declared
            types, texts as they are accepted, no refused call, and none where nothing is to be called.
        data_dir: Folder laid out like `bfcl_eval/data`, the same as the task set's; None = the installed package.
        timeout_s: Seconds that a multi-turn verdict may take; after that the trajectory is unscored.
    """

    def __init__(self, mode: Mode, *, data_dir: str | None = None, timeout_s: float = 30.0) -> None:
        if mode not in ("strict", "lenient"):
            raise ConfigError(f"Expected `mode` to be strict or lenient, but got {mode!r}")
        if not timeout_s > 0:
            raise ConfigError(f"Expected `timeout_s` to be positive, but got {timeout_s}")
        self._mode, self._data_dir, self._timeout_s = mode, data_dir, timeout_s

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Verdict on one trajectory; None where the machinery failed or the verdict took too long.

        Raises:
            ConfigError: The task is not of BFCL.
            DataError: The task is not in the source's file.
        """
        if task.source != "bfcl":
            raise ConfigError(f"Expected a task of BFCL for BFCLGrade, but got {task.id}")
        if trajectory.termination.is_error:
            return None
        is_right = self._multi_turn if task.kind in MULTI_TURN else self._single_turn
        try:
            return float(is_right(task, trajectory) and (self._mode == "lenient" or _is_clean(task, trajectory)))
        except TimeoutError:
            return None
        except StreaklineError:
            raise
        except (RecursionError, ValueError):  # arguments too deep to go through, or integers too long to write out
            return 0.0

    def _multi_turn(self, task: Task, trajectory: Trajectory) -> bool:
        if trajectory.num_user_turns != len(task.requests):
            return False
        steps = executed_calls(trajectory, num_user_turns=len(task.requests))
        # One time limit for all calls, since each would cost a hand-over to another thread and back.
        return run_with_timeout(lambda: follows_gold(task, steps, mode=self._mode), timeout_s=self._timeout_s)

    def _single_turn(self, task: Task, trajectory: Trajectory) -> bool:
        calls = trajectory.turns[0].message.tool_calls if trajectory.turns else ()
        if task.kind in WITHOUT_ANSWERS:
            refused = self._mode == "strict" and any(call_fault(call, visible=task.visible_tools(0)) for call in calls)
            return not calls if task.kind.endswith("irrelevance") else bool(calls) and not refused
        functions = _parameters(task.kind, self._data_dir).get(task.id)
        if functions is None:
            raise DataError(f"Expected task {task.id} in the BFCL files of `data_dir`, but got none of that id")
        assigned = assign_calls(
            calls, answers=task.answers, functions=functions, language=language(task.kind), mode=self._mode
        )
        return assigned is not None


def _is_clean(task: Task, trajectory: Trajectory) -> bool:
    """Whether the episode ended by itself and each call that counts could be read."""
    turns = trajectory.turns if task.kind in MULTI_TURN else trajectory.turns[:1]
    return trajectory.termination.is_finished and not any(turn.malformed_calls for turn in turns)


@lru_cache(maxsize=32)
def _parameters(category: str, data_dir: str | None) -> dict[str, dict[str, Mapping[str, JSON]]]:
    """Task id -> parameters of each function, in the source's notation; of two of a name, the first."""
    return {
        task_id: {
            str(function["name"]): parameters
            for function in reversed(functions)
            if isinstance(function, dict) and isinstance(parameters := function.get("parameters"), dict)
        }
        for task_id, functions in described_functions(category, data_dir).items()
    }
