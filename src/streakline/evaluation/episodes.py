"""Reads the greedy episodes that an evaluation wrote down."""

from __future__ import annotations

import json
from pathlib import Path

from streakline.data.conversations import read_conversations
from streakline.errors import DataError
from streakline.evaluation.stories import Episode

__all__ = ["read_greedy_episodes"]


def read_greedy_episodes(path: Path, *, success_threshold: float = 1.0) -> dict[str, Episode]:
    """Read the greedy rows of a `trajectories/<stage>.jsonl`.

    Args:
        path: File of conversations, each with its `decoding` and its `reward`.
        success_threshold: Reward from which an episode counts as right.

    Returns:
        Task id -> its greedy episode.

    Raises:
        DataError: If the file is missing or empty, a row is malformed, or none is greedy.
    """
    conversations = read_conversations(path)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    episodes = {
        conversation.task_id: Episode(
            task_id=conversation.task_id,
            messages=conversation.messages,
            success=isinstance(row.get("reward"), int | float) and row["reward"] >= success_threshold,
        )
        for conversation, row in zip(conversations, rows, strict=True)
        if row.get("decoding") == "greedy"
    }
    if not episodes:
        raise DataError(f"Expected greedy episodes in {path}, but got {len(rows)} of other decoding")
    return episodes
