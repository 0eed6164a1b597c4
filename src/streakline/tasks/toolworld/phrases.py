"""The words of the requests, by kind and split, from `phrases.json` beside this file.

`{field}` stands for a value, ` | ` separates user turns. No phrase occurs twice. Those of `base` name each step; the
others are everyday requests which share their vocabulary, so that a small model can understand the held-out ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from streakline.tasks.toolworld.values import Split

PHRASES: Mapping[str, Mapping[Split, tuple[str, ...]]] = {
    kind: {split: tuple(phrases) for split, phrases in splits.items()}
    for kind, splits in json.loads(Path(__file__).with_name("phrases.json").read_text(encoding="utf-8")).items()
}
"""Kind -> split -> templates."""
