"""Files of the Berkeley Function Calling Leaderboard, version 4: where they lie, and their rows.

They come from the installed `bfcl-eval` package, or from a folder laid out like its `data/`. One JSON object a line;
questions in `BFCL_v4_<category>.json`, answers under the same name in `possible_answer/`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from streakline.environment.simulators import bfcl_folder
from streakline.errors import ConfigError, DataError
from streakline.types import JSON

CATEGORIES = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
)
"""Categories that can be loaded: single-turn, live and multi-turn."""

MULTI_TURN = frozenset(name for name in CATEGORIES if name.startswith("multi_turn"))
"""Categories whose tools are executed."""

WITHOUT_ANSWERS = frozenset({"irrelevance", "live_irrelevance", "live_relevance"})
"""Categories scored by whether anything is called at all."""

_REFUSED = {
    "web_search": "it searches the live web through a paid service, so no result could be repeated",
    "memory": "its tools need vector stores and conversations written by the graded model itself",
    "format_sensitivity": "it varies the prompt text, which here belongs to the rendering policy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a file."""

    data: Mapping[str, JSON]
    """The JSON object."""
    place: str
    """`<file>:<line>`, for error messages."""


def check_category(category: str) -> None:
    """Raise `ConfigError` for a category that is unknown, or left out on purpose."""
    for prefix, reason in _REFUSED.items():
        if category.startswith(prefix):
            raise ConfigError(f"Expected a BFCL category that can be run offline, but got {category!r}: {reason}")
    if category not in CATEGORIES:
        raise ConfigError(f"Expected `category` to be one of {', '.join(CATEGORIES)}, but got {category!r}")


def language(category: str) -> str:
    """Language whose literals the arguments of a category are written in: `python`, `java` or `javascript`."""
    return category.removeprefix("simple_") if category in {"simple_java", "simple_javascript"} else "python"


def data_folder(data_dir: str | None) -> Path:
    """Folder of the question files: `data_dir`, laid out like `bfcl_eval/data`, or else the installed package's."""
    folder = bfcl_folder() / "data" if data_dir is None else Path(data_dir)
    if not folder.is_dir():
        raise DataError(f"Expected `data_dir` to be a folder with BFCL_v4_*.json files, but got {folder}")
    return folder


@lru_cache(maxsize=64)
def read_rows(path: Path) -> tuple[Row, ...]:
    """Read a file of JSON objects, one a line; blank lines are passed over. A `DataError` names the line at fault."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise DataError(f"Expected a BFCL file at {path}, but got no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Expected a readable BFCL file at {path}, but got: {error}") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            data = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"Expected a JSON object at {place}, but got: {error}") from error
        if not isinstance(data, dict) or not isinstance(data.get("id"), str):
            raise DataError(f"Expected a JSON object with an `id` at {place}, but got {line[:60]!r}")
        rows.append(Row(data=data, place=place))
    return tuple(rows)


def json_object(value: JSON, *, what: str) -> dict[str, JSON]:
    """The value, which must be an object."""
    if not isinstance(value, dict):
        raise DataError(f"Expected {what} to be an object, but got {value!r}")
    return value


def json_list(value: JSON, *, what: str) -> list[JSON]:
    """The value, which must be a list."""
    if not isinstance(value, list):
        raise DataError(f"Expected {what} to be a list, but got {value!r}")
    return value
