"""Other ways to find the nearest recorded call, for `cache.py`: each is given the entries of the tool alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol, TypeAlias, final

import numpy as np
import numpy.typing as npt
from cache_data import Call
from datasketch import MinHash, MinHashLSH
from rapidfuzz import fuzz, process, utils

from streakline.cache.canonical import canonical_text
from streakline.cache.tokens import call_tokens, call_tokens_many, jaccard

THRESHOLD = 0.6
NUM_PERMUTATIONS = 128

Tokens: TypeAlias = npt.NDArray[np.uint64]


class Entries(NamedTuple):
    """The calls of a tool, and the token set of each."""

    calls: Sequence[Call]
    tokens: Sequence[Tokens]


def entries_of(by_tool: Mapping[str, Sequence[Call]], *, chunk: int = 4096) -> dict[str, Entries]:
    """Make the token sets of all calls."""
    return {
        tool: Entries(
            calls,
            [tokens for start in range(0, len(calls), chunk) for tokens in _token_sets(calls[start : start + chunk])],
        )
        for tool, calls in by_tool.items()
    }


def _token_sets(calls: Sequence[Call]) -> Iterable[Tokens]:
    tokens, owners = call_tokens_many([(call.tool, call.arguments) for call in calls])
    order = np.argsort(owners, kind="stable")
    parts = np.split(tokens[order], np.cumsum(np.bincount(owners, minlength=len(calls)))[:-1])
    return (np.unique(part) for part in parts)


class Rival(Protocol):
    """Gives the place of the nearest call among the tool's; None = there is none, or none reaches the threshold."""

    def nearest(self, call: Call) -> int | None:
        """Find it."""


@final
class Sets:
    """Exact Jaccard similarity with each entry in turn, by sets of Python."""

    def __init__(self, entries: Mapping[str, Entries]) -> None:
        self._sets = {tool: [frozenset(one.tolist()) for one in some.tokens] for tool, some in entries.items()}

    def nearest(self, call: Call) -> int | None:
        """Compare with all; of equally similar ones the first."""
        asked = call_tokens(call.tool, call.arguments)
        best, best_place, size = 0.0, None, len(asked)
        for place, other in enumerate(self._sets[call.tool]):
            shared = len(asked & other)
            similarity = shared / (size + len(other) - shared)
            if similarity > best:
                best, best_place = similarity, place
        return best_place if best >= THRESHOLD else None


@final
class Arrays:
    """Exact Jaccard similarity with all entries at once, by arrays of numpy.

    The tokens of a tool are numbered, so that whether a call has one is read from a table; to search for their values
    would take several times as long.
    """

    def __init__(self, entries: Mapping[str, Entries]) -> None:
        self._tools = {}
        for tool, some in entries.items():
            values, numbers = np.unique(np.concatenate(some.tokens), return_inverse=True)
            sizes = np.array([len(tokens) for tokens in some.tokens])
            self._tools[tool] = values, numbers.astype(np.uint32), np.cumsum(sizes) - sizes, sizes

    @property
    def num_bytes(self) -> int:
        """Memory of the arrays."""
        return sum(array.nbytes for arrays in self._tools.values() for array in arrays)

    def similarities(self, call: Call) -> npt.NDArray[np.float64]:
        """Compare with all."""
        values, numbers, starts, sizes = self._tools[call.tool]
        tokens = call_tokens(call.tool, call.arguments)
        asked = np.fromiter(tokens, np.uint64, len(tokens))
        places = values[:-1].searchsorted(asked)
        is_asked = np.zeros(len(values), np.float32)
        is_asked[places[values[places] == asked]] = 1
        shared = np.add.reduceat(is_asked.take(numbers), starts)
        similarities: npt.NDArray[np.float64] = shared / (len(asked) + sizes - shared)
        return similarities

    def nearest(self, call: Call) -> int | None:
        """Give the first of the most similar ones."""
        similarities = self.similarities(call)
        place = int(similarities.argmax())
        return place if similarities[place] >= THRESHOLD else None


@final
class RapidFuzz:
    """`process.extractOne` by `fuzz.token_set_ratio` over the calls as text."""

    def __init__(self, entries: Mapping[str, Entries]) -> None:
        self._texts = {
            tool: [utils.default_process(canonical_text(call.arguments)) for call in some.calls]
            for tool, some in entries.items()
        }

    def nearest(self, call: Call) -> int | None:
        """Give the first of the highest ratio."""
        text = utils.default_process(canonical_text(call.arguments))
        return process.extractOne(text, self._texts[call.tool], scorer=fuzz.token_set_ratio)[2]


@final
class DataSketch:
    """`MinHashLSH` over the token sets; the exact similarity of what it proposes decides."""

    def __init__(self, entries: Mapping[str, Entries]) -> None:
        self._tokens = {tool: some.tokens for tool, some in entries.items()}
        self._empty = MinHash(num_perm=NUM_PERMUTATIONS, hashfunc=_low_bits)
        self._lsh = {}
        for tool, some in entries.items():
            lsh = MinHashLSH(threshold=THRESHOLD, num_perm=NUM_PERMUTATIONS, params=_bands())
            for place, tokens in enumerate(some.tokens):
                lsh.insert(place, self._hashed(tokens.tolist()), check_duplication=False)
            self._lsh[tool] = lsh

    def nearest(self, call: Call) -> int | None:
        """Compare the proposals; of equally similar ones the first."""
        asked = call_tokens(call.tool, call.arguments)
        proposed = self._lsh[call.tool].query(self._hashed(asked))
        ranked = [(-jaccard(asked, set(self._tokens[call.tool][place].tolist())), place) for place in proposed]
        similarity, place = min(ranked, default=(0.0, 0))
        return place if -similarity >= THRESHOLD else None

    def _hashed(self, tokens: Iterable[int]) -> MinHash:
        hashed: MinHash = self._empty.copy()  # To make one anew would draw the permutations again.
        hashed.update_batch(tokens)
        return hashed


@cache
def _bands() -> tuple[int, int]:
    """How datasketch divides the permutations; to find that out takes it seconds."""
    lsh = MinHashLSH(threshold=THRESHOLD, num_perm=NUM_PERMUTATIONS)
    return lsh.b, lsh.r


def _low_bits(token: int) -> int:
    return token & 0xFFFFFFFF  # Tokens are hashes already.


RIVALS: dict[str, type[Sets | RapidFuzz | DataSketch]] = {
    "brute force, Python sets": Sets,
    "rapidfuzz extractOne": RapidFuzz,
    "datasketch MinHashLSH": DataSketch,
}
