"""Accepted values as an answer would write them: in Java and JavaScript as literals, in several forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

from streakline.types import JSON

NUM_FORMS = 3
"""Forms of a literal that are tried."""
_JAVA_NAMES = {"integer": "Integer", "long": "Long", "String": "String", "boolean": "Boolean", "char": "Character"}


def accepted_value(option: JSON, rng: Random, *, optional: float = 0.5, emptied: bool = False) -> JSON:
    """One value that an accepted one stands for: a dictionary holds a list of accepted values for each of its keys.

    `optional` is how likely an entry is there that may be left out; with `emptied` it is always there, as `""`.
    """
    if isinstance(option, list):
        return [accepted_value(item, rng, optional=optional, emptied=emptied) for item in option]
    if not isinstance(option, dict):
        return option
    entries = dict[str, JSON]()
    for key, entry in option.items():
        options = entry if isinstance(entry, list) else [entry]
        given = [each for each in options if each != ""]
        if len(given) < len(options) and emptied:
            entries[key] = ""
        elif given and (len(given) == len(options) or rng.random() < optional):
            entries[key] = accepted_value(rng.choice(given), rng, optional=optional, emptied=emptied)
    return entries


def write_literal(value: JSON, *, schema: Mapping[str, JSON], language: str, form: int = 0) -> JSON:
    """The value as an argument; `form` = which of `NUM_FORMS` ways to write it."""
    if language == "python":
        return value
    kind, items = str(schema.get("type")), schema.get("items")
    inner = str(items.get("type")) if isinstance(items, dict) else ""
    if isinstance(value, str):  # a text, or a name
        return (value, f'"{value}"', f"'{value}'")[form] if (language, kind) == ("javascript", "String") else value
    return _java(value, kind, inner, form) if language == "java" else _javascript(value, kind, inner, form)


def _java(value: JSON, kind: str, inner: str, form: int) -> str:
    if isinstance(value, list):
        items = [_java(item, inner, "", form) for item in value]
        name = ("", "", _JAVA_NAMES.get(inner, "Object"))[form]
        if kind == "Array":
            return f"new {inner or 'Object'}[]{'' if form else ' '}{{{', '.join(items)}}}"
        if form == 1:
            return f"new ArrayList<{name}>() {{{{ {' '.join(f'add({item});' for item in items)} }}}}"
        return f"new ArrayList<{name}>(Arrays.asList({', '.join(items)}))"
    if isinstance(value, dict):
        puts = [f'put("{key}", {_java(item, "", "", form)});' for key, item in value.items()]
        name, between = ("", "String, Object", "String, Object")[form], ("\n    " if form == 2 else " ")
        return f"new HashMap<{name}>() {{{{{between}{between.join(puts)}{between}}}}}"
    if isinstance(value, str) and kind == "char":
        return f"'{value}'"
    suffix = {"long": ("L", "l", "L"), "float": ("f", "F", "f")}.get(kind, ("", "", ""))[form]
    return json.dumps(value, ensure_ascii=False) + suffix


def _javascript(value: JSON, kind: str, inner: str, form: int) -> str:
    if isinstance(value, list):
        items = ("," if form == 2 else ", ").join(_javascript(item, inner, "", form) for item in value)
        return f"new Array({items})" if form == 1 else f"[{items}]"
    if isinstance(value, dict):
        keys = {key: (f'"{key}"', key, f"'{key}'")[form] for key in value}
        return "{" + ", ".join(f"{keys[key]}: {_javascript(item, '', '', form)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return f"'{value}'" if form == 1 else json.dumps(value, ensure_ascii=False)
    return json.dumps(value) + ("n" if kind == "Bigint" else "")
