"""Java and JavaScript arguments: texts that hold literals of the language, read by upstream's own converters.

The converters are regular expressions, some of which take exponential or high polynomial time on what they can't read,
and no time-out can interrupt one. So a collection is read only if it is short and has few brackets, and white space
between its parts is shortened first: what is larger than any answer is wrong.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from functools import cache

from streakline.environment.simulators import bfcl_folder
from streakline.types import JSON

_CONVERTERS = "bfcl_eval.eval_checker.ast_eval.type_convertor"
_COLLECTIONS = frozenset({"Array", "ArrayList", "array", "HashMap", "dict"})
_WITH_ITEMS = frozenset({"Array", "ArrayList", "array"})

_MAX_CHARACTERS = 1000
"""Of a collection; the longest answer has 150."""
_MAX_BRACKETS = 12
"""`[`, and `]`, of a collection: upstream tries up to 2 to this power ways to read an array of arrays."""
_MAX_BLANKS = 16
"""White space in a row inside quotes; answers have at most 2."""

_QUOTED_OR_BLANK = re.compile(r"\"[^\"]*\"|'[^']*'|\s+")


def read_literal(value: JSON, *, schema: Mapping[str, JSON], language: str) -> JSON:
    """Read a Java or JavaScript argument; Python's are values already.

    A literal that isn't one of the declared type stays text, as upstream has it.

    Raises:
        ValueError: The argument is no text, or no literal that can be read.
    """
    if language == "python":
        return value
    name, items = str(schema.get("type")), schema.get("items")
    if not isinstance(value, str):
        raise ValueError("Expected a literal as text, but got a value")
    if name in _COLLECTIONS:
        value = _of_moderate_size(value)
    inner = (str(items.get("type")) if isinstance(items, dict) else "",) if name in _WITH_ITEMS else ()
    try:
        return _converter(language)(value, name, *inner)
    except (ValueError, KeyError, IndexError, AttributeError, TypeError, NotImplementedError, RecursionError) as error:
        raise ValueError(f"Expected a literal of type {name}, but got {value[:80]!r}") from error


def _of_moderate_size(collection: str) -> str:
    """Shorten white space outside quotes, where it means nothing; `ValueError` = there is still too much."""
    short = _QUOTED_OR_BLANK.sub(_shortened, collection)
    if len(short) > _MAX_CHARACTERS or max(short.count("["), short.count("]")) > _MAX_BRACKETS:
        raise ValueError("Expected a collection of moderate size, but got a larger one")
    if re.search(rf"\s{{{_MAX_BLANKS + 1}}}", short):
        raise ValueError("Expected a text of moderate white space, but got more")
    return short


def _shortened(found: re.Match[str]) -> str:
    text = found[0]
    if not text.isspace():
        return text
    return "\n" if "\n" in text else text[0]


@cache
def _converter(language: str) -> Callable[..., JSON]:
    name = {"java": "java_type_converter", "javascript": "js_type_converter"}[language]
    bfcl_folder()  # names the command that installs the package where it is missing
    converter: Callable[..., JSON] = vars(importlib.import_module(f"{_CONVERTERS}.{name}"))[name]
    return converter
