"""Which values a type takes, and when two of them are the same: one table, for arguments and for all that is in them.

Types have JSON Schema's names, which `kind` gives for those of the source. `docs/grading.md` shows the table with
examples, and tests go through these.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Literal, TypeAlias

from streakline.environment.json_schema import to_json_schema
from streakline.types import JSON

Mode: TypeAlias = Literal["strict", "lenient"]
"""`strict`: as the schema says and as the answer is written; `lenient`: what upstream lets pass."""

TAKES: Mapping[str, tuple[type[object], ...]] = {
    "string": (str,),
    "integer": (int,),
    # 3 is a number in JSON Schema, in which the policy is shown its tools, and many writers print 3.0 so.
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (NoneType,),
}
"""Type -> classes of the values that it takes, at every depth and in both modes. A `bool` is no `int` here."""

_OWN: Mapping[type[object], str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    NoneType: "null",
}

_UNSPOKEN = str.maketrans({**dict.fromkeys(" ,./-_*^", ""), "'": '"'})
"""What upstream drops from texts before it compares them, so that `April 1, 2024` is `april 1 2024`."""


@cache
def _kind(name: str) -> str:
    return str(to_json_schema({"type": name}).get("type", ""))


def kind(schema: Mapping[str, JSON]) -> str:
    """JSON Schema's name for the type that a parameter declares in whatever notation; empty = it declares none."""
    name = schema.get("type")
    return _kind(name) if isinstance(name, str) else ""


def kind_of(value: JSON) -> str:
    """Type of a literal value; empty for what is no JSON."""
    return _OWN.get(type(value), "")


def same_scalar(value: JSON, accepted: JSON, *, mode: Mode) -> bool:
    """Whether two values without parts are the same; in `lenient`, texts that differ in case and marks alone are."""
    if value == accepted:
        return isinstance(value, bool) == isinstance(accepted, bool)
    if mode == "strict" or not isinstance(value, str) or not isinstance(accepted, str):
        return False
    return value.translate(_UNSPOKEN).lower() == accepted.translate(_UNSPOKEN).lower()
