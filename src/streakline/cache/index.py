"""The index of recorded calls by similarity: FAISS proposes, the exact Jaccard similarity of token sets decides.

Its file is derived data: a checksum, then a header that says what it was made from, then arrays as numpy writes them.
Where it doesn't fit or is damaged, it is made anew from the store.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final
from unicodedata import unidata_version

import numpy as np
import numpy.typing as npt

from streakline.cache.postings import FAISS_VERSION, Postings
from streakline.cache.rows import MAX_COUNTED, MAX_READ, ToolRows, build_rows, pack_rows, unpack_rows
from streakline.cache.search import search
from streakline.errors import CacheError
from streakline.types import JSON

if TYPE_CHECKING:
    from streakline.cache.store import CacheStore

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_VERSION = 3
_CHECKSUM_BYTES = sha256().digest_size
_MEDOID_SAMPLE = 256


class Neighbour(NamedTuple):
    """A recorded call that is similar to the one asked for."""

    entry_id: int
    similarity: float
    """Jaccard similarity of the token sets, in (0, 1]."""


@final
class FuzzyIndex:
    """Finds the entries of a tool whose calls are most similar to one; several threads may share it."""

    def __init__(self, tools: dict[str, ToolRows], postings: dict[str, Postings]) -> None:
        self._tools = tools
        self._postings = postings
        self._medoids: dict[str, int] = {}

    @classmethod
    def build(cls, entries: Iterable[tuple[int, str, dict[str, JSON]]]) -> FuzzyIndex:
        """Index entries, given by id, tool and canonical arguments."""
        tools = build_rows(entries)
        return cls(tools, {name: Postings.build(rows) for name, rows in tools.items() if rows.is_large})

    @classmethod
    def load(cls, path: Path, *, identity: Mapping[str, JSON]) -> FuzzyIndex | None:
        """Read what `save` wrote; None = nothing, or of something else; raises `CacheError` where it is damaged."""
        arrays = read_arrays(path, identity={**_format(), **identity})
        if arrays is None:
            return None
        tools = unpack_rows(arrays)
        large = [name for name, rows in tools.items() if rows.is_large]
        return cls(tools, {name: Postings(arrays[f"buckets of {name}"], arrays[f"lists of {name}"]) for name in large})

    def save(self, path: Path, *, identity: Mapping[str, JSON]) -> None:
        """Write the index, whole or not at all; `identity` says what of. Raises `OSError`."""
        arrays = pack_rows(self._tools)
        for name, postings in self._postings.items():
            arrays |= {f"buckets of {name}": postings.buckets, f"lists of {name}": postings.to_bytes()}
        write_arrays(path, arrays, identity={**_format(), **identity})

    @property
    def num_entries(self) -> int:
        """Entries that can be found."""
        return sum(len(rows.sizes) for rows in self._tools.values())

    @property
    def num_bytes(self) -> int:
        """Memory that the index holds."""
        rows = sum(column.nbytes for rows in self._tools.values() for column in rows)
        return rows + sum(postings.num_bytes for postings in self._postings.values())

    def nearest(self, tool: str, tokens: set[int], *, count: int = 1, min_similarity: float) -> list[Neighbour]:
        """Return up to `count` entries of the tool, the most similar first, of equal ones the lowest id first.

        `tokens` are those of a call, as `call_tokens` gives them; `min_similarity` is the least that an entry has, in
        (0, 1]. Below 0.6 all entries of the tool are compared, which takes long where there are many.
        """
        rows = self._tools.get(tool)
        if rows is None:
            return []
        found = search(rows, self._postings.get(tool), tokens, limit=count, floor=min_similarity)
        return [Neighbour(int(rows.entry_ids[row]), -negative) for negative, row in found]

    def medoid(self, tool: str) -> int | None:
        """Return the entry of the tool that has the greatest mean similarity to its entries; None where it has none.

        Of more than 256 entries an evenly spaced sample of 256 is compared with itself.
        """
        rows = self._tools.get(tool)
        if rows is not None and tool not in self._medoids:
            self._medoids[tool] = int(rows.entry_ids[_medoid(rows)])
        return self._medoids.get(tool)


def _medoid(rows: ToolRows) -> int:
    num_rows = len(rows.sizes)
    size = min(_MEDOID_SAMPLE, num_rows)
    sample = np.arange(size) * num_rows // size
    numbers, tokens = rows.pairs(sample)
    distinct, places = np.unique(tokens, return_inverse=True)
    has_token = np.zeros((size, len(distinct)), np.float32)
    has_token[numbers, places] = 1
    shared = (has_token @ has_token.T).astype(np.float64)
    sizes = rows.sizes[sample]
    means = (shared / (sizes[:, None] + sizes - shared)).mean(axis=0)
    return int(sample[np.argmax(means.round(9))])  # Equal means may differ by the order in which they were summed up.


def open_index(store: CacheStore) -> FuzzyIndex:
    """Read the index of a store from the file beside it, or make both anew: with a warning where the file is damaged.

    Raises:
        CacheError: the store is damaged.
    """
    path = _path(store)
    try:
        index = FuzzyIndex.load(path, identity=store.identity())
    except CacheError as error:
        warnings.warn(f"Making the index {path} anew: {error}", stacklevel=2)
        index = None
    return index or make_index(store)


def make_index(store: CacheStore) -> FuzzyIndex:
    """Index all entries of a store, and write the index beside it; warns where that can't be written."""
    index = FuzzyIndex.build((entry.id, entry.tool, entry.arguments) for entry in store.iterate())
    path = _path(store)
    try:
        index.save(path, identity=store.identity())
    except OSError as error:
        warnings.warn(f"Could not write the index {path}, work goes on without: {error.strerror}", stacklevel=2)
    return index


def _path(store: CacheStore) -> Path:
    return store.path.with_name(f"{store.path.name}.index")


def _format() -> dict[str, JSON]:
    # Words and lower case follow the Unicode tables of the Python that wrote the tokens.
    return {
        "version": _VERSION,
        "FAISS version": FAISS_VERSION,
        "Unicode version": unidata_version,
        "layout": [MAX_READ, MAX_COUNTED],
    }


def write_arrays(path: Path, arrays: Arrays, *, identity: Mapping[str, JSON]) -> None:
    """Write arrays, whole or not at all; `identity` is what a reader must expect. Raises `OSError`."""
    header = json.dumps({"identity": dict(identity), "arrays": list(arrays)}).encode("ascii")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w+b") as file:
            file.write(bytes(_CHECKSUM_BYTES))
            for array in (np.frombuffer(header, np.uint8), *arrays.values()):
                np.save(file, array, allow_pickle=False)
            file.seek(_CHECKSUM_BYTES)
            checksum = file_digest(file, "sha256").digest()
            file.seek(0)
            file.write(checksum)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def read_arrays(path: Path, *, identity: Mapping[str, JSON]) -> Arrays | None:
    """Read what `write_arrays` wrote; None = there is no such file, or it was made from something else.

    Raises:
        CacheError: it is damaged, or can't be read.
    """
    try:
        with path.open("rb") as file:
            checksum = file.read(_CHECKSUM_BYTES)
            if file_digest(file, "sha256").digest() != checksum:
                raise CacheError("it is damaged")
            file.seek(_CHECKSUM_BYTES)
            header = json.loads(np.load(file).tobytes())
            if any(header["identity"].get(name) != value for name, value in identity.items()):
                return None
            return {name: np.load(file) for name in header["arrays"]}
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheError(f"it can't be read: {error.strerror}") from error
