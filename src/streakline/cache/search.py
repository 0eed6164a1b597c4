"""Finds the rows of one tool that are most similar to a token set, exactly.

Of a tool whose calls have few tokens, all rows are compared. Of any other FAISS proposes: first the rows of the rarest
tokens' lists. The best of these says how many more lists a better row can be missing from, and how near its sketch is.
"""

from __future__ import annotations

import math
import threading
from typing import NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from streakline.cache.postings import MIN_SIMILARITY, Postings, prefix_length, prefixes
from streakline.cache.rows import ToolRows, ranges
from streakline.cache.tokens import Integers, Tokens

Found: TypeAlias = tuple[float, int]
"""Negative similarity and number of a row of the tool, so that the best is the least: of equally similar ones the one
of the lowest id."""

COMPARED_TOKENS = 2**15
"""Tokens of a tool up to which all its rows are compared, in less than 100 us."""
_SCANNED = 4096
"""Sketches that the first lists hold, unless the rarest list alone has more; then 16 times as many."""
_FIRST_COMPARED = 16
"""Proposals that are compared before it is looked whether a further one can be better; then four times as many."""


class _Query(NamedTuple):
    """What is searched for."""

    tool: ToolRows
    tokens: Tokens
    known: Integers
    """Numbers of the tokens that some row of the tool has."""
    limit: int
    floor: float

    def bar(self, best: list[Found]) -> tuple[float, float]:
        """Return what a row must be below to be found, given the best so far."""
        return best[-1] if len(best) == self.limit else (-self.floor, math.inf)


@final
class Searcher:
    """Searches rows; several threads may share it."""

    def __init__(self, postings: Postings, *, max_vocabulary: int) -> None:
        self._postings = postings
        self._lock = threading.Lock()
        # By number, whether the set that is searched for has the token: an array is looked up far faster than a set.
        self._is_asked = np.zeros(max_vocabulary, np.float32)

    @property
    def num_bytes(self) -> int:
        """Memory of its own."""
        return self._is_asked.nbytes

    def search(self, tool: ToolRows, tokens: set[int], *, count: int, floor: float) -> list[Found]:
        """Return up to `count` rows of similarity `floor` or more, the best first."""
        asked = np.fromiter(tokens, np.uint64, len(tokens))
        places = tool.vocabulary[:-1].searchsorted(asked)  # What is above all others is compared with the last.
        query = _Query(tool, asked, places[tool.vocabulary[places] == asked], count, floor)
        if len(tool.numbers) > COMPARED_TOKENS and floor >= MIN_SIMILARITY:
            return self._search_proposed(query)
        similarities = self._similarities(query, tool.numbers, tool.starts, tool.sizes)
        return _sorted(np.arange(len(similarities)), similarities, query)

    def _search_proposed(self, query: _Query) -> list[Found]:
        size = len(query.tokens)
        lists, _, sketches = prefixes(query.tokens, np.array([size]), self._postings.buckets, query.floor)
        scanned = np.cumsum(self._postings.list_sizes[lists])
        best: list[Found] = []
        start, scan = 0, _SCANNED
        # A row that is better than all found so far has a token in a shorter prefix, and a nearer sketch.
        while start < (end := prefix_length(size, similarity := -query.bar(best)[0])):
            end = min(end, max(start + 1, int(scanned.searchsorted(scan))))
            rows, distances = self._postings.within(lists[start:end], sketches[0], _reach(size, similarity))
            best = self._compare(query, rows - query.tool.first_row, distances, best)
            start, scan = end, 16 * scan
        return best

    def _compare(self, query: _Query, rows: Integers, distances: Integers, best: list[Found]) -> list[Found]:
        """Return the best of those that are and of `rows`, which are compared in order of what they can be at most."""
        own = query.tool
        inside = (rows >= 0) & (rows < len(own.sizes))  # A list may hold rows of another tool.
        rows, distances = rows[inside], distances[inside]
        both = len(query.tokens) + own.sizes[rows]
        apart = np.maximum(distances, np.abs(both - 2 * len(query.tokens)))  # So many tokens are in one set alone.
        bounds = (both - apart) / (both + apart)
        order = np.argsort(-bounds, kind="stable")
        rows, bounds = rows[order], bounds[order]
        start, length = 0, _FIRST_COMPARED
        while start < len(rows) and (-float(bounds[start]), int(rows[start])) < query.bar(best):
            some = rows[start : start + length]
            sizes = own.sizes[some]
            numbers = own.numbers[ranges(own.starts[some], sizes)]
            similarities = self._similarities(query, numbers, np.cumsum(sizes) - sizes, sizes)
            best = sorted({*best, *_sorted(some, similarities, query)})[: query.limit]
            start, length = start + length, 4 * length
        return best

    def _similarities(
        self, query: _Query, numbers: npt.NDArray[np.uint32], starts: Integers, sizes: Integers
    ) -> npt.NDArray[np.float64]:
        """Return the similarities to rows of `sizes` tokens, which start at `starts` of `numbers`."""
        with self._lock:
            self._is_asked[query.known] = 1
            hits = self._is_asked.take(numbers)
            self._is_asked[query.known] = 0
        shared = np.add.reduceat(hits, starts)
        similarities: npt.NDArray[np.float64] = shared / (len(query.tokens) + sizes - shared)
        return similarities


def _sorted(rows: Integers, similarities: npt.NDArray[np.float64], query: _Query) -> list[Found]:
    similar = np.flatnonzero(similarities >= query.floor)
    return sorted(zip((-similarities[similar]).tolist(), rows[similar].tolist(), strict=True))[: query.limit]


def _reach(size: int, similarity: float) -> int:
    """Return how many tokens may be in one set alone, for a set of `size` to be so similar to another.

    All tokens are shared but for s of them: the similarity is at most size / (size + s).
    """
    return int(size * (1 - similarity) / similarity + 1e-9)
