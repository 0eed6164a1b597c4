"""Finds the rows that are most similar to a token set, exactly, with as few comparisons as that allows.

A first pass asks FAISS for the rows of the rarest lists that are nearest in Hamming distance. That distance bounds how
similar a row can be, and the number of lists how similar one is that is in none of them. Where the best row found
is better than what is left, it is the answer. Otherwise a second pass takes all rows that the bounds allow.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import final

import numpy as np
import numpy.typing as npt

from streakline.cache.postings import Postings
from streakline.cache.prefix import Integers, prefix_length, probe_many, probe_one
from streakline.cache.rows import Rows

_PROPOSALS = 64
"""Of the first pass. A row with one changed value comes about ten times: once for each list that it shares."""
_SCANNED = 16_384
"""Sketches that the first pass scans, unless the rarest list alone has more: some tens of us."""
_COMPARED_AT_ONCE = 256
"""Rows that the second pass compares before it looks whether a further one can be better."""


@final
class Best:
    """The best rows so far: by similarity, then by number, which within a tool is the order of the lowest ids."""

    def __init__(self, count: int, floor: float) -> None:
        self.found: list[tuple[float, int]] = []
        """Negative similarity and number of each, sorted."""
        self.count = count
        self._bar: tuple[float, float] = (-floor, math.inf)

    @property
    def floor(self) -> float:
        """Least similarity at which a further row may count."""
        return -self._bar[0]

    def admits(self, similarity: float, row: int) -> bool:
        """Whether a row of this similarity would be among the best."""
        return (-similarity, row) < self._bar

    def offer(self, similarity: float, row: int) -> None:
        """Take a row in if it is among the best."""
        if self.admits(similarity, row):
            insort(self.found, (-similarity, row))
            if len(self.found) >= self.count:
                del self.found[self.count :]
                self._bar = self.found[-1]


@final
class Searcher:
    """Searches rows by their postings, which were built for sets of at least `min_similarity`."""

    def __init__(self, rows: Rows, postings: Postings, *, min_similarity: float) -> None:
        self._rows = rows
        self._postings = postings
        self._min_similarity = min_similarity
        # An element of a memoryview costs a third of the time of one of an array.
        self._tokens, self._offsets = rows.tokens.data, rows.offsets.data
        self._numbers, self._list_sizes = postings.numbers.data, postings.list_sizes.data

    def search(self, tokens: set[int], *, count: int, floor: float) -> Best:
        """Return the best `count` rows of similarity `floor` or more."""
        order, sketch = probe_one(tokens, self._numbers)
        lists = list(dict.fromkeys(order[: prefix_length(len(order), floor)]))
        scanned = list(accumulate([self._list_sizes[number] for number in lists]))
        num_first = max(1, bisect_right(scanned, _SCANNED))
        distances, rows = self._postings.nearest(lists[:num_first], sketch, _PROPOSALS)
        return self._completed(tokens, Best(count, floor), distances, rows, num_first, len(lists))

    def search_many(self, sets: Sequence[set[int]], *, count: int, floor: float) -> list[Best]:
        """Return what `search` does for each of at least one set, by one search of the postings."""
        sizes = np.array([len(tokens) for tokens in sets])
        tokens = np.fromiter(chain.from_iterable(sets), np.uint64, int(sizes.sum()))
        probes = probe_many(tokens, sizes, self._postings.numbers, floor)
        num_lists = np.bincount(probes.owners)
        starts = np.cumsum(num_lists) - num_lists
        position = np.arange(len(probes.lists)) - starts[probes.owners]
        scanned = np.cumsum(self._postings.list_sizes[probes.lists])
        before = np.concatenate([[0], scanned])[starts]
        keep = (scanned - before[probes.owners] <= _SCANNED) | (position == 0)
        owners, position = probes.owners[keep], position[keep]
        lists = np.zeros((len(sets), int(position.max()) + 1), np.int64)  # List 0 is empty.
        lists[owners, position] = probes.lists[keep]
        distances, rows = self._postings.nearest_many(lists, probes.sketches, _PROPOSALS)
        columns = distances.tolist(), rows.tolist(), np.bincount(owners).tolist(), num_lists.tolist()
        return [self._completed(own, Best(count, floor), *rest) for own, *rest in zip(sets, *columns, strict=True)]

    def _completed(
        self, tokens: set[int], best: Best, distances: list[int], rows: list[int], num_first: int, num_lists: int
    ) -> Best:
        """Compare what the first pass proposed from the first lists, and add the second pass where it is needed."""
        nothing_nearer = self._compare_nearest(tokens, best, distances, rows)
        if nothing_nearer and num_first >= min(num_lists, prefix_length(len(tokens), best.floor)):
            return best
        return self._compare_all(tokens, best)

    def _compare_nearest(self, tokens: set[int], best: Best, distances: list[int], rows: list[int]) -> bool:
        """Compare rows in order of distance; returns whether those that were not proposed can't be better."""
        size, seen, limit = len(tokens), set(), _reach(len(tokens), best.floor)
        for distance, row in zip(distances, rows, strict=True):
            if distance > limit:  # Also where there were fewer proposals: the distance is then the greatest integer.
                return True
            if row in seen:
                continue
            seen.add(row)
            start, stop = self._offsets[row], self._offsets[row + 1]
            both = size + stop - start
            apart = max(distance, abs(both - 2 * size))  # At least so many tokens are in one set alone.
            if best.admits((both - apart) / (both + apart), row):
                shared = len(tokens.intersection(self._tokens[start:stop].tolist()))
                best.offer(shared / (both - shared), row)
                limit = _reach(size, best.floor)
        return False

    def _compare_all(self, tokens: set[int], best: Best) -> Best:
        """Compare all rows that can be as good as the best so far, in order of what they can be at most."""
        floor, size = best.floor, len(tokens)
        order, sketch = probe_one(tokens, self._numbers)
        del order[prefix_length(size, floor) :]
        lists = list(dict.fromkeys(order))
        rows, distances, hits = self._postings.within(lists, sketch, _reach(size, floor))
        sizes = self._rows.offsets[rows + 1] - self._rows.offsets[rows]
        # Two sets share at most the hits, those of one bucket, and what one of them has behind its prefix.
        behind = np.maximum(size - len(order), np.ceil(self._min_similarity * sizes - 1e-9).astype(np.int64) - 1)
        shared = np.minimum(hits + len(order) - len(lists) + behind, np.minimum(size, sizes))
        shared = np.minimum(shared, (size + sizes - distances) // 2)
        bounds = shared / (size + sizes - shared)
        likely = np.flatnonzero(bounds >= floor)
        likely = likely[np.argsort(-bounds[likely], kind="stable")]  # The rows are sorted: equal bounds stay so.
        return self._compare_in_order(tokens, Best(best.count, floor), rows[likely], bounds[likely])

    def _compare_in_order(self, tokens: set[int], best: Best, rows: Integers, bounds: npt.NDArray[np.float64]) -> Best:
        asked = np.sort(np.fromiter(tokens, np.uint64, len(tokens)))
        for start in range(0, len(rows), _COMPARED_AT_ONCE):
            if not best.admits(float(bounds[start]), int(rows[start])):
                break
            some = rows[start : start + _COMPARED_AT_ONCE]
            for similarity, row in zip(self._rows.similarities(asked, some).tolist(), some.tolist(), strict=True):
                best.offer(similarity, row)
        return best


def _reach(size: int, similarity: float) -> int:
    """Return how many tokens may be in one set alone, for a set of `size` to be so similar to another.

    All tokens are shared but for s of them: the similarity is at most size / (size + s).
    """
    return int(size * (1 - similarity) / similarity + 1e-9)
