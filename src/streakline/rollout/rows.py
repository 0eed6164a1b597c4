"""Bookkeeping of the rows and trunks that an in-process engine runs: who holds which slot, and what is cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from streakline.rollout.draw import uniforms
from streakline.rollout.engine import GenerationRequest


@final
@dataclass(slots=True, kw_only=True)
class Trunk:
    """A prompt (without its last token) whose keys and values are stored once."""

    token_ids: tuple[int, ...]
    """[P] tokens; at least one."""
    num_rows: int = 0
    """Live rows that use it."""


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
    """Live rows in slots [0, R) and trunks in slots [0, T), without gaps: a step computes nothing for the dead."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.trunks: list[Trunk] = []
        self._trunk_slots: dict[tuple[int, ...], int] = {}

    def admit(self, requests: Sequence[tuple[int, GenerationRequest]], *, greedy: bool) -> list[int]:
        """Give each request, with its index, a row; returns the slots of new trunks, which must be computed."""
        new: list[int] = []
        for index, request in requests:
            head = request.prompt_ids[:-1]
            if head and head not in self._trunk_slots:
                self._trunk_slots[head] = len(self.trunks)
                new.append(len(self.trunks))
                self.trunks.append(Trunk(token_ids=head))
            slot = self._trunk_slots[head] if head else -1
            row = Row(index=index, trunk=slot, prefix_length=len(head), cached=list(head), pending=[], request=request)
            row.start_turn(request, greedy=greedy)
            self.rows.append(row)
            if head:
                self.trunks[slot].num_rows += 1
        return new

    def remove_rows(self, slots: Sequence[int]) -> tuple[list[int], list[int]]:
        """Drop rows and fill the gaps with the last ones; returns the slots to copy tails from, and to."""
        for slot in slots:
            if self.rows[slot].trunk >= 0:
                self.trunks[self.rows[slot].trunk].num_rows -= 1
        sources, targets = _gap_moves(len(self.rows), slots)
        for source, target in zip(sources, targets, strict=True):
            self.rows[target] = self.rows[source]
        del self.rows[len(self.rows) - len(slots) :]
        return sources, targets

    def remove_idle_trunks(self) -> tuple[list[int], list[int]]:
        """Drop trunks that no row uses and fill the gaps; returns the slots to copy trunks from, and to."""
        idle = [slot for slot, trunk in enumerate(self.trunks) if trunk.num_rows == 0]
        sources, targets = _gap_moves(len(self.trunks), idle)
        moved = dict(zip(sources, targets, strict=True))
        for slot in idle:
            del self._trunk_slots[self.trunks[slot].token_ids]
        for source, target in moved.items():
            self.trunks[target] = self.trunks[source]
            self._trunk_slots[self.trunks[target].token_ids] = target
        del self.trunks[len(self.trunks) - len(idle) :]
        for row in self.rows:
            row.trunk = moved.get(row.trunk, row.trunk)
        return sources, targets


def common_prefix_length(first: Sequence[int], second: Sequence[int], *, limit: int) -> int:
    """Count the leading tokens, at most `limit`, that two sequences share."""
    # Nearly always everything is shared, which a comparison of slices sees at C speed.
    if list(first[:limit]) == list(second[:limit]):
        return limit
    return next(position for position in range(limit) if first[position] != second[position])


def _gap_moves(total: int, gaps: Sequence[int]) -> tuple[list[int], list[int]]:
    """Match the gaps among the first `total - len(gaps)` slots with the survivors beyond them."""
    kept = total - len(gaps)
    removed = set(gaps)
    sources = [slot for slot in range(kept, total) if slot not in removed]
    targets = sorted(slot for slot in removed if slot < kept)
    return sources, targets
