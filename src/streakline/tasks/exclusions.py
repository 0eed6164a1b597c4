"""Tasks of BFCL that are left out because their own gold answer is wrong.

The list is packaged with its version, so that a score can say which tasks it is over, and with the data that it was
made for. Every gold answer not on it, executed, scores 1.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def bfcl_exclusions() -> Mapping[str, str]:
    """Task id -> why its gold answer can't score."""
    text = resources.files("streakline.tasks").joinpath("bfcl_exclusions.json").read_text(encoding="utf-8")
    reasons: dict[str, str] = json.loads(text)["reasons"]
    return reasons
