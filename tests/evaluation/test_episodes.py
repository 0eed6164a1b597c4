"""Greedy episodes as they lie in the trajectory files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streakline.errors import DataError
from streakline.evaluation.episodes import read_greedy_episodes
from streakline.types import Role, ToolCall

CALL = {"id": "", "type": "function", "function": {"name": "close_ticket", "arguments": {"ticket_id": 3}}}
MESSAGES = [
    {"role": "user", "content": "Close it."},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "{}", "name": "close_ticket"},
]


def _write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("\n\n".join(json.dumps({"messages": MESSAGES} | row) for row in rows))
    return path


def test_greedy_rows_become_episodes(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "test.jsonl",
        {"task_id": "a", "decoding": "sampled", "reward": 1.0},
        {"task_id": "a", "decoding": "greedy", "reward": 1.0},
        {"task_id": "b", "decoding": "greedy", "reward": 0.0},
        {"task_id": "c", "decoding": "greedy", "reward": None},
    )
    episodes = read_greedy_episodes(path)
    assert {task: episode.success for task, episode in episodes.items()} == {"a": True, "b": False, "c": False}
    assert [message.role for message in episodes["a"].messages] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    assert episodes["a"].messages[1].tool_calls == (ToolCall(name="close_ticket", arguments={"ticket_id": 3}),)


def test_a_file_without_greedy_rows_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "test.jsonl", {"task_id": "a", "decoding": "sampled", "reward": 1.0})
    with pytest.raises(DataError, match=r"greedy episodes in .*test\.jsonl, but got 1 of other decoding"):
        read_greedy_episodes(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.jsonl"):
        read_greedy_episodes(tmp_path / "absent.jsonl")
