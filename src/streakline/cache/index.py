"""The index of recorded calls by similarity: FAISS proposes, the exact Jaccard similarity of token sets decides."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final
from unicodedata import unidata_version

import numpy as np

from streakline.cache.canonical import call_key, canonical_text
from streakline.cache.index_file import read_arrays, write_arrays
from streakline.cache.postings import FAISS_VERSION, Postings
from streakline.cache.rows import Rows
from streakline.cache.search import Best, Searcher
from streakline.cache.tokens import call_tokens, call_tokens_many
from streakline.errors import CacheError
from streakline.types import JSON

if TYPE_CHECKING:
    from streakline.cache.store import CacheStore

_VERSION = 1
_MEDOID_SAMPLE = 256


class Neighbour(NamedTuple):
    """A recorded call that is similar to the one asked for."""

    entry_id: int
    similarity: float
    """Jaccard similarity of the token sets, in (0, 1]."""


@final
class FuzzyIndex:
    """Finds the entries of a tool whose calls are most similar to one; several threads may share it."""

    def __init__(self, rows: Rows, postings: Postings, *, min_similarity: float) -> None:
        self._rows = rows
        self._postings = postings
        self._min_similarity = min_similarity
        self._searcher = Searcher(rows, postings, min_similarity=min_similarity)
        self._tools = rows.tools()
        self._entry_ids, self._entry_offsets = rows.entry_ids.data, rows.entry_offsets.data
        self._medoids: dict[str, int] = {}

    @classmethod
    def build(cls, entries: Iterable[tuple[int, str, dict[str, JSON]]], *, min_similarity: float = 0.4) -> FuzzyIndex:
        """Index entries, given by id, tool and canonical arguments.

        `min_similarity` is the least that can be asked for later: the lower, the more lists an entry is in.

        Raises:
            CacheError: `min_similarity` is outside (0, 1].
        """
        if not 0 < min_similarity <= 1:
            raise CacheError(f"Expected `min_similarity` to be in (0, 1], but got {min_similarity}")
        rows = Rows.build(entries)
        postings = Postings.build(rows.tokens, rows.sizes, min_similarity=min_similarity)
        return cls(rows, postings, min_similarity=min_similarity)

    @classmethod
    def from_store(cls, store: CacheStore, *, min_similarity: float) -> FuzzyIndex:
        """Index all entries of a store. See `build`."""
        return cls.build(
            ((item.id, item.tool, item.arguments) for item in store.iterate()), min_similarity=min_similarity
        )

    @classmethod
    def load(cls, path: Path, *, identity: Mapping[str, JSON], min_similarity: float) -> FuzzyIndex:
        """Read what `save` wrote; raises `CacheError` where that was something else, or is damaged."""
        arrays = read_arrays(path, identity={**_format(min_similarity), **identity})
        postings = Postings(arrays.pop("numbers"), arrays.pop("lists"))
        return cls(Rows(**arrays), postings, min_similarity=min_similarity)

    def save(self, path: Path, *, identity: Mapping[str, JSON]) -> None:
        """Write the index, whole or not at all; `identity` says what of. Raises `OSError`."""
        arrays = {**self._rows._asdict(), "numbers": self._postings.numbers, "lists": self._postings.to_bytes()}
        write_arrays(path, arrays, identity={**_format(self._min_similarity), **identity})

    @property
    def num_entries(self) -> int:
        """Entries that can be found."""
        return len(self._rows.entry_ids)

    @property
    def num_bytes(self) -> int:
        """Memory that the index holds."""
        return sum(column.nbytes for column in self._rows) + self._postings.num_bytes

    def nearest(
        self, tool: str, arguments: dict[str, JSON], *, count: int = 1, min_similarity: float | None = None
    ) -> list[Neighbour]:
        """Return up to `count` entries of the tool, the most similar first, of equal ones the lowest id first.

        `arguments` are canonical; `min_similarity` is the least that an entry has, by default that of the index.

        Raises:
            CacheError: `min_similarity` is below that of the index, or above 1.
        """
        best = Best(count, self._floor(min_similarity))
        return self._neighbours(self._searcher.search(call_tokens(tool, arguments), best), count)

    def nearest_many(
        self,
        calls: Sequence[tuple[str, dict[str, JSON]]],
        *,
        count: int = 1,
        min_similarity: float | None = None,
    ) -> list[list[Neighbour]]:
        """Return what `nearest` does for each of many calls, given by tool and canonical arguments, in less time."""
        floor = self._floor(min_similarity)
        if count > 1 or len(calls) < 2 or not self.num_entries:
            return [self.nearest(*call, count=count, min_similarity=floor) for call in calls]
        found = self._searcher.search_many(*call_tokens_many(calls), floor=floor)
        return [self._neighbours(best, count) for best in found]

    def medoid(self, tool: str) -> int | None:
        """Return the entry of the tool that has the greatest mean similarity to its entries; None where it has none.

        Of more than 256 entries an evenly spaced sample of 256 is compared with itself.
        """
        if tool not in self._medoids and self._tools.get(tool):
            self._medoids[tool] = self._find_medoid(self._tools[tool])
        return self._medoids.get(tool)

    def _find_medoid(self, rows: range) -> int:
        offsets = self._rows.entry_offsets
        start, stop = int(offsets[rows.start]), int(offsets[rows.stop])
        size = min(_MEDOID_SAMPLE, stop - start)
        entries = start + np.arange(size) * (stop - start) // size
        sample, counts = np.unique(np.searchsorted(offsets, entries, side="right") - 1, return_counts=True)
        totals = [
            math.fsum(np.repeat(self._rows.similarities(self._rows.tokens_of(row), sample), counts))
            for row in sample.tolist()
        ]
        return int(self._rows.entry_ids[offsets[sample[int(np.argmax(totals))]]])

    def _floor(self, min_similarity: float | None) -> float:
        least = self._min_similarity
        if min_similarity is None:
            return least
        if not least <= min_similarity <= 1:
            raise CacheError(f"Expected `min_similarity` to be in [{least}, 1], but got {min_similarity}")
        return min_similarity

    def _neighbours(self, rows: Sequence[tuple[float, int]], count: int) -> list[Neighbour]:
        if count == 1:
            return [Neighbour(self._entry_ids[self._entry_offsets[row]], -negative) for negative, row in rows]
        found = []
        for negative, row in rows:
            start = self._entry_offsets[row]
            stop = min(self._entry_offsets[row + 1], start + count)
            found += [(negative, entry_id) for entry_id in self._entry_ids[start:stop]]
        found.sort()
        return [Neighbour(entry_id, -negative) for negative, entry_id in found[:count]]


def open_index(store: CacheStore, *, min_similarity: float) -> FuzzyIndex:
    """Read the index of a store from the file beside it, or make both anew where that doesn't fit, with a warning.

    Raises:
        CacheError: the store is damaged, or `min_similarity` is outside (0, 1].
    """
    path, identity = Path(f"{store.path}.index"), _identity(store)
    try:
        return FuzzyIndex.load(path, identity=identity, min_similarity=min_similarity)
    except CacheError as error:
        warnings.warn(f"Making the index {path} anew: {error}", stacklevel=2)
    index = FuzzyIndex.from_store(store, min_similarity=min_similarity)
    try:
        index.save(path, identity=identity)
    except OSError as error:
        warnings.warn(f"Could not write the index {path}, work goes on without: {error.strerror}", stacklevel=2)
    return index


def _identity(store: CacheStore) -> dict[str, JSON]:
    # The store's digest is the same in whatever order the entries came, but an index tells them by their ids.
    order = sha256()
    for entry in store.iterate():
        order.update(b"%d " % entry.id + call_key(entry.tool, canonical_text(entry.arguments)))
    return {"store": store.digest(), "order of entries": order.hexdigest()}


def _format(min_similarity: float) -> dict[str, JSON]:
    # Words and lower case follow the Unicode tables of the Python that wrote the tokens.
    return {
        "version": _VERSION,
        "FAISS version": FAISS_VERSION,
        "Unicode version": unidata_version,
        "min_similarity": min_similarity,
    }
