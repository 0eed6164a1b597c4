"""The token sets of all recorded calls in flat arrays, one row for each entry."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streakline.cache.tokens import Integers, Tokens, call_tokens_many
from streakline.types import JSON

_CHUNK = 4096
_Number = TypeVar("_Number", np.uint64, np.int64)


class Rows(NamedTuple):
    """One row for each entry, ordered by tool, then by id. Tokens are numbered within their tool."""

    numbers: npt.NDArray[np.uint32]
    """Numbers of the tokens of row after row, ascending within each."""
    offsets: Integers
    """[rows + 1] where the tokens of each row start."""
    entry_ids: Integers
    """[rows]."""
    vocabulary: Tokens
    """The distinct tokens of tool after tool, ascending within each: a token's number is its place there."""
    tool_vocabulary: Integers
    """[tools + 1] where the vocabulary of each tool starts."""
    tool_rows: Integers
    """[tools + 1] where the rows of each tool start."""
    tool_names: npt.NDArray[np.uint8]
    """JSON text of the names of the tools, in order."""

    @classmethod
    def build(cls, entries: Iterable[tuple[int, str, dict[str, JSON]]]) -> Rows:
        """Collect the token sets of entries, given by id, tool and canonical arguments."""
        tools: dict[str, int] = {}
        tool_of, ids = array("q"), array("q")
        tokens, owners = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        entries = iter(entries)
        while chunk := list(islice(entries, _CHUNK)):
            found, numbers = call_tokens_many([(tool, arguments) for _, tool, arguments in chunk])
            tokens.append(found)
            owners.append(numbers + len(ids))
            tool_of.extend(tools.setdefault(tool, len(tools)) for _, tool, _ in chunk)
            ids.extend(entry_id for entry_id, _, _ in chunk)
        columns = np.concatenate(tokens), np.concatenate(owners), np.asarray(tool_of), np.asarray(ids)
        return _ordered(list(tools), *columns)

    def tools(self) -> dict[str, ToolRows]:
        """Give what is held of each tool."""
        names, rows, places = json.loads(self.tool_names.tobytes()), self.tool_rows, self.tool_vocabulary
        return {
            name: self._of_tool(slice(*rows[number : number + 2]), slice(*places[number : number + 2]))
            for number, name in enumerate(names)
        }

    def _of_tool(self, rows: slice, places: slice) -> ToolRows:
        offsets = self.offsets[rows.start : rows.stop + 1]
        return ToolRows(
            first_row=int(rows.start),
            entry_ids=self.entry_ids[rows],
            vocabulary=self.vocabulary[places],
            numbers=self.numbers[offsets[0] : offsets[-1]],
            starts=offsets[:-1] - offsets[0],
            sizes=np.diff(offsets),
        )


class ToolRows(NamedTuple):
    """The rows of one tool."""

    first_row: int
    """Its number among all rows."""
    entry_ids: Integers
    vocabulary: Tokens
    numbers: npt.NDArray[np.uint32]
    starts: Integers
    """[rows] place of the first of its `numbers`."""
    sizes: Integers
    """[rows] tokens of each."""


def ranges(starts: Integers, sizes: Integers) -> Integers:
    """Concatenate `range(start, start + size)` of each."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + sizes, sizes)


def _ordered(tools: list[str], tokens: Tokens, owners: Integers, tool_of: Integers, ids: Integers) -> Rows:
    """Bring what belongs to entries in the order in which they were found into that of `Rows`."""
    order = np.lexsort((ids, tool_of))
    row_of = np.empty_like(order)
    row_of[order] = np.arange(len(order))
    tool_rows = _offsets(np.bincount(tool_of, minlength=len(tools)))
    by_tool = np.argsort(tool_of[owners].astype(np.min_scalar_type(len(tools))), kind="stable")  # linear, if of 16 bits
    tokens, rows = tokens[by_tool], row_of[owners[by_tool]]
    ends = np.bincount(tool_of[owners], minlength=len(tools)).cumsum()
    numbers, sizes, vocabulary = [], [], []
    for first, end, start, stop in zip(tool_rows[:-1], tool_rows[1:], [0, *ends], ends, strict=False):
        distinct = _distinct(tokens[start:stop])
        # Sorted, what a row has twice stands together.
        keys = _distinct((rows[start:stop] - first) << 32 | places(distinct, tokens[start:stop]))
        vocabulary.append(distinct)
        numbers.append((keys & (2**32 - 1)).astype(np.uint32))
        sizes.append(np.bincount(keys >> 32, minlength=end - first))
    return Rows(
        numbers=_joined(numbers, np.uint32),
        offsets=_offsets(_joined(sizes, np.int64)),
        entry_ids=ids[order],
        vocabulary=_joined(vocabulary, np.uint64),
        tool_vocabulary=_offsets(np.array([len(distinct) for distinct in vocabulary], np.int64)),
        tool_rows=tool_rows,
        tool_names=np.frombuffer(json.dumps(tools).encode("ascii"), np.uint8),
    )


def places(distinct: Tokens, tokens: Tokens) -> Integers:
    """Return the place of each token in `distinct`, which is sorted and has them all.

    Tokens are evenly spread, as hashes are: the upper bits of one all but say where it is, far faster than a search.
    """
    shift = np.uint64(max(0, 64 - len(distinct).bit_length() - 2))
    starts = distinct.searchsorted(np.arange(1 << (64 - int(shift)), dtype=np.uint64) << shift)
    found: Integers = starts[tokens >> shift]
    while (is_above := distinct[found] != tokens).any():
        found += is_above
    return found


def _distinct(values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Sort without repeats; `np.unique` takes many times as long where most differ."""
    values = np.sort(values)
    distinct: npt.NDArray[_Number] = values[np.concatenate([[True], values[1:] != values[:-1]])]
    return distinct


def _joined(parts: Sequence[npt.NDArray[Any]], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, kind)


def _offsets(sizes: Integers) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
