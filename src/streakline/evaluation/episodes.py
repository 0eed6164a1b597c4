"""Reads the greedy episodes that an evaluation wrote down."""

from __future__ import annotations

from pathlib import Path

from streakline.data.conversations import read_conversations
from streakline.data.jsonl import read_jsonl
from streakline.errors import DataError
from streakline.evaluation.stories import Episode


def read_greedy_episodes(path: Path) -> dict[str, Episode]:
    """Read the greedy rows of a `trajectories/<stage>.jsonl`, by task id; a reward of 1 is a success.

    Raises:
        DataError: If the file is missing or empty, a row is malformed, or none is greedy.
    """
    rows = [row for _, row in read_jsonl(path)]
    episodes = {
        conversation.task_id: Episode(
            task_id=conversation.task_id,
            messages=conversation.messages,
            success=isinstance(reward := row.get("reward"), int | float) and reward >= 1.0,
        )
        for conversation, row in zip(read_conversations(path), rows, strict=True)
        if row.get("decoding") == "greedy"
    }
    if not episodes:
        raise DataError(f"Expected greedy episodes in {path}, but got {len(rows)} of other decoding")
    return episodes
