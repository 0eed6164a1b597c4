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
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TypeAlias, TypeVar, final

import numpy as np
import numpy.typing as npt

from streakline.types import JSON

Tokens: TypeAlias = npt.NDArray[np.uint64]
Integers: TypeAlias = npt.NDArray[np.int64]
_Hashed = TypeVar("_Hashed")

MAX_NGRAM_CHARS = 2_000
"""Leading characters of a string that give words and trigrams; the pair is always of the whole value."""

_MAX_MEMO_CHARS = 64
"""Longer texts are hashed anew: they seldom come back, and would fill the memo with their characters."""

_MAX_MEMO_TEXTS = 2**17
"""Texts in a memo before it starts anew."""

_WORD = re.compile(r"\w+")
_MASK = 2**64 - 1
_FACTORS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9  # Odd, as in SplitMix64: no two trigrams are hashed alike.


def call_tokens(tool: str, arguments: Mapping[str, JSON]) -> set[int]:
    """Return the token set of a call as 64-bit integers, the same in every process and on every machine.

    The arguments are expected in canonical form: 1 and 1.0 would be two values here.
    """
    tokens: list[int] = []
    for path, value in _leaves(arguments):
        salt = _salt(tool, path)
        text = _add_whole(tokens, salt, value)
        tokens += [salt ^ _TRIGRAMS[text[i : i + 3]] for i in range(len(text) - 2)]
    return set(tokens)


def call_tokens_many(calls: Sequence[tuple[str, Mapping[str, JSON]]]) -> tuple[Tokens, Integers]:
    """Return the tokens of many calls, in less time than `call_tokens` takes, and which call each is of.

    A token that a call has twice may be there twice.
    """
    wholes: list[int] = []
    texts, salts, num_wholes, num_texts = [], [], [0], [0]
    for tool, arguments in calls:
        for path, value in _leaves(arguments):
            salt = _salt(tool, path)
            texts.append(_add_whole(wholes, salt, value))
            salts.append(salt)
        num_wholes.append(len(wholes))
        num_texts.append(len(texts))
    numbers = np.arange(len(calls))
    trigrams, text_of = _trigrams(texts, salts)
    owners = np.repeat(numbers, np.diff(num_wholes)), np.repeat(numbers, np.diff(num_texts))[text_of]
    return np.concatenate([np.array(wholes, np.uint64), trigrams]), np.concatenate(owners)


def jaccard(first: Set[int], second: Set[int]) -> float:
    """Return the size of the intersection over that of the union, in [0, 1]; 1 for two empty sets."""
    shared = len(first & second)
    union = len(first) + len(second) - shared
    return shared / union if union else 1.0


def _leaves(arguments: Mapping[str, JSON]) -> Iterable[tuple[str, JSON]]:
    if not arguments:
        return [("", {})]  # The one token "no arguments": a parameter without a name and value.
    for value in arguments.values():
        if isinstance(value, (dict, list)):
            break
    else:
        return arguments.items()
    leaves: list[tuple[str, JSON]] = []
    for key, value in arguments.items():
        _add_leaves(leaves, key, value)
    return leaves


def _add_leaves(leaves: list[tuple[str, JSON]], path: str, value: JSON) -> None:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            _add_leaves(leaves, f"{path}.{key}", child)
    elif isinstance(value, list) and value:
        for child in value:
            _add_leaves(leaves, path, child)
    else:
        leaves.append((path, value))


def _add_whole(tokens: list[int], salt: int, value: JSON) -> str:
    """Add the pair and the words of a leaf; returns the text that its trigrams are of."""
    if not isinstance(value, str):
        tokens.append(salt ^ _VALUES[repr(value)])
        return ""
    tokens += [salt ^ hashed for hashed in _STRINGS[value]]
    return value[:MAX_NGRAM_CHARS].lower()


def _trigrams(texts: Sequence[str], salts: Sequence[int]) -> tuple[Tokens, Integers]:
    """Return the tokens of the trigrams of all texts, and which text each is of."""
    codes: Tokens = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    text_of: Integers = np.repeat(np.arange(len(texts)), np.array([len(text) for text in texts], np.int64))
    first = np.flatnonzero(text_of[:-2] == text_of[2:])
    mixed = codes[first] << np.uint64(42) | codes[first + 1] << np.uint64(21) | codes[first + 2]
    for factor in _FACTORS:
        mixed = mixed * np.uint64(factor)
        mixed ^= mixed >> np.uint64(32)
    return mixed ^ np.array(salts, np.uint64)[text_of[first]], text_of[first]


def _hash_trigram(trigram: str) -> int:
    first, second, third = map(ord, trigram)
    mixed = first << 42 | second << 21 | third
    for factor in _FACTORS:
        mixed = mixed * factor & _MASK
        mixed ^= mixed >> 32
    return mixed


def _hash(kind: str, text: str) -> int:
    # Python's own hash() differs between processes; a lone surrogate is a legal character of a JSON string.
    return int.from_bytes(blake2b(f"{kind} {text}".encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _hash_string(value: str) -> tuple[int, ...]:
    return _hash("string", value), *[_WORDS[word] for word in _WORD.findall(value[:MAX_NGRAM_CHARS].lower())]


@final
class _Memo(dict[str, _Hashed]):
    """Hashes by text: a dict in place of lru_cache, whose linked list costs twice the time of a trigram."""

    def __init__(self, hash_text: Callable[[str], _Hashed]) -> None:
        super().__init__()
        self._hash_text = hash_text

    def __missing__(self, text: str) -> _Hashed:
        value = self._hash_text(text)
        if len(text) <= _MAX_MEMO_CHARS:
            if len(self) >= _MAX_MEMO_TEXTS:
                self.clear()
            self[text] = value
        return value


_TRIGRAMS, _STRINGS = _Memo(_hash_trigram), _Memo(_hash_string)
_WORDS, _VALUES = _Memo(partial(_hash, "word")), _Memo(partial(_hash, "value"))


@lru_cache(maxsize=2**16)
def _salt(tool: str, path: str) -> int:
    return _hash("path", json.dumps([tool, path]))
