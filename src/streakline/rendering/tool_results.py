"""The text of a tool result, as JSON or as lines for people."""

from __future__ import annotations

import json
from typing import Literal

from streakline.types import JSON


def format_result(content: str, *, style: Literal["json", "text"]) -> str:
    r"""Write what a tool returned, JSON or plain text, in the style of a rendering policy.

    `json`: JSON as given, plain text as a JSON string. `text`: lines of `key: value`, plain text as given.

    Example:
        >>> format_result('{"id": 7, "tags": ["a", "b"]}', style="text")
        'id: 7\ntags:\n  - a\n  - b'
        >>> format_result("done", style="json")
        '"done"'
    """
    try:
        value: JSON = json.loads(content)
    except (ValueError, RecursionError):
        return content if style == "text" else json.dumps(content, ensure_ascii=False)
    return content if style == "json" else "\n".join(_lines(value))


def _lines(value: JSON) -> list[str]:
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in _entry(f"{key}:", item)]
    if isinstance(value, list) and value:
        return [line for item in value for line in _entry("-", item)]
    return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]


def _entry(head: str, item: JSON) -> list[str]:
    if isinstance(item, (dict, list)) and item:
        return [head, *(f"  {line}" for line in _lines(item))]
    return [f"{head} {_lines(item)[0]}"]
