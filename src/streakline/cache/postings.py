"""The inverted lists of sketches, held and searched by FAISS."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast, final

import faiss
import numpy as np
import numpy.typing as npt

from streakline.cache.prefix import SKETCH_BYTES, list_numbers, probe_many
from streakline.cache.tokens import Integers, Tokens

FAISS_VERSION = str(faiss.__version__)

_BITS = 8 * SKETCH_BYTES
_LIST_BYTES = 192
"""Of a list in FAISS: two vectors that may own their data or not (80 bytes), and their two headers in the heap."""
_CHUNK_ROWS = 2**15
_RANGE_BUFFER = 1024
"""Proposals for which FAISS takes memory at a time: by default 3 MB for each search."""


@final
class Postings:
    """Proposes rows whose token sets may be similar, by the Hamming distance of their sketches.

    A row is proposed once for each list in which it is found. All searches are of a set's `lists`, each named once, and
    `sketch`.
    """

    def __init__(self, numbers: npt.NDArray[np.uint32], data: npt.NDArray[np.uint8]) -> None:
        self.numbers = numbers
        """[buckets] list of each bucket."""
        self._ivf = cast("Any", faiss.deserialize_index_binary(data))  # FAISS types little of it.
        self._lock = threading.Lock()  # How many lists are probed is an attribute of the index; buffers are shared.
        num_lists = self._ivf.nlist
        self.list_sizes = np.fromiter(map(self._ivf.get_list_size, range(num_lists)), np.int64, num_lists)
        """[lists] rows in each."""
        self._reserve(64, 64)

    @classmethod
    def build(cls, tokens: Tokens, sizes: Integers, *, min_similarity: float) -> Postings:
        """Enter row after row of `tokens`, `sizes` >= 1 being their lengths, into the lists of their prefixes."""
        # Half a list a row: the headers of FAISS's lists weigh more than the odd foreign sketch in a list costs.
        numbers = list_numbers(tokens, num_buckets=max(1024, 1 << (len(sizes) // 2).bit_length()))
        quantizer, num_lists = faiss.IndexBinaryFlat(_BITS), int(numbers.max()) + 1
        ivf = cast("Any", faiss.IndexBinaryIVF(quantizer, _BITS, num_lists))
        ivf.is_trained = True  # The lists are known: there is nothing to cluster.
        starts = np.concatenate([[0], np.cumsum(sizes)])
        for first in range(0, len(sizes), _CHUNK_ROWS):
            last = min(first + _CHUNK_ROWS, len(sizes))
            probes = probe_many(tokens[starts[first] : starts[last]], sizes[first:last], numbers, min_similarity)
            arrays = np.ascontiguousarray(probes.sketches[probes.owners]), probes.owners + first, probes.lists
            ivf.add_core(len(probes.lists), *(faiss.swig_ptr(array) for array in arrays))
        # Lists that grew row by row have room to spare; those that are read have none.
        return cls(numbers, faiss.serialize_index_binary(ivf))

    def to_bytes(self) -> npt.NDArray[np.uint8]:
        """Write the lists in FAISS's own format."""
        data: npt.NDArray[np.uint8] = faiss.serialize_index_binary(self._ivf)
        return data

    @property
    def num_bytes(self) -> int:
        """Memory of the lists and of what is kept of them."""
        lists = int(self._ivf.ntotal) * (SKETCH_BYTES + 8) + int(self._ivf.nlist) * _LIST_BYTES
        return lists + self.list_sizes.nbytes + self.numbers.nbytes

    def nearest(self, lists: Sequence[int], sketch: bytes, count: int) -> tuple[list[int], list[int]]:
        """Return the distances and rows of `count` proposals, nearest first; row -1 where there are fewer."""
        with self._lock:
            if len(lists) > len(self._lists) or count > len(self._rows):
                self._reserve(2 * len(lists), count)
            self._lists[: len(lists)] = lists
            self._sketch[:] = np.frombuffer(sketch, np.uint8)
            self._ivf.nprobe = len(lists)
            sketch_, lists_, zeros_, distances_, rows_ = self._pointers
            self._ivf.search_preassigned_c(1, sketch_, count, lists_, zeros_, distances_, rows_, False)
            return self._distances[:count].tolist(), self._rows[:count].tolist()

    def nearest_many(
        self, lists: Integers, sketches: npt.NDArray[np.uint8], count: int
    ) -> tuple[npt.NDArray[np.int32], Integers]:
        """Return what `nearest` does for many sets at once; `lists` [sets, n] may be filled up with list 0."""
        with self._lock, _one_thread():
            self._ivf.nprobe = lists.shape[1]
            distances, rows = self._ivf.search_preassigned(sketches, count, lists, np.zeros(lists.shape, np.int32))
        return distances, rows

    def within(self, lists: Sequence[int], sketch: bytes, radius: int) -> tuple[Integers, Integers, Integers]:
        """Return all rows up to a distance, sorted, their distances, and in how many of the lists each is."""
        arrays = np.frombuffer(sketch, np.uint8), np.array(lists), np.zeros(len(lists), np.int32)
        sketch_, lists_, zeros_ = (faiss.swig_ptr(array) for array in arrays)
        found = faiss.RangeSearchResult(1)
        found.buffer_size = _RANGE_BUFFER
        with self._lock, _one_thread():
            self._ivf.nprobe = len(lists)
            self._ivf.range_search_preassigned_c(1, sketch_, radius + 1, lists_, zeros_, found)
        count = int(faiss.rev_swig_ptr(found.lims, 2)[1])
        rows, distances = faiss.rev_swig_ptr(found.labels, count), faiss.rev_swig_ptr(found.distances, count)
        proposals = np.sort(rows << 8 | distances.astype(np.int64))  # A distance has 8 bits.
        rows = proposals >> 8
        is_first = np.ones(len(rows) + 1, bool)
        np.not_equal(rows[1:], rows[:-1], out=is_first[1:-1])
        starts = np.flatnonzero(is_first)
        return rows[starts[:-1]], proposals[starts[:-1]] & 255, starts[1:] - starts[:-1]

    def _reserve(self, num_lists: int, count: int) -> None:
        """Make the buffers of `nearest`, and take their addresses, which would cost each search some us."""
        self._sketch = np.zeros(SKETCH_BYTES, np.uint8)
        self._lists, self._zeros = np.zeros(num_lists, np.int64), np.zeros(num_lists, np.int32)
        self._distances, self._rows = np.zeros(count, np.int32), np.zeros(count, np.int64)
        arrays = self._sketch, self._lists, self._zeros, self._distances, self._rows
        self._pointers = [faiss.swig_ptr(array) for array in arrays]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep FAISS from sharing out some us of work: to wait for a thread takes longer, on a busy machine far longer."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # Of this thread alone.
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
