"""Which inverted lists a token set enters and probes, so that no similar set is missed; and its sketch.

Tokens are hashed to buckets, and these numbered by how often their tokens occur, the rarest first. In this order the
prefix of a set of n tokens is its first n - ceil(t n) + 1. Two sets of Jaccard similarity t or more share a token of
their prefixes (Chaudhuri et al. 2006, "A Primitive Operator for Similarity Joins in Data Cleaning"; Bayardo et al.
2007, "Scaling Up All Pairs Similarity Search"). Tokens of one bucket are equal in the order, which changes nothing.

The sketch (Mitzenmacher et al. 2014, "Efficient Estimation for High Similarities using Odd Sketches") has 128 bits,
each set where an odd number of the tokens fall on it. The Hamming distance of two sketches is never greater than the
number of tokens that are in one set alone.
"""

from __future__ import annotations

import math
from collections.abc import Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streakline.cache.tokens import Integers, Tokens

SKETCH_BYTES = 16
_CELL_SHIFT = 57  # The upper 7 bits of a token choose its cell, the lower bits its bucket.
_CELLS = np.packbits(np.eye(8 * SKETCH_BYTES, dtype=np.uint8), axis=1, bitorder="little").view(np.uint64)
_BITS = [1 << cell for cell in range(8 * SKETCH_BYTES)]


class Probes(NamedTuple):
    """Where token sets stand."""

    lists: Integers
    """Numbers of the lists of all sets, one set after another, each list once a set."""
    owners: Integers
    """Which set each list belongs to."""
    sketches: npt.NDArray[np.uint8]
    """[sets, SKETCH_BYTES]."""


def prefix_length(size: int, min_similarity: float) -> int:
    """Return how many tokens of a set of `size` a similar set must share one of."""
    return size - math.ceil(min_similarity * size - 1e-9) + 1


def list_numbers(tokens: Tokens, *, num_buckets: int) -> npt.NDArray[np.uint32]:
    """Number the lists of the buckets (a power of two), rarest first; list 0 is for the buckets without a token."""
    frequency = np.zeros(num_buckets, np.int64)
    for start in range(0, len(tokens), 2**20):
        buckets = (tokens[start : start + 2**20] & np.uint64(num_buckets - 1)).astype(np.int64)
        frequency += np.bincount(buckets, minlength=num_buckets)
    numbers = np.empty(num_buckets, np.int64)
    numbers[np.argsort(frequency, kind="stable")] = np.arange(num_buckets)
    numbers -= np.count_nonzero(frequency == 0) - 1
    return np.maximum(numbers, 0).astype(np.uint32)


def probe_one(tokens: Set[int], numbers: memoryview) -> tuple[list[int], bytes]:
    """Return the list of each token, rarest first, and the sketch of the set."""
    mask = len(numbers) - 1
    order, sketch = [], 0
    for token in tokens:
        order.append(numbers[token & mask])
        sketch ^= _BITS[token >> _CELL_SHIFT]
    order.sort()
    return order, sketch.to_bytes(SKETCH_BYTES, "little")


def probe_many(tokens: Tokens, sizes: Integers, numbers: npt.NDArray[np.uint32], min_similarity: float) -> Probes:
    """Return the lists of the prefixes of sets, and the sketches.

    `tokens` are those of one set after another, `sizes` >= 1 how many each has.
    """
    starts = np.cumsum(sizes) - sizes
    owners = np.repeat(np.arange(len(sizes)), sizes)
    order = numbers[tokens & np.uint64(len(numbers) - 1)].astype(np.int64)
    order = np.sort(owners << 32 | order)  # Sorts within each set, as the owners are in order.
    lengths = sizes - np.ceil(min_similarity * sizes - 1e-9).astype(np.int64) + 1
    keep = np.arange(len(tokens)) < np.repeat(starts + lengths, sizes)
    keep[1:] &= order[1:] != order[:-1]
    order = order[keep]
    sketches = np.bitwise_xor.reduceat(_CELLS[tokens >> np.uint64(_CELL_SHIFT)], starts)
    return Probes(order & (2**32 - 1), order >> 32, sketches.view(np.uint8))
