"""Bookkeeping of the rows and trunks that an in-process engine runs: who holds which slot, and what is cached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar, final

from streakline.rollout.draw import uniforms
from streakline.rollout.engine import GenerationRequest
from streakline.rollout.kv_store import LayerStore

T = TypeVar("T")


@final
@dataclass(slots=True, kw_only=True)
class Row:
    """One rollout inside the engine."""

    index: int
    """Index among the requests of the `generate` call."""
    trunk: int
    """Slot of its trunk; -1 = it has none."""
    prefix_length: int
    """Trunk positions that it sees."""
    cached: list[int]
    """Tokens whose keys and values are stored: trunk part, then tail."""
    pending: list[int]
    """Tokens to be fed before the next draw; at least one."""
    request: GenerationRequest
    """The turn that is being generated."""
    uniforms: list[float] = field(default_factory=list)
    """[max_new_tokens] draws of the turn; empty when greedy."""
    sampled: list[int] = field(default_factory=list)
    """Tokens of the turn so far."""
    logprobs: list[float] = field(default_factory=list)
    """Their log-probabilities."""

    @property
    def tail_length(self) -> int:
        """Cached tokens after the trunk."""
        return len(self.cached) - self.prefix_length

    def feed(self) -> None:
        """Count the pending tokens as cached."""
        self.cached.extend(self.pending)
        self.pending = []

    def start_turn(self, request: GenerationRequest, *, greedy: bool) -> None:
        """Continue with a new prompt; what it shares with the cached tokens is kept. If `greedy`, nothing is drawn."""
        # The last prompt token is always fed again: its output is the first draw's distribution.
        limit = min(len(self.cached), len(request.prompt_ids) - 1)
        kept = common_prefix_length(self.cached, request.prompt_ids, limit=limit)
        del self.cached[kept:]
        self.prefix_length = min(self.prefix_length, kept)
        self.pending = list(request.prompt_ids[kept:])
        self.request = request
        self.uniforms = [] if greedy else uniforms(request.seed, request.max_new_tokens)
        self.sampled, self.logprobs = [], []


@final
class RowTable:
    """Live rows in slots [0, R), trunks in slots [0, T), both without gaps: a step computes nothing for the dead."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.trunks: list[tuple[int, ...]] = []
        """[T] tokens of each trunk: a prompt without its last token, at least one."""
        self.layers: defaultdict[int, LayerStore] = defaultdict(LayerStore)
        """Index of each attention layer -> keys and values of rows and trunks, in the same slots."""

    def admit(self, requests: Sequence[tuple[int, GenerationRequest]], *, greedy: bool) -> range:
        """Give each request, with its index, a row; returns the slots of new trunks, which must be computed."""
        first_new = len(self.trunks)
        slots = {trunk: slot for slot, trunk in enumerate(self.trunks)}
        for index, request in requests:
            head = request.prompt_ids[:-1]
            if head and head not in slots:
                slots[head] = len(self.trunks)
                self.trunks.append(head)
            trunk = slots.get(head, -1)
            row = Row(index=index, trunk=trunk, prefix_length=len(head), cached=list(head), pending=[], request=request)
            row.start_turn(request, greedy=greedy)
            self.rows.append(row)
        return range(first_new, len(self.trunks))

    def remove(self, slots: Sequence[int]) -> None:
        """Drop rows, and the trunks that no row is left of; the last ones fill the gaps."""
        moves = _close_gaps(self.rows, slots)
        if moves:
            longest = max(self.rows[slot].tail_length for slot in moves.values())
            for layer in self.layers.values():
                layer.tails.move(moves, length=longest)
        used = {row.trunk for row in self.rows}
        moves = _close_gaps(self.trunks, [slot for slot in range(len(self.trunks)) if slot not in used])
        if moves:
            longest = max(len(self.trunks[slot]) for slot in moves.values())
            for layer in self.layers.values():
                layer.trunks.move(moves, length=longest)
            for row in self.rows:
                row.trunk = moves.get(row.trunk, row.trunk)


def common_prefix_length(first: Sequence[int], second: Sequence[int], *, limit: int) -> int:
    """Count the leading tokens, at most `limit`, that two sequences share."""
    # Nearly always everything is shared, which a comparison of slices sees at C speed.
    if list(first[:limit]) == list(second[:limit]):
        return limit
    return next(position for position in range(limit) if first[position] != second[position])


def _close_gaps(items: list[T], gaps: Sequence[int]) -> dict[int, int]:
    """Remove the items in `gaps` and put the last ones there; returns old slot -> new slot of these."""
    kept = len(items) - len(gaps)
    removed = set(gaps)
    sources = [slot for slot in range(kept, len(items)) if slot not in removed]
    moves = dict(zip(sources, sorted(slot for slot in removed if slot < kept), strict=True))
    for source, target in moves.items():
        items[target] = items[source]
    del items[kept:]
    return moves
