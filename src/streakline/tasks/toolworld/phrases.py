"""The words of the requests, by kind and split, from `phrases.json` beside this file.

`{field}` stands for a value, ` | ` separates user turns. No phrase occurs twice. Those of `base` name each step; the
others are everyday requests which share their vocabulary, so that a small model can understand the held-out ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from streakline.tasks.toolworld.values import SPLITS, Split

__all__ = ["PHRASES", "Phrases"]

Phrases: TypeAlias = "Mapping[Split, tuple[str, ...]]"
"""Templates by split."""


def _read() -> dict[str, Phrases]:
    rows = json.loads(Path(__file__).with_name("phrases.json").read_text(encoding="utf-8"))
    return {kind: {split: tuple(splits[split]) for split in SPLITS} for kind, splits in rows.items()}


PHRASES: Mapping[str, Phrases] = _read()
"""Templates by kind."""
