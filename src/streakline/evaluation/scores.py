"""Reads the score files that a held-out evaluation leaves in its run folder.

One JSON object a line and a task: `{"task_id": ..., "kind": ..., "sampled": [0.0, 1.0], "greedy": 1.0, "terms":
{"success": [0.0, 1.0, 1.0]}}`. A reward term has scores of the sampled episodes and then of the greedy one. A null
stands for an episode that could not be scored, which is never counted as a failure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from streakline.data.jsonl import read_jsonl
from streakline.errors import DataError
from streakline.metrics.held_out import HeldOutScore
from streakline.types import JSON


def read_scores(path: Path) -> tuple[HeldOutScore, ...]:
    """Read and check one score file.

    Raises:
        DataError: If the file is missing or empty, or a row is malformed or repeats a task; it names file and line.
    """
    scores = tuple(_parse(row, where=f"{path}, line {number}") for number, row in read_jsonl(path))
    if not scores:
        raise DataError(f"Expected {path} to hold at least one row, but it is empty")
    seen: set[str] = set()
    for score in scores:
        if score.task_id in seen:
            raise DataError(f"Expected each task once in {path}, but got {score.task_id!r} twice")
        seen.add(score.task_id)
    return scores


def sampled_by_task(scores: Sequence[HeldOutScore]) -> dict[str, tuple[float, ...]]:
    """Task id -> scores of its sampled episodes, without the unscored ones."""
    return {score.task_id: tuple(value for value in score.sampled if value is not None) for score in scores}


def greedy_by_task(scores: Sequence[HeldOutScore]) -> dict[str, tuple[float, ...]]:
    """Task id -> score of its greedy episode as a tuple of one; empty where it was unscored."""
    return {score.task_id: () if score.greedy is None else (score.greedy,) for score in scores}


def kind_by_task(scores: Sequence[HeldOutScore]) -> dict[str, str]:
    """Task id -> kind."""
    return {score.task_id: score.kind for score in scores}


def _parse(row: Mapping[str, JSON], *, where: str) -> HeldOutScore:
    missing = [name for name in ("task_id", "kind", "sampled", "greedy") if name not in row]
    if missing:
        raise DataError(f"Expected `{missing[0]}` in {where}, but got only {sorted(row)}")
    sampled = row["sampled"]
    if not isinstance(sampled, list):
        raise DataError(f"Expected `sampled` in {where} to be a list, but got {type(sampled).__name__}")
    return HeldOutScore(
        task_id=_text(row["task_id"], name="task_id", where=where),
        kind=_text(row["kind"], name="kind", where=where),
        sampled=tuple(_score(value, name="sampled", where=where) for value in sampled),
        greedy=_score(row["greedy"], name="greedy", where=where),
        terms=_terms(row.get("terms") or {}, where=where),
    )


def _terms(terms: JSON, *, where: str) -> dict[str, tuple[float | None, ...]]:
    """Scores by term; earlier versions wrote none."""
    if not isinstance(terms, dict) or not all(isinstance(scores, list) for scores in terms.values()):
        raise DataError(f"Expected `terms` in {where} to map names to lists, but got {terms!r}")
    return {
        name: tuple(_score(value, name="terms", where=where) for value in scores)
        for name, scores in terms.items()
        if isinstance(scores, list)
    }


def _text(value: object, *, name: str, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise DataError(f"Expected `{name}` in {where} to be a non-empty text, but got {value!r}")
    return value


def _score(value: object, *, name: str, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"Expected `{name}` in {where} to hold finite numbers or null, but got {value!r}")
    return float(value)
