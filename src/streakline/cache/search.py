"""Finds the rows of one tool that are most similar to a token set, exactly.

Of most tools the tokens that each row shares are counted, for all rows at once. Of a large one FAISS proposes: first
the rows of the rarest tokens' lists. The best of these says in how many more lists a better row can be, and how near
its sketch is.
"""

from __future__ import annotations

import math
from bisect import insort
from typing import TypeAlias, final

import numpy as np

from streakline.cache.postings import MIN_SIMILARITY, Postings, prefix_length, probe
from streakline.cache.rows import ToolRows
from streakline.cache.tokens import Integers, Tokens

Found: TypeAlias = tuple[float, int]
"""Negative similarity and number of a row, so that the best is the least: of equally similar ones the one of the lowest
id."""

_SCANNED = 4096
"""Sketches that the first lists hold, unless the rarest list alone has more; then 16 times as many."""


def search(rows: ToolRows, postings: Postings | None, tokens: set[int], *, limit: int, floor: float) -> list[Found]:
    """Return up to `limit` rows of a tool whose similarity is `floor` or more, the best first.

    A large tool has `postings`. Where `floor` is below what they propose, all its rows are compared.
    """
    asked = np.fromiter(tokens, np.uint64, len(tokens))
    numbers = rows.vocabulary[:-1].searchsorted(asked)  # What is above all others is compared with the last.
    known = numbers[rows.vocabulary[numbers] == asked]
    if postings is not None and floor >= MIN_SIMILARITY:
        return _search_proposed(rows, postings, asked, set(known.tolist()), limit=limit, floor=floor)
    if rows.is_by_token:
        shared = np.bincount(rows.parts(known)[0], minlength=len(rows.sizes))
    else:
        is_known = np.zeros(len(rows.vocabulary), np.float32)
        is_known[known] = 1
        shared = np.add.reduceat(is_known.take(rows.items), rows.starts[:-1].astype(np.int64))
    similarities = shared / (len(asked) + rows.sizes - shared)
    if limit == 1:
        first = int(similarities.argmax())
        return [(-float(similarities[first]), first)] if similarities[first] >= floor else []
    found = (similarities >= floor).nonzero()[0]
    return sorted(zip((-similarities[found]).tolist(), found.tolist(), strict=True))[:limit]


def _search_proposed(
    rows: ToolRows, postings: Postings, asked: Tokens, known: set[int], *, limit: int, floor: float
) -> list[Found]:
    size = len(asked)
    lists, sketch = probe(asked, postings.buckets)
    scanned = np.cumsum(postings.list_sizes[lists])
    best = Best(limit, floor)
    start, scan = 0, _SCANNED
    # A row that is better than all found so far has a token in a shorter prefix, and a nearer sketch.
    while start < (end := prefix_length(size, best.floor)):
        end = min(end, max(start + 1, int(scanned.searchsorted(scan))))
        # So many tokens may be in one set alone: of s that aren't shared, similarity is at most size / (size + s).
        reach = int(size * (1 - best.floor) / best.floor + 1e-9)
        numbers, distances = postings.within(lists[start:end], sketch, reach)
        _compare(rows, size, known, numbers, distances, best)
        start, scan = end, 16 * scan
    return best.found


@final
class Best:
    """The best rows so far."""

    def __init__(self, limit: int, floor: float) -> None:
        self.found: list[Found] = []
        """Sorted."""
        self._limit = limit
        self._bar: tuple[float, float] = (-floor, math.inf)

    @property
    def floor(self) -> float:
        """Least similarity at which a further row may count."""
        return -self._bar[0]

    def admits(self, similarity: float, number: int) -> bool:
        """Whether a row of this similarity would be among the best."""
        return (-similarity, number) < self._bar

    def offer(self, similarity: float, number: int) -> None:
        """Take a row in if it is among the best, and not there."""
        if self.admits(similarity, number) and (-similarity, number) not in self.found:
            insort(self.found, (-similarity, number))
            if len(self.found) >= self._limit:
                del self.found[self._limit :]
                self._bar = self.found[-1]


def _compare(rows: ToolRows, size: int, known: set[int], numbers: Integers, distances: Integers, best: Best) -> None:
    """Offer the rows that can be among the best, in order of what their similarity can be at most."""
    both = size + rows.sizes[numbers]
    apart = np.maximum(distances, np.abs(both - 2 * size))  # At least so many tokens are in one set alone.
    bounds = (both - apart) / (both + apart)
    order = np.argsort(-bounds, kind="stable")
    for number, bound, union in zip(*(column[order].tolist() for column in (numbers, bounds, both)), strict=True):
        if not best.admits(bound, number):
            return
        start, stop = rows.starts[number : number + 2].tolist()
        shared = len(known.intersection(rows.items[start:stop].tolist()))
        best.offer(shared / (union - shared), number)
