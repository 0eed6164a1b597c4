"""One text for all ways to write the same call, and the SHA-256 keys made of it.

Canonical arguments are plain JSON: keys sorted; keys and strings in NFC; a whole number an integer (1.0 and 1 alike,
-0.0 is 0) unless the schema gives it a type that is no number; optional arguments left out where they equal the
schema's default. What a tool may treat differently stays different: null and absent, true and 1, "1" and 1, and an
argument that is required, whatever its default.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from unicodedata import normalize

from streakline.errors import CacheError
from streakline.types import JSON

_MAX_DEPTH = 200
_MAX_INTEGER = 10**4000  # Python refuses to write or read integers of more than 4,300 digits.
_ANY: Mapping[str, JSON] = {}
_NUMERIC = ("number", "integer")
_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False, check_circular=False)


def canonical_arguments(
    arguments: Mapping[str, JSON], *, parameters: Mapping[str, JSON] | None = None
) -> dict[str, JSON]:
    """Bring arguments to canonical form; doing so again changes nothing.

    `parameters` is the tool's JSON Schema: `type`, `default` and `required` count, at every depth that `properties` and
    `items` reach.

    Raises:
        CacheError: `arguments` is no object or holds what JSON can't, or keys that are equal in NFC, or is nested more
            than 200 deep.

    Example::

        >>> schema = {"properties": {"unit": {"type": "string", "default": "km"}}}
        >>> canonical_arguments({"unit": "km", "n": 2.0, "at": None}, parameters=schema)
        {'at': None, 'n': 2}
    """
    if not isinstance(arguments, Mapping):
        raise CacheError(f"Expected `arguments` to be an object, but got {type(arguments).__name__}")
    return _object(arguments, _ANY if parameters is None else parameters, 1)


def canonical_text(canonical: Mapping[str, JSON]) -> str:
    """Write canonical arguments as compact JSON in ASCII, equal for equal arguments and for no others."""
    return _ENCODER.encode(canonical)


def nfc(text: str) -> str:
    """Normalise text; surrogates that form a pair become the character, from which JSON can't tell them."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return normalize("NFC", text)


def call_key(tool: str, text: str) -> bytes:
    """Hash a tool's name and its arguments, as `canonical_text` writes them, to 32 bytes."""
    return sha256(_head(tool) + text.encode("ascii") + b"]").digest()


def entry_key(call: bytes, state: bytes) -> bytes:
    """Hash a call's key and the digest of the state that it met to the exact key; `state` is empty for a pure tool."""
    return sha256(call + state).digest() if state else call


@lru_cache(maxsize=65536)
def _head(tool: str) -> bytes:
    return f"[{json.dumps(nfc(tool))},".encode("ascii")


def _value(value: object, schema: Mapping[str, JSON], depth: int) -> JSON:
    if isinstance(value, str):
        return value if value.isascii() else nfc(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if -_MAX_INTEGER < value < _MAX_INTEGER:
            return value
        raise CacheError(f"Expected integers in `arguments` to be below 1e4000, but got {value.bit_length()} bits")
    if isinstance(value, float):
        return _float(value, schema)
    if isinstance(value, Mapping):
        return _object(value, schema, depth + 1)
    if isinstance(value, list | tuple):
        return _array(value, schema, depth + 1)
    raise CacheError(f"Expected `arguments` to hold JSON values, but got {type(value).__name__}")


def _float(value: float, schema: Mapping[str, JSON]) -> float | int:
    if not math.isfinite(value):
        raise CacheError(f"Expected numbers in `arguments` to be finite, but got {value}")
    return int(value) if value.is_integer() and _allows_number(schema.get("type")) else value


def _allows_number(kind: JSON) -> bool:
    return kind is None or kind in _NUMERIC or (isinstance(kind, list) and any(each in _NUMERIC for each in kind))


def _array(value: list[object] | tuple[object, ...], schema: Mapping[str, JSON], depth: int) -> list[JSON]:
    _check_depth(depth)
    items = schema.get("items")
    inner = items if isinstance(items, dict) else _ANY
    result: list[JSON] = []
    for item in value:  # A comprehension would cost a third stack frame for each level of nesting.
        result.append(_value(item, inner, depth))  # noqa: PERF401
    return result


def _object(value: Mapping[str, object], schema: Mapping[str, JSON], depth: int) -> dict[str, JSON]:
    _check_depth(depth)
    properties = schema.get("properties")
    result: dict[str, JSON] = {}
    optional = []
    for key, item in value.items():
        if not isinstance(key, str):
            raise CacheError(f"Expected keys of `arguments` to be strings, but got {type(key).__name__}")
        name = key if key.isascii() else nfc(key)
        if name in result:
            raise CacheError(f"Expected keys of `arguments` to differ in NFC, but got {name!r} twice")
        inner = _property(properties, name) if isinstance(properties, dict) else _ANY
        result[name] = _value(item, inner, depth)
        if "default" in inner:
            optional.append((name, inner))
    for name, inner in optional:
        if _is_default(result[name], inner) and not _is_required(schema.get("required"), name):
            del result[name]
    return {name: result[name] for name in sorted(result)}


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise CacheError(f"Expected `arguments` to be nested at most {_MAX_DEPTH} deep, but got more")


def _property(properties: dict[str, JSON], name: str) -> Mapping[str, JSON]:
    found = properties.get(name)
    if found is None and not name.isascii():
        found = next((value for key, value in properties.items() if nfc(key) == name), None)
    return found if isinstance(found, dict) else _ANY


def _is_required(required: JSON, name: str) -> bool:
    return isinstance(required, list) and any(isinstance(each, str) and nfc(each) == name for each in required)


def _is_default(value: JSON, schema: Mapping[str, JSON]) -> bool:
    default = _value(schema["default"], schema, 1)
    if isinstance(value, dict | list):
        return _ENCODER.encode(value) == _ENCODER.encode(default)
    return type(value) is type(default) and value == default  # To Python, True equals 1.
