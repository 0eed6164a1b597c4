"""The token sets of all recorded calls in flat arrays, one row for each entry."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar, final

import numpy as np
import numpy.typing as npt

from streakline.cache.tokens import Integers, Tokens, call_tokens_many
from streakline.types import JSON

MAX_READ = 2**13
"""Tokens of a tool up to which all are read for each call, in less time than it takes to gather those of some lists."""
MAX_COUNTED = 2**18
"""Tokens of a tool up to which those that its rows share with a call are counted, for all rows, in some 100 us."""

_CHUNK = 4096
_LOW = 2**32 - 1
_Number = TypeVar("_Number", np.uint64, np.int64)


class ToolRows(NamedTuple):
    """The rows of one tool, by id of their entries. Tokens are numbered by their place in the vocabulary."""

    entry_ids: Integers
    """[rows]."""
    sizes: Integers
    """[rows] tokens of each."""
    vocabulary: Tokens
    """The distinct tokens, ascending."""
    starts: npt.NDArray[np.uint32]
    """[rows + 1] where the tokens of each row start; by token [tokens + 1] where the rows of each token do."""
    items: npt.NDArray[np.uint32]
    """The tokens of row after row, or the rows of token after token, ascending within each."""

    @property
    def is_by_token(self) -> bool:
        """Whether there are too many tokens to read all, and few enough to count those of some lists."""
        return MAX_READ < len(self.items) <= MAX_COUNTED

    @property
    def is_large(self) -> bool:
        """Whether there are too many rows to count for all of them."""
        return len(self.items) > MAX_COUNTED

    def parts(self, of: Integers) -> tuple[npt.NDArray[np.uint32], Integers]:
        """Give the items of some rows (by token: of some tokens), one after another, and how many each has."""
        starts = self.starts[of].astype(np.int64)
        lengths = self.starts[of + 1] - starts
        ends = lengths.cumsum()
        places = np.arange(ends[-1] if len(ends) else 0) + (starts - ends + lengths).repeat(lengths)
        return self.items[places], lengths

    def pairs(self, sample: Integers) -> tuple[Integers, npt.NDArray[np.uint32]]:
        """Give a place in `sample`, which is of rows, and a token for each token of each of them."""
        if not self.is_by_token:
            items, lengths = self.parts(sample)
            return np.repeat(np.arange(len(sample)), lengths), items
        place_of = np.full(len(self.sizes), -1)
        place_of[sample] = np.arange(len(sample))
        found, numbers = place_of[self.items], np.repeat(np.arange(len(self.vocabulary)), np.diff(self.starts))
        return found[found >= 0], numbers[found >= 0].astype(np.uint32)


def build_rows(entries: Iterable[tuple[int, str, dict[str, JSON]]]) -> dict[str, ToolRows]:
    """Collect the token sets of entries, given by id, tool and canonical arguments."""
    collected: dict[str, _Collected] = {}
    entries = iter(entries)
    while chunk := list(islice(entries, _CHUNK)):
        tokens, owners = call_tokens_many([(tool, arguments) for _, tool, arguments in chunk])
        by_tool: dict[str, list[int]] = {}
        for place, (_, tool, _) in enumerate(chunk):
            by_tool.setdefault(tool, []).append(place)
        rank = np.empty(len(chunk), np.uint16)
        rank[np.concatenate([np.array(places) for places in by_tool.values()])] = np.arange(len(chunk))
        ranks = rank[owners]
        order = np.argsort(ranks, kind="stable")  # In linear time, of 16 bits.
        tokens, ranks, first = tokens[order], ranks[order], 0
        for tool, places in by_tool.items():
            own = collected.setdefault(tool, _Collected(array("q"), [], []))
            start, stop = ranks.searchsorted([first, first + len(places)]).tolist()
            own.tokens.append(tokens[start:stop])
            own.rows.append(ranks[start:stop].astype(np.int64) + (len(own.ids) - first))
            own.ids.extend(chunk[place][0] for place in places)
            first += len(places)
    return {tool: _tool_rows(*own) for tool, own in collected.items()}


class _Collected(NamedTuple):
    ids: array[int]
    tokens: list[Tokens]
    rows: list[Integers]
    """Which of the ids each token is of."""


def pack_rows(tools: Mapping[str, ToolRows]) -> dict[str, npt.NDArray[Any]]:
    """Join the arrays of all tools, and say which part of each is whose; see `unpack_rows`."""
    names = np.frombuffer(json.dumps(list(tools)).encode("ascii"), np.uint8)
    lengths = [[len(column) for column in rows] for rows in tools.values()]
    packed: dict[str, npt.NDArray[Any]] = {"names": names, "lengths": np.array(lengths, np.int64)}
    for column, name in enumerate(ToolRows._fields):
        packed[name] = np.concatenate([rows[column] for rows in tools.values()] or [np.zeros(0, np.uint32)])
    return packed


def unpack_rows(packed: Mapping[str, npt.NDArray[Any]]) -> dict[str, ToolRows]:
    """Give what `pack_rows` joined."""
    ends = np.cumsum(packed["lengths"], axis=0).reshape(-1, len(ToolRows._fields))
    columns = [np.split(packed[name], ends[:-1, place]) for place, name in enumerate(ToolRows._fields)]
    names = json.loads(packed["names"].tobytes())
    return {name: ToolRows(*parts) for name, *parts in zip(names, *columns, strict=False)}


def _tool_rows(entry_ids: array[int], tokens: list[Tokens], rows: list[Integers]) -> ToolRows:
    """Sort the rows of a tool by id, number its tokens, and drop those that a row has twice."""
    ids = np.asarray(entry_ids)
    row_of = np.empty_like(ids)
    row_of[np.argsort(ids)] = np.arange(len(ids))
    if sum(map(len, tokens)) <= MAX_COUNTED:
        tokens, rows = [np.concatenate(tokens)], [np.concatenate(rows)]
    # Of a large tool part by part, since a sort is fast within the caches.
    vocabulary = _distinct(np.concatenate([_distinct(part) for part in tokens]))
    number = Numbering(vocabulary)
    parts = zip(rows, tokens, strict=True)
    pairs = np.concatenate([_distinct(row_of[own] << 32 | number(part)) for own, part in parts])
    pairs.sort(kind="stable")  # In linear time where the entries came by id.
    sizes = np.bincount(pairs >> 32, minlength=len(ids))
    counts = sizes
    if MAX_READ < len(pairs) <= MAX_COUNTED:
        pairs = np.sort((pairs & _LOW) << 32 | pairs >> 32)
        counts = np.bincount(pairs >> 32)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return ToolRows(np.sort(ids), sizes, vocabulary, starts.astype(np.uint32), (pairs & _LOW).astype(np.uint32))


@final
class Numbering:
    """Gives the place of each token in a vocabulary that has them all.

    Tokens are evenly spread, as hashes are: the upper bits of one all but say where it is, far faster than a search.
    """

    def __init__(self, vocabulary: Tokens) -> None:
        self._vocabulary = vocabulary
        self._shift = np.uint64(max(0, 64 - len(vocabulary).bit_length() - 2))
        buckets = np.arange(1 << (64 - int(self._shift)), dtype=np.uint64) << self._shift
        self._starts = vocabulary.searchsorted(buckets)

    def __call__(self, tokens: Tokens) -> Integers:
        """Look up the places of tokens."""
        found: Integers = self._starts[tokens >> self._shift]
        while (is_above := self._vocabulary[found] != tokens).any():
            found += is_above
        return found


def _distinct(values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Sort without repeats; `np.unique` takes many times as long where most differ."""
    values = np.sort(values)
    distinct: npt.NDArray[_Number] = values[np.concatenate([[True], values[1:] != values[:-1]])]
    return distinct
