"""Requests of the `base` split that dictate calls word for word, over all tools: practice in format and copying."""

from __future__ import annotations

from streakline.tasks.toolworld.files import FILE_KINDS
from streakline.tasks.toolworld.kinds import Draft, Kind
from streakline.tasks.toolworld.values import Split, Values

__all__ = ["DICTATED"]


def _dictated(values: Values, split: Split) -> Draft:
    return FILE_KINDS[0].draft(values, split)


DICTATED = Kind(
    name="dictated", simulators=(), draft=_dictated, habit=FILE_KINDS[0].habit, phrases=FILE_KINDS[0].phrases
)
