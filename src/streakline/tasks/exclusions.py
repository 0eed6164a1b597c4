"""Tasks that are left out because their own gold answer is wrong, each with its reason.

The list is versioned and packaged, so that a score can say which tasks it is over. Every gold answer not on it,
executed, scores 1.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from streakline.errors import DataError

__all__ = ["Exclusions", "bfcl_exclusions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """A versioned list of tasks to leave out."""

    version: int
    """Raised with every change; quote it with a score."""
    source: str
    """Data that the list was made for."""
    reasons: Mapping[str, str]
    """Task id -> why its gold answer can't score."""


@cache
def bfcl_exclusions() -> Exclusions:
    """The packaged list for BFCL.

    Raises:
        DataError: The packaged file is damaged.
    """
    text = resources.files("streakline.tasks").joinpath("bfcl_exclusions.json").read_text(encoding="utf-8")
    try:
        data = json.loads(text)
        reasons = {str(key): str(value) for key, value in data["reasons"].items()}
        return Exclusions(version=int(data["version"]), source=str(data["source"]), reasons=reasons)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"Expected bfcl_exclusions.json to be a versioned list, but got {reason}") from error
