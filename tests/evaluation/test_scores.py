"""Score files: what is read, and one clear line for each way they can be broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streakline.errors import DataError
from streakline.evaluation.scores import greedy_by_task, kind_by_task, read_scores, sampled_by_task

GOOD = {"task_id": "toolworld/test/0", "kind": "move", "sampled": [0.0, 1.0, None], "greedy": 1.0}


def _write(folder: Path, *rows: object) -> Path:
    path = folder / "test_scores.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_scores_are_read_in_order_and_unscored_episodes_are_not_failures(tmp_path: Path) -> None:
    other = {"task_id": "toolworld/test/1", "kind": "copy", "sampled": [1], "greedy": None}
    scores = read_scores(_write(tmp_path, GOOD, "", other))
    assert [score.task_id for score in scores] == ["toolworld/test/0", "toolworld/test/1"]
    assert sampled_by_task(scores) == {"toolworld/test/0": (0.0, 1.0), "toolworld/test/1": (1.0,)}
    assert greedy_by_task(scores) == {"toolworld/test/0": (1.0,), "toolworld/test/1": ()}
    assert kind_by_task(scores) == {"toolworld/test/0": "move", "toolworld/test/1": "copy"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", r"Expected a JSON object in .*test_scores\.jsonl, line 2, but got"),
        ([], "Expected a JSON object in .*line 2, but got list"),
        ({"task_id": "x", "kind": "y", "sampled": []}, "Expected `greedy` in .*line 2"),
        (GOOD | {"task_id": 3}, "Expected `task_id` in .*line 2 to be a non-empty text, but got 3"),
        (GOOD | {"terms": [1]}, r"Expected `terms` in .*line 2 to map names to lists, but got \[1\]"),
        (GOOD | {"terms": {"a": 1.0}}, "Expected `terms` in .*line 2 to map names to lists"),
        (GOOD | {"terms": {"a": ["1"]}}, "Expected `terms` in .*line 2 to hold finite numbers or null, but got '1'"),
        (GOOD | {"kind": ""}, "Expected `kind` in .*line 2"),
        (GOOD | {"sampled": 0.5}, "Expected `sampled` in .*line 2 to be a list, but got float"),
        (GOOD | {"sampled": ["1"]}, "Expected `sampled` in .*line 2 to hold finite numbers or null, but got '1'"),
        (GOOD | {"greedy": True}, "Expected `greedy` in .*line 2 to hold finite numbers or null, but got True"),
        ('{"task_id": "x", "kind": "y", "sampled": [NaN], "greedy": 1}', "finite numbers or null, but got nan"),
        (GOOD, r"Expected each task once in .*, but got 'toolworld/test/0' twice"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_scores(_write(tmp_path, GOOD, row))


def test_a_missing_or_empty_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Expected a readable file at .*absent\.jsonl, but got: No such file"):
        read_scores(tmp_path / "absent.jsonl")
    with pytest.raises(DataError, match="to hold at least one row, but it is empty"):
        read_scores(_write(tmp_path, ""))
