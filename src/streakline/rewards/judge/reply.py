"""What a server answered, whatever its shape and size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from streakline.rewards.judge.faults import Fault
from streakline.rewards.judge.prompt import JudgeRequest

_CHARS_PER_TOKEN = 4
_MAX_TOKENS = 10**9
"""What says that it took more is no count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server answered."""

    text: str
    """The message."""
    tokens: int
    """Of request and reply, as the server counts them; an estimate where it doesn't."""
    is_whole: bool
    """Whether it ended by itself."""


def read_reply(completion: object, request: JudgeRequest) -> Reply:
    """The reply within a body that was JSON.

    Raises:
        Fault: It has another form.
    """
    try:
        return _as_reply(cast(Mapping[str, Any], completion), request)
    except (LookupError, TypeError, AttributeError) as error:
        raise Fault(f"a reply of another form: {_head(completion)}") from error


def _as_reply(completion: Mapping[str, Any], request: JudgeRequest) -> Reply:
    choice = completion["choices"][0]
    text = _text(choice["message"]["content"])
    estimate = (len(request.system) + len(request.user) + len(text)) // _CHARS_PER_TOKEN
    usage = completion.get("usage")
    used = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    return Reply(
        text=text,
        tokens=used if type(used) is int and 0 <= used <= _MAX_TOKENS else estimate,
        is_whole=choice.get("finish_reason") != "length",
    )


def _text(content: object) -> str:
    """A message is a text or a list of parts; what is no text in it is left out."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError("Expected a message to be a text")
    return "".join(part["text"] for part in content if part["type"] == "text")


def _head(value: object) -> str:
    # A value may be too deep to be told.
    try:
        return " ".join(repr(value).split())[:80]
    except RecursionError:
        return f"a deep {type(value).__name__}"
