"""BFCL's own verdict on a task of BFCL."""

from __future__ import annotations

from functools import lru_cache
from typing import final

from streakline.environment.workers import run_with_timeout
from streakline.errors import ConfigError, DataError
from streakline.rewards.base import RewardTerm
from streakline.rewards.bfcl.upstream import check_multi_turn, check_single_turn
from streakline.rewards.executed import executed_calls
from streakline.tasks.bfcl_source import MULTI_TURN, WITHOUT_ANSWERS, data_folder, json_list, language, read_rows
from streakline.types import JSON, Task, Trajectory


@final
class OfficialBFCL(RewardTerm):
    """1 where upstream's checker calls what ran valid, else 0.

    Single-turn: the calls of the first response, compared with the accepted values. Irrelevance: right without a call,
    relevance: with one. Multi-turn: the calls that ran, given to upstream's checker in a world of its own; an episode
    that didn't reach every user turn is wrong, as one that upstream forces to quit is. A call that the environment
    refused has no effect here, whereas upstream, fed with what the policy wrote, would evaluate it. So this is
    upstream's verdict on the episode as it was, and not always on its text; `docs/grading.md` counts the difference.

    Args:
        data_dir: Folder laid out like `bfcl_eval/data`, the same as the task set's; None = the installed package.
        timeout_s: Seconds that one verdict may take; after that the trajectory is unscored.
    """

    def __init__(self, *, data_dir: str | None = None, timeout_s: float = 30.0) -> None:
        if not timeout_s > 0:
            raise ConfigError(f"Expected `timeout_s` to be positive, but got {timeout_s}")
        self._data_dir = data_dir
        self._timeout_s = timeout_s

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Upstream's verdict on one trajectory; None where the machinery failed or the verdict took too long.

        Raises:
            ConfigError: The task is not of BFCL.
            DataError: The task is not in the source's file.
        """
        if task.source != "bfcl":
            raise ConfigError(f"Expected a task of BFCL for OfficialBFCL, but got {task.id}")
        if trajectory.termination.is_error:
            return None
        try:
            return float(run_with_timeout(lambda: self._is_valid(task, trajectory), timeout_s=self._timeout_s))
        except TimeoutError:
            return None

    def _is_valid(self, task: Task, trajectory: Trajectory) -> bool:
        if task.kind in MULTI_TURN:
            steps = executed_calls(trajectory, num_user_turns=len(task.requests))
            return trajectory.num_user_turns == len(task.requests) and check_multi_turn(task, steps)
        calls = trajectory.turns[0].message.tool_calls if trajectory.turns else ()
        if task.kind in WITHOUT_ANSWERS:
            return bool(calls) == (not task.kind.endswith("irrelevance"))
        functions = described_functions(task.kind, self._data_dir)
        if task.id not in functions:
            raise DataError(f"Expected task {task.id} in the BFCL files of `data_dir`, but got none of that id")
        return check_single_turn(
            calls,
            functions=functions[task.id],
            accepted=task.answers,
            category=task.kind,
            language=language(task.kind),
        )


@lru_cache(maxsize=32)
def described_functions(category: str, data_dir: str | None) -> dict[str, list[JSON]]:
    """Task id -> the source's function descriptions, whose types the checker needs."""
    rows = read_rows(data_folder(data_dir) / f"BFCL_v4_{category}.json")
    return {f"bfcl/{category}/{row.data['id']}": json_list(row.data.get("function"), what=row.place) for row in rows}
