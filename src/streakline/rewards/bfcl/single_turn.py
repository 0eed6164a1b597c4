"""The calls of one response against the accepted values of each call, in whatever order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from streakline.rewards.bfcl.coercion import TAKES, Mode, kind, kind_of, same_scalar
from streakline.rewards.bfcl.languages import read_literal
from streakline.types import JSON, ToolCall


def assign_calls(
    calls: Sequence[ToolCall],
    *,
    answers: Sequence[Mapping[str, JSON]],
    functions: Mapping[str, Mapping[str, JSON]],
    language: str,
    mode: Mode,
) -> list[int] | None:
    """Give each answer a call of its own that fits it; None where that can't be done, or a call is left.

    Args:
        calls: Calls of one response.
        answers: One a call, `{function: {parameter: [accepted values]}}`; `""` among the values = may be left out.
        functions: Parameters of each function in the source's notation, by its name.
        language: Whose literals the arguments are: `python`, `java` or `javascript`.
        mode: What is accepted.

    Returns:
        [answers] index of the call.
    """
    if len(calls) != len(answers):
        return None

    def fits(index: int, answer: Mapping[str, JSON]) -> bool:
        return call_fits(calls[index], answer, functions=functions, language=language, mode=mode)

    odd = next((index for index, answer in enumerate(answers) if not fits(index, answer)), None)
    if odd is None:
        return list(range(len(calls)))
    if not any(fits(index, answers[odd]) for index in range(len(calls)) if index != odd):
        return None  # as most wrong answers are
    able = np.array([[fits(index, answer) for index in range(len(calls))] for answer in answers])
    _, chosen = linear_sum_assignment(able, maximize=True)
    indices: list[int] = chosen.tolist()
    return indices if all(able[row, index] for row, index in enumerate(indices)) else None


def call_fits(
    call: ToolCall,
    answer: Mapping[str, JSON],
    *,
    functions: Mapping[str, Mapping[str, JSON]],
    language: str,
    mode: Mode,
) -> bool:
    """Whether a call is the one of an answer: the same function, and an accepted value for every parameter."""
    [(name, accepted)] = answer.items()
    parameters, arguments = functions.get(name), call.arguments
    if call.name != name or parameters is None or not isinstance(accepted, dict) or not isinstance(arguments, Mapping):
        return False
    properties, required = _inner(parameters, "properties"), parameters.get("required")
    if not all(key in arguments for key in (required if isinstance(required, list) else ())):
        return False
    if not all(key in arguments or "" in _options(options) for key, options in accepted.items()):
        return False
    for key, value in arguments.items():
        if key not in accepted or key not in properties:
            return False
        schema = _inner(properties, key)
        try:
            literal = read_literal(value, schema=schema, language=language)
        except ValueError:
            return False
        if mode == "strict" and language != "python" and isinstance(literal, str):
            schema = {}  # a variable's name is a right expression of any type there
        if not is_accepted(literal, _options(accepted[key]), schema=schema, mode=mode):
            return False
    return True


def is_accepted(value: JSON, options: Sequence[JSON], *, schema: Mapping[str, JSON], mode: Mode) -> bool:
    """Whether a value is among the accepted ones of a parameter, or of an entry of a dictionary.

    The value must be of the declared type. In `lenient` it may also be of the type of the first accepted value, which
    is how the source writes a variable's name or null; and where `""` says that it may be left out, it may be the empty
    text or list of the type that it has.
    """
    given = [option for option in options if option != ""]
    first = kind_of(given[0]) if given else kind(schema) or "string"
    if mode == "lenient" and len(given) < len(options):
        types = first, kind(schema) or first
        if value == [] and types == ("array", "array"):
            return True
        if "string" in types and _same(value, "", schema=schema, first=first, mode=mode):
            return True
    return any(_same(value, option, schema=schema, first=first, mode=mode) for option in given)


def _same(value: JSON, option: JSON, *, schema: Mapping[str, JSON], first: str, mode: Mode) -> bool:
    """Compare with one accepted value, going only as deep as that does."""
    declared = kind(schema)
    expected = declared or kind_of(option)
    is_other = bool(declared) and first != declared
    if type(value) not in TAKES[expected] and not (mode == "lenient" and is_other and kind_of(value) == first):
        return False
    inner: Mode = "strict" if is_other else mode  # upstream compares a variable's name letter by letter
    if isinstance(value, list):
        return isinstance(option, list) and _same_items(value, option, schema=_inner(schema, "items"), mode=inner)
    if isinstance(value, dict):
        properties = _inner(schema, "properties")
        return isinstance(option, dict) and _same_entries(value, option, properties=properties, mode=inner)
    return same_scalar(value, option, mode=inner)


def _same_items(value: list[JSON], wanted: list[JSON], *, schema: Mapping[str, JSON], mode: Mode) -> bool:
    pairs = zip(value, wanted, strict=False)
    return len(value) == len(wanted) and all(
        _same(item, option, schema=schema, first=kind_of(option), mode=mode) for item, option in pairs
    )


def _same_entries(
    value: dict[str, JSON], accepted: dict[str, JSON], *, properties: Mapping[str, JSON], mode: Mode
) -> bool:
    options = {key: _options(entry) for key, entry in accepted.items()}
    return value.keys() <= options.keys() and all(
        is_accepted(value[key], entry, schema=_inner(properties, key), mode=mode) if key in value else "" in entry
        for key, entry in options.items()
    )


def _options(entry: JSON) -> list[JSON]:
    """Accepted values of an entry. What is no list stands alone; a text may also be left out.

    Upstream takes such a text for a list of its characters, all of which may be left out.
    """
    if isinstance(entry, list):
        return entry
    return [entry, ""] if isinstance(entry, str) else [entry]


def _inner(schema: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    found = schema.get(name)
    return found if isinstance(found, dict) else {}
