"""Files of one JSON object a line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from streakline.errors import DataError
from streakline.types import JSON


def read_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, JSON]]]:
    """Yield each object with its 1-based line, but for empty lines; raises `DataError` where it isn't such a file."""
    try:
        with Path(path).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, parse_object(line, where=f"{path}, line {number}")
    except OSError as error:
        raise DataError(f"Expected a readable file at {path}, but got: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"Expected UTF-8 text in {path}, but got: {error}") from error


def write_jsonl(path: Path, rows: Iterable[Mapping[str, JSON]]) -> None:
    """Write rows so that the file is either whole or not there. Its folder is made, a file of that name is replaced.

    Raises:
        DataError: If it can't be written (a full disk, no permission); an earlier file stays as it was.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A lone surrogate, which a model may write as an escape, stays that escape.
        with partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"Expected to write {path}, but got: {error}") from error


def json_fault(error: ValueError | RecursionError) -> str:
    """What is wrong with a text that should be JSON, as the end of a message `..., but got`."""
    if not isinstance(error, json.JSONDecodeError):  # no UTF-8, too deep, or an integer of too many digits
        return f"text that can't be read: {error}"
    text = error.doc.rstrip()
    if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
        return f"text that breaks off after {text[-30:]!r}"
    return f"{text[error.pos : error.pos + 30]!r} at column {error.colno}: {error.msg}"


def parse_object(line: str | bytes, *, where: str) -> dict[str, JSON]:
    """The object that a line holds; raises `DataError`, which names `where`, where it holds anything else."""
    try:
        value: JSON = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"Expected a JSON object in {where}, but got {json_fault(error)}") from error
    if not isinstance(value, dict):
        raise DataError(f"Expected a JSON object in {where}, but got {type(value).__name__}")
    return value
