"""Tool schemas as JSON Schema, and the check of a call's arguments against them.

Sources write types in their own way (`dict`, `float`, `ArrayList`); `to_json_schema` brings them to JSON Schema.
`argument_errors` checks literal arguments: integers pass as numbers, booleans pass as neither, 2.0 is no integer,
and an argument that the schema doesn't name is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from streakline.types import JSON

_TYPES = {
    **dict.fromkeys(("dict", "object", "HashMap", "Hashtable"), "object"),
    **dict.fromkeys(("array", "list", "tuple", "Array", "ArrayList", "Set", "Queue", "Stack"), "array"),
    **dict.fromkeys(("float", "double", "number"), "number"),
    **dict.fromkeys(("integer", "byte", "short", "long", "Bigint"), "integer"),
    **dict.fromkeys(("boolean", "bool", "Boolean"), "boolean"),
    **dict.fromkeys(("string", "String", "char", "any", "Any"), "string"),
}
"""Type names of BFCL and Gorilla to JSON Schema's; `any` is a string there, in the prompt and in the checker."""

_COMPARED_FAULTS = 16
"""Faults from which the one that is told is chosen: a list can have one in each of its items."""
_SHOWN_CHARACTERS = 80
"""How much of a wrong value an error repeats to the model."""

_Validator = extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def to_json_schema(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """Bring one parameter, or the whole parameter object, to JSON Schema, with all that is nested in it.

    Unknown type names become `string`, as upstream does; a `required` that is no list is dropped.
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
    """Say in one sentence for the model what the first fault of literal arguments is; empty = there is none."""
    properties, required = parameters.get("properties"), parameters.get("required")
    known = properties if isinstance(properties, dict) else {}
    for name in required if isinstance(required, list) else []:
        if name not in arguments:
            given = ", ".join(f"`{argument}`" for argument in arguments)
            return f"Expected `{name}` to be given, but got {f'only {given}' if given else 'no arguments'}"
    for name in arguments:
        if name not in known:
            accepted = ", ".join(f"`{key}`" for key in known) or "none"
            return f"Expected only these arguments: {accepted}, but got `{_shortened(name)}`"
    try:
        faults = islice(_Validator(parameters).iter_errors(arguments), _COMPARED_FAULTS)
        # By keyword within a place: what an `enum` allows says more than its `type`.
        error = min(faults, key=lambda fault: ([*map(str, fault.absolute_path)], fault.validator), default=None)
    except RecursionError:
        return "Expected arguments of moderate depth, but got deeper ones"
    if error is None:
        return ""
    path = ".".join(str(part) for part in error.absolute_path) or "arguments"
    expectation = _expectation(error.validator, error.validator_value)
    return f"Expected `{path}` to be {expectation}, but got {_shortened(_text(error.instance))}"


def _expectation(keyword: object, value: object) -> str:
    if keyword == "type":
        return f"of type {value}"
    if keyword == "enum" and isinstance(value, list):
        return "one of " + ", ".join(map(_text, value))
    return f"of {keyword} {_text(value)}"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
