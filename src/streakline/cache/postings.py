"""Proposes rows whose token sets may be similar to one: FAISS scans inverted lists of their sketches.

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
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast, final

import faiss
import numpy as np
import numpy.typing as npt

from streakline.cache.rows import ToolRows
from streakline.cache.tokens import Integers, Tokens

FAISS_VERSION = str(faiss.__version__)
SKETCH_BYTES = 32
MIN_SIMILARITY = 0.6
"""Least similarity of the rows that are proposed: the lower, the more lists a row is in."""

_CELL_SHIFT = 56  # The upper 8 bits of a token choose its cell, the lower bits its bucket.
_CELLS = np.packbits(np.eye(8 * SKETCH_BYTES, dtype=np.uint8), axis=1, bitorder="little").view(np.uint64)
_LIST_BYTES = 192
"""Of a list in FAISS: two vectors that may own their data or not (80 bytes), and their two headers in the heap."""
_CHUNK_ROWS = 2**15
_RANGE_BUFFER = 1024
"""Proposals for which FAISS takes memory at a time: by default 3 MB for each search."""


@final
class Postings:
    """The inverted lists of a large tool."""

    def __init__(self, buckets: npt.NDArray[np.uint32], data: npt.NDArray[np.uint8]) -> None:
        self.buckets = buckets
        """[buckets] list of each bucket."""
        self._ivf = cast("Any", faiss.deserialize_index_binary(data))  # FAISS types little of it.
        self._lock = threading.Lock()  # How many lists are probed is an attribute of the index.
        num_lists = self._ivf.nlist
        self.list_sizes = np.fromiter(map(self._ivf.get_list_size, range(num_lists)), np.int64, num_lists)
        """[lists] rows in each."""

    @classmethod
    def build(cls, rows: ToolRows) -> Postings:
        """Enter the rows of a large tool into the lists of their prefixes."""
        # Half a list a row: the headers of FAISS's lists weigh more than the odd foreign sketch in a list costs.
        num_buckets = max(1024, 1 << (len(rows.sizes) // 2).bit_length())
        buckets = list_numbers(rows.vocabulary, np.bincount(rows.items), num_buckets=num_buckets)
        quantizer, num_lists = faiss.IndexBinaryFlat(8 * SKETCH_BYTES), int(buckets.max()) + 1
        ivf = cast("Any", faiss.IndexBinaryIVF(quantizer, 8 * SKETCH_BYTES, num_lists))
        ivf.is_trained = True  # The lists are known: there is nothing to cluster.
        for first in range(0, len(rows.sizes), _CHUNK_ROWS):
            numbers = np.arange(first, min(first + _CHUNK_ROWS, len(rows.sizes)))
            items, sizes = rows.parts(numbers)
            lists, owners, sketches = prefixes(rows.vocabulary[items], sizes, buckets, MIN_SIMILARITY)
            arrays = np.ascontiguousarray(sketches[owners]), numbers[owners], lists
            ivf.add_core(len(lists), *(faiss.swig_ptr(array) for array in arrays))
        # Lists that grew row by row have room to spare; those that are read have none.
        return cls(buckets, faiss.serialize_index_binary(ivf))

    def to_bytes(self) -> npt.NDArray[np.uint8]:
        """Write the lists in FAISS's own format."""
        data: npt.NDArray[np.uint8] = faiss.serialize_index_binary(self._ivf)
        return data

    @property
    def num_bytes(self) -> int:
        """Memory of the lists and of what is kept of them."""
        lists = int(self._ivf.ntotal) * (SKETCH_BYTES + 8) + int(self._ivf.nlist) * _LIST_BYTES
        return lists + self.list_sizes.nbytes + self.buckets.nbytes

    def within(self, lists: Integers, sketch: npt.NDArray[np.uint8], radius: int) -> tuple[Integers, Integers]:
        """Return the rows of some lists up to a distance from a sketch, ascending, and their distances."""
        lists = np.unique(lists)
        arrays = sketch, lists, np.zeros(len(lists), np.int32)
        found = faiss.RangeSearchResult(1)
        found.buffer_size = _RANGE_BUFFER
        with self._lock, _one_thread():
            self._ivf.nprobe = len(lists)
            pointers = [faiss.swig_ptr(array) for array in arrays]
            self._ivf.range_search_preassigned_c(1, pointers[0], radius + 1, *pointers[1:], found)
        count = int(faiss.rev_swig_ptr(found.lims, 2)[1])
        rows, first = np.unique(faiss.rev_swig_ptr(found.labels, count), return_index=True)
        return rows, faiss.rev_swig_ptr(found.distances, count)[first]


def prefix_length(size: int, min_similarity: float) -> int:
    """Return how many tokens of a set of `size` a similar set must share one of."""
    return size - math.ceil(min_similarity * size - 1e-9) + 1


def list_numbers(tokens: Tokens, counts: Integers, *, num_buckets: int) -> npt.NDArray[np.uint32]:
    """Number the lists of the buckets (a power of two), rarest first; list 0 is for the buckets without a token.

    `counts` says how often each of the distinct tokens occurs.
    """
    frequency = np.zeros(num_buckets, np.int64)
    np.add.at(frequency, tokens & np.uint64(num_buckets - 1), counts)
    numbers = np.empty(num_buckets, np.int64)
    numbers[np.argsort(frequency, kind="stable")] = np.arange(num_buckets)
    numbers -= np.count_nonzero(frequency == 0) - 1
    return np.maximum(numbers, 0).astype(np.uint32)


def probe(tokens: Tokens, buckets: npt.NDArray[np.uint32]) -> tuple[Integers, npt.NDArray[np.uint8]]:
    """Return the list of each token of a set, rarest first, and the sketch."""
    lists = np.sort(buckets[tokens & np.uint64(len(buckets) - 1)]).astype(np.int64)
    return lists, np.bitwise_xor.reduce(_CELLS[tokens >> np.uint64(_CELL_SHIFT)]).view(np.uint8)


def prefixes(
    tokens: Tokens, sizes: Integers, buckets: npt.NDArray[np.uint32], min_similarity: float
) -> tuple[Integers, Integers, npt.NDArray[np.uint8]]:
    """Return the lists of the prefixes of sets, which set each is of, and the sketches [sets, SKETCH_BYTES].

    `tokens` are those of one set after another, `sizes` >= 1 how many each has. The lists of a set are given rarest
    first, one for each token: of two tokens in one bucket twice.
    """
    starts = np.cumsum(sizes) - sizes
    owners = np.repeat(np.arange(len(sizes)), sizes)
    order = buckets[tokens & np.uint64(len(buckets) - 1)].astype(np.int64)
    order = np.sort(owners << 32 | order)  # Sorts within each set, as the owners are in order.
    lengths = sizes - np.ceil(min_similarity * sizes - 1e-9).astype(np.int64) + 1
    order = order[np.arange(len(tokens)) < np.repeat(starts + lengths, sizes)]
    sketches = np.bitwise_xor.reduceat(_CELLS[tokens >> np.uint64(_CELL_SHIFT)], starts)
    return order & (2**32 - 1), order >> 32, sketches.view(np.uint8)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep FAISS from sharing out some us of work: to wait for a thread takes longer, on a busy machine far longer."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # Of this thread alone.
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
