"""The token sets of all recorded calls, and the entries that have them, in flat arrays."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streakline.cache.tokens import Integers, Tokens, call_tokens_many, distinct
from streakline.types import JSON

_CHUNK = 4096


class Rows(NamedTuple):
    """One row for each distinct token set, ordered by tool, then by the lowest id of its entries."""

    tokens: Tokens
    """Tokens of row after row."""
    offsets: Integers
    """[rows + 1] where the tokens of each row start."""
    entry_ids: Integers
    """Ids of the entries of row after row, ascending within each."""
    entry_offsets: Integers
    """[rows + 1] where the entries of each row start."""
    tool_offsets: Integers
    """[tools + 1] where the rows of each tool start."""
    tool_names: npt.NDArray[np.uint8]
    """JSON text of the names of the tools, in order."""

    @classmethod
    def build(cls, entries: Iterable[tuple[int, str, dict[str, JSON]]]) -> Rows:
        """Collect the token sets of entries, given by id, tool and canonical arguments."""
        tools: dict[str, int] = {}
        rows: dict[bytes, int] = {}
        tokens, sizes = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        row_tools, ids, row_of = array("q"), array("q"), array("q")
        entries = iter(entries)
        while chunk := list(islice(entries, _CHUNK)):
            found, lengths = call_tokens_many([(tool, arguments) for _, tool, arguments in chunk])
            is_new, start = np.zeros(len(chunk), bool), 0
            for number, (length, (entry_id, tool, _)) in enumerate(zip(lengths.tolist(), chunk, strict=True)):
                digest = blake2b(found[start : start + length].data, digest_size=16).digest()
                start += length
                row = rows.setdefault(digest, len(rows))
                if row == len(row_tools):
                    is_new[number] = True
                    row_tools.append(tools.setdefault(tool, len(tools)))
                ids.append(entry_id)
                row_of.append(row)
            tokens.append(found[np.repeat(is_new, lengths)])
            sizes.append(lengths[is_new])
        rows.clear()
        columns = (np.asarray(column) for column in (row_tools, ids, row_of))
        return _ordered(list(tools), np.concatenate(tokens), np.concatenate(sizes), *columns)

    @property
    def sizes(self) -> Integers:
        """[rows] tokens of each."""
        return np.diff(self.offsets)

    def tools(self) -> dict[str, range]:
        """Give the rows of each tool."""
        offsets = self.tool_offsets.tolist()
        names = json.loads(self.tool_names.tobytes())
        return {name: range(*offsets[index : index + 2]) for index, name in enumerate(names)}

    def tokens_of(self, row: int) -> Tokens:
        """Give the tokens of one, ascending."""
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    def similarities(self, tokens: Tokens, rows: Integers) -> npt.NDArray[np.float64]:
        """Return the Jaccard similarity of a sorted token set to each of at least one row."""
        others, sizes = self._gather(rows)
        place = np.searchsorted(tokens[:-1], others)  # The place of what is above all others is that of the last.
        shared = np.add.reduceat(tokens[place] == others, np.cumsum(sizes) - sizes, dtype=np.int64)
        similarities: npt.NDArray[np.float64] = shared / (len(tokens) + sizes - shared)
        return similarities

    def pair_similarities(self, tokens: Tokens, sizes: Integers, rows: Integers) -> npt.NDArray[np.float64]:
        """Return the Jaccard similarity of each token set, of `sizes`, to its row."""
        others, other_sizes = self._gather(rows)
        numbers = np.arange(len(rows))
        owners = np.concatenate([np.repeat(numbers, sizes), np.repeat(numbers, other_sizes)])
        _, union = distinct(np.concatenate([tokens, others]), owners, len(rows))
        similarities: npt.NDArray[np.float64] = (sizes + other_sizes - union) / union
        return similarities

    def _gather(self, rows: Integers) -> tuple[Tokens, Integers]:
        starts = self.offsets[rows]
        sizes = self.offsets[rows + 1] - starts
        return self.tokens[_ranges(starts, sizes)], sizes


def _ordered(
    tools: list[str], tokens: Tokens, sizes: Integers, row_tools: Integers, ids: Integers, row_of: Integers
) -> Rows:
    """Bring rows from the order in which they were found into that of `Rows`."""
    first_ids = np.full(len(sizes), np.iinfo(np.int64).max)
    np.minimum.at(first_ids, row_of, ids)
    order = np.lexsort((first_ids, row_tools))
    new_number = np.empty_like(order)
    new_number[order] = np.arange(len(order))
    row_of = new_number[row_of]
    starts = np.cumsum(sizes) - sizes
    return Rows(
        tokens=tokens[_ranges(starts[order], sizes[order])],
        offsets=_offsets(sizes[order]),
        entry_ids=ids[np.lexsort((ids, row_of))],
        entry_offsets=_offsets(np.bincount(row_of, minlength=len(sizes))),
        tool_offsets=_offsets(np.bincount(row_tools, minlength=len(tools))),
        tool_names=np.frombuffer(json.dumps(tools).encode("ascii"), np.uint8),
    )


def _offsets(sizes: Integers) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _ranges(starts: Integers, sizes: Integers) -> Integers:
    """Concatenate `range(start, start + size)` of each."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + sizes, sizes)
