"""Tool schemas as JSON Schema, and the check of a call's arguments against them.

Sources write types in their own way (`dict`, `float`, `ArrayList`); `to_json_schema` brings them to JSON Schema.
`argument_errors` checks literal arguments: integers pass as numbers, booleans pass as neither, 2.0 is no integer,
and an argument that the schema doesn't name is refused. Validators are compiled once a schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from streakline.types import JSON

__all__ = ["argument_errors", "to_json_schema"]

_TYPES = {
    **dict.fromkeys(("dict", "object", "HashMap", "Hashtable"), "object"),
    **dict.fromkeys(("array", "list", "tuple", "Array", "ArrayList", "Set", "Queue", "Stack"), "array"),
    **dict.fromkeys(("float", "double", "number"), "number"),
    **dict.fromkeys(("integer", "byte", "short", "long", "Bigint"), "integer"),
    **dict.fromkeys(("boolean", "bool", "Boolean"), "boolean"),
    **dict.fromkeys(("string", "String", "char", "any", "Any"), "string"),
}
"""Type names of BFCL and Gorilla to JSON Schema's; `any` is a string there, in the prompt and in the checker."""

_SHOWN_CHARACTERS = 80
"""How much of a wrong value an error repeats to the model."""


def to_json_schema(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """Bring one parameter, or the whole parameter object, to JSON Schema.

    Args:
        schema: Schema with the source's type names, nested by `properties` and `items`.

    Returns:
        A new schema. Unknown type names become `string`, as upstream does; a `required` that is no list is dropped.
    """
    result = {key: value for key, value in schema.items() if key != "required" or isinstance(value, list)}
    kind = schema.get("type")
    if isinstance(kind, str) and kind:
        result["type"] = _TYPES.get(kind, "string")
    else:
        result.pop("type", None)
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(properties, dict):
        result["properties"] = {
            name: to_json_schema(value) if isinstance(value, dict) else {} for name, value in properties.items()
        }
    if isinstance(items, dict):
        result["items"] = to_json_schema(items)
    return result


def argument_errors(arguments: Mapping[str, JSON], *, parameters: Mapping[str, JSON]) -> str:
    """Say what is wrong with the arguments of a call.

    Args:
        arguments: Literal arguments by name.
        parameters: JSON Schema of an object type.

    Returns:
        One sentence for the model, about the first fault; empty = nothing is wrong.
    """
    properties, required = parameters.get("properties"), parameters.get("required")
    known = properties if isinstance(properties, dict) else {}
    for name in required if isinstance(required, list) else []:
        if name not in arguments:
            return f"Expected `{name}` to be given, but got {_given(arguments)}"
    for name in arguments:
        if name not in known:
            accepted = ", ".join(f"`{key}`" for key in known) or "none"
            return f"Expected only these arguments: {accepted}, but got `{_shortened(name)}`"
    compiled = _compiled(parameters)
    if all(name in compiled.simple and compiled.simple[name](value) for name, value in arguments.items()):
        return ""
    try:
        error = next(compiled.validator.iter_errors(arguments), None)
    except RecursionError:
        return "Expected arguments of moderate depth, but got deeper ones"
    if error is None:
        return ""
    path = ".".join(str(part) for part in error.absolute_path) or "arguments"
    expectation = _expectation(error.validator, error.validator_value)
    return f"Expected `{path}` to be {expectation}, but got {_shown(error.instance)}"


def _given(arguments: Mapping[str, JSON]) -> str:
    return ("only " + ", ".join(f"`{name}`" for name in arguments)) if arguments else "no arguments"


def _expectation(keyword: object, value: object) -> str:
    if keyword == "type":
        return f"of type {value}"
    if keyword == "enum" and isinstance(value, list):
        return "one of " + ", ".join(json.dumps(item, ensure_ascii=False, default=str) for item in value)
    return f"of {keyword} {json.dumps(value, ensure_ascii=False, default=str)}"


def _shown(value: object) -> str:
    return _shortened(json.dumps(value, ensure_ascii=False, default=str))


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: _is_integer(value)),
)

_SIMPLE_CHECKS: Mapping[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
}
_NOTES = frozenset({"description", "type", "default", "title", "format", "optional", "examples"})
"""Keywords that say nothing more about a value than its type."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A schema ready for use."""

    validator: Validator
    """Checks everything and words the fault."""
    simple: dict[str, Callable[[object], bool]]
    """Checks of the parameters that are constrained by a plain type alone, some 30 times faster."""


_KEPT_IDENTITIES = 8192
_by_identity: dict[int, tuple[Mapping[str, JSON], _Compiled]] = {}
"""Schema object's id -> the schema (held, so that the id stays its own) and its compiled form."""


def _compiled(parameters: Mapping[str, JSON]) -> _Compiled:
    entry = _by_identity.get(id(parameters))
    if entry is not None:
        return entry[1]
    compiled = _compile(json.dumps(parameters, sort_keys=True))
    if len(_by_identity) >= _KEPT_IDENTITIES:
        _by_identity.clear()
    _by_identity[id(parameters)] = (parameters, compiled)
    return compiled


@lru_cache(maxsize=4096)
def _compile(text: str) -> _Compiled:
    schema = json.loads(text)
    simple = {
        name: _SIMPLE_CHECKS[value["type"]]
        for name, value in schema.get("properties", {}).items()
        if value.get("type") in _SIMPLE_CHECKS and value.keys() <= _NOTES
    }
    # Keywords of the whole object other than these two speak of several parameters at once.
    if not schema.keys() <= _NOTES | {"properties", "required"}:
        simple = {}
    return _Compiled(validator=_Validator(schema), simple=simple)
