r"""The token set of a call, which says how similar two calls are.

The set holds, for each leaf of the canonical arguments, the pair of its key path and value. A string adds its words
(`\w+`) and its character trigrams, both lower-cased, so that a typing error or a missing word costs a part of the
similarity and not all of it. Array indices are left out of the path: `{"to": ["a", "b"]}` has two leaves `to`. An empty
object or array is a leaf. Each token is salted with tool and path, so that the sets of two tools are disjoint, and the
words of two parameters differ. A call without arguments has the one token "no arguments".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from functools import lru_cache
from hashlib import blake2b

from streakline.types import JSON

MAX_NGRAM_CHARS = 2_000
"""Leading characters of a string that give words and trigrams; the pair is always of the whole value."""

_MAX_MEMO_CHARS = 64
"""Longer texts are hashed anew: they seldom come back, and would fill the memo with their characters."""

_MAX_MEMO_TEXTS = 2**20
"""Texts in the memo before it starts anew."""

_WORD = re.compile(r"\w+")


def call_tokens(tool: str, arguments: Mapping[str, JSON]) -> set[int]:
    """Return the token set of a call as 64-bit integers, the same in every process and on every machine.

    The arguments are expected in canonical form: 1 and 1.0 would be two values here.
    """
    tokens: set[int] = set()
    for key, value in arguments.items():
        _add_leaves(tokens, tool, key, value)
    return tokens or {_salt(tool, "") ^ _HASHES["no arguments"]}


def jaccard(first: Set[int], second: Set[int]) -> float:
    """Return the size of the intersection over that of the union, in [0, 1]; 1 for two empty sets."""
    shared = len(first & second)
    union = len(first) + len(second) - shared
    return shared / union if union else 1.0


def _add_leaves(tokens: set[int], tool: str, path: str, value: JSON) -> None:
    if isinstance(value, str):
        _add_string(tokens, _salt(tool, path), value)
    elif isinstance(value, dict) and value:
        for key, child in value.items():
            _add_leaves(tokens, tool, f"{path}.{key}", child)
    elif isinstance(value, list) and value:
        for child in value:
            _add_leaves(tokens, tool, path, child)
    else:
        tokens.add(_salt(tool, path) ^ _HASHES[f"value {json.dumps(value)}"])


def _add_string(tokens: set[int], salt: int, value: str) -> None:
    # The three kinds can't be confused: a trigram has three characters, the others begin with a longer word.
    tokens.add(salt ^ _HASHES[f"string {value}"])
    lowered = value[:MAX_NGRAM_CHARS].lower()
    tokens.update([salt ^ _HASHES[lowered[i : i + 3]] for i in range(len(lowered) - 2)])
    tokens.update([salt ^ _HASHES[f"word {word}"] for word in _WORD.findall(lowered)])


def _hash(text: str) -> int:
    # Python's own hash() differs between processes; a lone surrogate is a legal character of a JSON string.
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class _Memo(dict[str, int]):
    """Hashes by text: a dict in place of lru_cache, whose linked list costs twice the time of a trigram."""

    def __missing__(self, text: str) -> int:
        value = _hash(text)
        if len(text) <= _MAX_MEMO_CHARS:
            if len(self) >= _MAX_MEMO_TEXTS:
                self.clear()
            self[text] = value
        return value


_HASHES = _Memo()


@lru_cache(maxsize=2**16)
def _salt(tool: str, path: str) -> int:
    return _hash(f"path {json.dumps([tool, path])}")
