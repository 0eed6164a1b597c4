"""Values near a right one: changed, or written in another way."""

from __future__ import annotations

import json
from random import Random

from streakline.types import JSON


def changed(value: JSON, rng: Random) -> JSON:
    """The value with one change, at a random depth."""
    if isinstance(value, list) and value and rng.random() < 0.6:
        place = rng.randrange(len(value))
        return [*value[:place], changed(value[place], rng), *value[place + 1 :]]
    if isinstance(value, dict) and value and rng.random() < 0.6:
        key = rng.choice(list(value))
        return {**value, key: changed(value[key], rng)}
    return rng.choice(_other_values(value, rng))


def _other_values(value: JSON, rng: Random) -> list[JSON]:
    if isinstance(value, bool):
        return [not value, int(value), str(value).lower(), None]
    if isinstance(value, int | float):
        whole = [int(value), bool(value)] if value == int(value) else [int(value)]
        return [float(value), float(value), *whole, value + 1, value * 1.001, -value, str(value), [value], None]
    if isinstance(value, str):
        return _other_texts(value, rng)
    if isinstance(value, list):
        floats: list[JSON] = [float(item) if type(item) is int else item for item in value]
        integers: list[JSON] = [int(item) if type(item) is float else item for item in value]
        return [value[::-1], value[:-1], [*value, *value[:1]], [value], [], json.dumps(value), floats, integers]
    if isinstance(value, dict):
        rest = dict(list(value.items())[1:])
        return [rest, {**value, "x": 1}, {**rest, "x": 1}, {}, [value], json.dumps(value)]
    return ["", 0, False, "null", []]


def _other_texts(text: str, rng: Random) -> list[JSON]:
    place = rng.randrange(len(text) + 1)
    inserted = text[:place] + rng.choice(" ,./-_*^'\"x;\n") + text[place:]
    looks = [text.upper(), text.lower(), text.title(), text.replace(" ", ""), text.replace('"', "'"), f" {text} "]
    literals = [json.dumps(text), text + rng.choice(("L", "f", "n", ".0")), text.strip("\"'"), _decoded(text)]
    cut = text[:place] + text[place + 1 :]
    return [*looks, *literals, inserted, inserted, cut, text[::-1], "", [text], {"x": text}, None]


def _decoded(text: str) -> JSON:
    """What the text is in JSON, or the text."""
    try:
        value: JSON = json.loads(text)
    except ValueError:
        return text
    return value


def otherwise(value: JSON, rng: Random) -> JSON:
    """The same value in other marks, case or kind of number, at every depth: right for upstream more often than not."""
    if isinstance(value, list):
        return [otherwise(item, rng) for item in value]
    if isinstance(value, dict):
        return {key: otherwise(item, rng) for key, item in value.items()}
    if isinstance(value, str) and value:
        looks = (value.upper(), value.lower(), value.title(), value.replace(" ", ""), value.replace("'", '"'))
        return rng.choice([*looks, f"{value}.", value.replace(", ", " "), value])
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
