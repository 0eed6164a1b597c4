"""The verdict of an LLM judge: one JSON object that is the whole reply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from jsonschema import Draft202012Validator

from streakline.types import JSON

VERDICT_SCHEMA: Final[dict[str, JSON]] = {
    "type": "object",
    "properties": {
        # First, so that a model thinks before it scores.
        "reason": {"type": "string"},
        "score": {"type": "integer", "enum": [0, 1, 2, 3, 4, 5]},
    },
    "required": ["reason", "score"],
    "additionalProperties": False,
}
"""What is asked of the server, and checked once more."""

_THOUGHT = re.compile(r"(?:<think>.*)?</think>(.*)", re.DOTALL)
_FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
_VALIDATOR = Draft202012Validator(VERDICT_SCHEMA)


class VerdictError(ValueError):
    """A reply is no verdict."""


def read_verdict(reply: str) -> tuple[int, str]:
    """Score and reason of a reply that is a verdict and nothing else, but for thinking before it and a fence around it.

    A verdict that stands somewhere in a text may be a quotation of the answer, and is none. So may a `</think>`:
    thinking begins with its opening tag, or is empty, and is closed once.

    Raises:
        VerdictError: It is anything else.
    """
    text = reply.strip()
    if "</think>" in text and not text.startswith(("{", "`")):
        thought = _THOUGHT.fullmatch(text)
        if thought is None or text.count("</think>") > 1:
            raise VerdictError(f"thinking that is not opened, or closed twice: {_head(text)}")
        text = thought[1].strip()
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(fenced[1] if fenced else text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise VerdictError(f"no JSON object: {_head(text)}") from error
    for fault in _VALIDATOR.iter_errors(value):
        raise VerdictError(f"another object: {_head(fault.message)}")
    return int(value["score"]), str(value["reason"])


def _unique(pairs: list[tuple[str, JSON]]) -> Mapping[str, JSON]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise VerdictError("a name twice")
    return found


def _head(text: str) -> str:
    return repr(text[:80])
