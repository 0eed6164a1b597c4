"""Finds the rows of one tool that are most similar to a token set, exactly.

Of most tools the tokens that each row shares are counted, all at once. Of a large one FAISS proposes: first the rows of
the rarest tokens' lists. The best of these says in how many more lists a better row can be, and how near its sketch is.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from streakline.cache.postings import MIN_SIMILARITY, Postings, prefix_length, prefixes
from streakline.cache.rows import ToolRows
from streakline.cache.tokens import Integers, Tokens

Found: TypeAlias = tuple[float, int]
"""Negative similarity and number of a row, so that the best is the least: of equally similar ones the one of the lowest
id."""

_SCANNED = 4096
"""Sketches that the first lists hold, unless the rarest list alone has more; then 16 times as many."""
_FIRST_COMPARED = 16
"""Proposals that are compared before it is looked whether a further one can be better; then four times as many."""


def search(rows: ToolRows, postings: Postings | None, tokens: set[int], *, limit: int, floor: float) -> list[Found]:
    """Return up to `limit` rows of a tool whose similarity is `floor` or more, the best first.

    A large tool has `postings`. Where `floor` is below what they propose, all its rows are compared.
    """
    asked = np.fromiter(tokens, np.uint64, len(tokens))
    numbers = rows.vocabulary[:-1].searchsorted(asked)  # What is above all others is compared with the last.
    query = _Query(rows, asked, numbers[rows.vocabulary[numbers] == asked], limit, floor)
    if postings is None:
        items, _ = rows.parts(query.known)
        return query.best(np.bincount(items, minlength=len(rows.sizes)))
    if floor < MIN_SIMILARITY:
        return query.best(query.shared(np.arange(len(rows.sizes))))
    return _search_proposed(query, postings)


class _Query(NamedTuple):
    """What is searched for."""

    rows: ToolRows
    tokens: Tokens
    known: Integers
    """Numbers of those tokens that a row has."""
    limit: int
    floor: float

    def bar(self, best: list[Found]) -> tuple[float, float]:
        """Return what a row must be below to be found, given the best so far."""
        return best[-1] if len(best) == self.limit else (-self.floor, math.inf)

    def best(self, shared: Integers, numbers: Integers | None = None) -> list[Found]:
        """Return the best of rows that share so many tokens; without `numbers`, of all rows."""
        sizes = self.rows.sizes if numbers is None else self.rows.sizes[numbers]
        similarities = shared / (len(self.tokens) + sizes - shared)
        places = np.flatnonzero(similarities >= self.floor)
        found = places if numbers is None else numbers[places]
        return sorted(zip((-similarities[places]).tolist(), found.tolist(), strict=True))[: self.limit]

    def shared(self, numbers: Integers) -> Integers:
        """Count the tokens that some rows of a large tool share."""
        items, sizes = self.rows.parts(numbers)
        is_known = np.zeros(len(self.rows.vocabulary), bool)
        is_known[self.known] = True
        shared: Integers = np.add.reduceat(is_known[items], np.cumsum(sizes) - sizes, dtype=np.int64)
        return shared


def _search_proposed(query: _Query, postings: Postings) -> list[Found]:
    size = len(query.tokens)
    lists, _, sketches = prefixes(query.tokens, np.array([size]), postings.buckets, query.floor)
    scanned = np.cumsum(postings.list_sizes[lists])
    best: list[Found] = []
    start, scan = 0, _SCANNED
    # A row that is better than all found so far has a token in a shorter prefix, and a nearer sketch.
    while start < (end := prefix_length(size, similarity := -query.bar(best)[0])):
        end = min(end, max(start + 1, int(scanned.searchsorted(scan))))
        best = _compare(query, *postings.within(lists[start:end], sketches[0], _reach(size, similarity)), best)
        start, scan = end, 16 * scan
    return best


def _compare(query: _Query, numbers: Integers, distances: Integers, best: list[Found]) -> list[Found]:
    """Return the best of those that are and of other rows, which are compared in order of what they can be at most."""
    sizes = query.rows.sizes[numbers]
    both = len(query.tokens) + sizes
    apart = np.maximum(distances, np.abs(sizes - len(query.tokens)))  # At least so many tokens are in one set alone.
    bounds = (both - apart) / (both + apart)
    order = np.argsort(-bounds, kind="stable")
    numbers, bounds = numbers[order], bounds[order]
    start, length = 0, _FIRST_COMPARED
    while start < len(numbers) and (-float(bounds[start]), int(numbers[start])) < query.bar(best):
        some = numbers[start : start + length]
        best = sorted({*best, *query.best(query.shared(some), some)})[: query.limit]
        start, length = start + length, 4 * length
    return best


def _reach(size: int, similarity: float) -> int:
    """Return how many tokens may be in one set alone, for a set of `size` to be so similar to another.

    All tokens are shared but for s of them: the similarity is at most size / (size + s).
    """
    return int(size * (1 - similarity) / similarity + 1e-9)
