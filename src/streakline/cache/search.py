"""Finds the rows that are most similar to a token set, exactly, with as few comparisons as that allows.

A pass asks FAISS for the rows of the rarest lists that are nearest in Hamming distance, and compares them. The distance
of the farthest bounds how similar a row of these lists can be that was not proposed, and their number how similar one
is that is in none of them. Where the best row is better than both, it is the answer. Otherwise a second pass looks at
more, and last all rows are compared that the bounds allow.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from itertools import accumulate
from typing import final

import numpy as np
import numpy.typing as npt

from streakline.cache.postings import Postings
from streakline.cache.prefix import Probes, prefix_length, probe_many, probe_one
from streakline.cache.rows import Rows
from streakline.cache.tokens import Integers, Tokens

_PASSES = ((32, 512), (64, 4096))
"""Proposals of each pass, and the sketches that it scans unless the rarest list alone has more; 1,000 take some us.
A row with one changed value is proposed about ten times: once for each list that it shares."""
_FIRST_COMPARED = 16
"""Rows that the last pass compares before it looks whether a further one can be better; then four times as many."""


@final
class Best:
    """The best rows so far: by similarity, then by number, which within a tool is the order of the lowest ids."""

    def __init__(self, count: int, floor: float) -> None:
        self.found: list[tuple[float, int]] = []
        """Negative similarity and number of each, sorted."""
        self.seen: set[int] = set()
        """Rows that were compared."""
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

    def search(self, tokens: set[int], best: Best, *, first_pass: int = 0) -> list[tuple[float, int]]:
        """Return the best rows as `Best.found` does; an empty `best` says how many and of what similarity."""
        order, sketch = probe_one(tokens, self._numbers)
        lists = list(dict.fromkeys(order[: prefix_length(len(order), best.floor)]))
        scanned = list(accumulate([self._list_sizes[number] for number in lists]))
        for proposals, most in _PASSES[first_pass:]:
            del lists[prefix_length(len(tokens), best.floor) :]
            probed = lists[: max(1, bisect_right(scanned, most))]
            nothing_nearer = self._compare_nearest(tokens, best, *self._postings.nearest(probed, sketch, proposals))
            if nothing_nearer and len(probed) >= min(len(lists), prefix_length(len(tokens), best.floor)):
                return best.found
        return self._compare_all(tokens, best).found

    def search_many(self, tokens: Tokens, sizes: Integers, *, floor: float) -> list[list[tuple[float, int]]]:
        """Return what `search` does for the best row of each of at least one set, given as by `call_tokens_many`."""
        probes = probe_many(tokens, sizes, self._postings.numbers, floor)
        lists, num_probed, num_lists = self._first_lists(probes)
        proposals, _ = _PASSES[0]
        distances, rows = self._postings.nearest_many(lists, probes.sketches, proposals)
        similarities = self._rows.pair_similarities(tokens, sizes, np.maximum(rows[:, 0], 0))
        similarities[rows[:, 0] < 0] = 0
        # The row that is next in distance comes after those postings that are of the same row as the first.
        is_other = rows != rows[:, :1]
        following = distances[np.arange(len(sizes)), np.where(is_other.any(1), is_other.argmax(1), -1)]
        reached = np.maximum(similarities, floor)
        wanted = sizes - np.ceil(reached * sizes - 1e-9).astype(np.int64) + 1
        done = (num_probed >= np.minimum(wanted, num_lists)) & (sizes / (sizes + following) < reached)
        found: list[list[tuple[float, int]]] = []
        end = 0
        columns = sizes.tolist(), rows[:, 0].tolist(), similarities.tolist(), done.tolist()
        for size, row, similarity, is_done in zip(*columns, strict=True):
            end += size
            if is_done:
                found.append([(-similarity, row)] if similarity >= floor else [])
            else:
                own = set(tokens[end - size : end].tolist())
                found.append(self.search(own, Best(1, floor), first_pass=1))
        return found

    def _first_lists(self, probes: Probes) -> tuple[Integers, Integers, Integers]:
        """Arrange the lists of the first pass [sets, n]; returns also how many each set has there, and in all."""
        _, most = _PASSES[0]
        num_lists = np.bincount(probes.owners)
        starts = np.cumsum(num_lists) - num_lists
        position = np.arange(len(probes.lists)) - starts[probes.owners]
        scanned = np.cumsum(self._postings.list_sizes[probes.lists])
        before = np.concatenate([[0], scanned])[starts]
        keep = (scanned - before[probes.owners] <= most) | (position == 0)
        owners, position = probes.owners[keep], position[keep]
        lists = np.zeros((len(num_lists), int(position.max()) + 1), np.int64)  # List 0 is empty.
        lists[owners, position] = probes.lists[keep]
        return lists, np.bincount(owners), num_lists

    def _compare_nearest(self, tokens: set[int], best: Best, distances: list[int], rows: list[int]) -> bool:
        """Compare rows in order of distance; returns whether those that were not proposed can't be better."""
        size, limit = len(tokens), _reach(len(tokens), best.floor)
        for distance, row in zip(distances, rows, strict=True):
            if distance > limit:  # Also where there were fewer proposals: the distance is then the greatest integer.
                return True
            if row in best.seen:
                continue
            best.seen.add(row)
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
        start, size = 0, _FIRST_COMPARED
        while start < len(rows) and best.admits(float(bounds[start]), int(rows[start])):
            some = rows[start : start + size]
            for similarity, row in zip(self._rows.similarities(asked, some).tolist(), some.tolist(), strict=True):
                best.offer(similarity, row)
            start, size = start + size, 4 * size
        return best


def _reach(size: int, similarity: float) -> int:
    """Return how many tokens may be in one set alone, for a set of `size` to be so similar to another.

    All tokens are shared but for s of them: the similarity is at most size / (size + s).
    """
    return int(size * (1 - similarity) / similarity + 1e-9)
