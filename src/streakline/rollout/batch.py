"""One `generate` call of an in-process engine: rows come, are fed and drawn from step by step, and go."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, TypeAlias, final

import torch

from streakline.rollout.cached_attention import Block, ChunkBlock, DecodeBlock, PrefixMap, PromptBlock, Step
from streakline.rollout.draw import draw_tokens
from streakline.rollout.engine import GenerationRequest, Respond
from streakline.rollout.rows import Row, RowTable
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Completion

Forward: TypeAlias = Callable[[Step], torch.Tensor]
"""Runs the model over a step; returns logits [D, V] of the tokens in `Step.drawn_from`."""


@final
@dataclass(kw_only=True)
class RolloutBatch:
    """The rows of one `generate` call. Single use."""

    requests: Sequence[GenerationRequest]
    respond: Respond
    forward: Forward
    sampling: SamplingPolicy
    terminator_ids: Sequence[int]
    max_rows: int
    """Rows at once."""
    max_step_tokens: int
    """Prompt or injected tokens of one forward pass."""
    max_positions: int
    """Longest sequence that the model can place."""
    vocabulary: int
    """Token ids lie in [0, vocabulary)."""
    weight_version: int
    device: torch.device

    def __post_init__(self) -> None:
        """Begin without rows."""
        self._queue = deque(enumerate(self.requests))
        self._table = RowTable()
        self._layout: list[tuple[int, int]] = []
        self._prefixes: PrefixMap | None = None

    def run(self) -> None:
        """Step until no row is left."""
        self._admit()
        while self._table.rows:
            done = [slot for slot, completion in self._step() if not self._goes_on(self._table.rows[slot], completion)]
            if done:
                self._table.remove(done)
                self._admit()

    def _admit(self) -> None:
        entering: list[tuple[int, GenerationRequest]] = []
        while self._queue and len(self._table.rows) + len(entering) < self.max_rows:
            index, request = self._queue.popleft()
            accepted = self._accepted(index, request)
            if accepted is not None:
                entering.append((index, accepted))
        if not entering:
            return
        new = self._table.admit(entering, greedy=self.sampling.greedy)
        for slots in self._prompt_batches(new):
            self.forward(plan_prompts(self._table, slots, device=self.device))

    def _prompt_batches(self, slots: Sequence[int]) -> list[list[int]]:
        batches: list[list[int]] = []
        used = math.inf
        for slot in slots:
            length = len(self._table.trunks[slot])
            used += length
            if used > self.max_step_tokens:
                batches.append([])
                used = length
            batches[-1].append(slot)
        return batches

    def _step(self) -> list[tuple[int, Completion]]:
        """Run one forward pass and draw; returns slot and completion of every turn that ended."""
        step = plan_step(
            self._table,
            self._current_prefixes(),
            max_chunk_tokens=self.max_step_tokens,
            device=self.device,
        )
        logits = self.forward(step)
        rows = [self._table.rows[slot] for slot in step.drawn_slots]
        tokens, logprobs = draw_tokens(
            logits,
            [row.uniforms[len(row.sampled)] if row.uniforms else 0.0 for row in rows],
            sampling=self.sampling,
            terminator_ids=self.terminator_ids,
            may_stop=[len(row.sampled) >= row.request.min_new_tokens for row in rows],
        )
        finished = []
        for slot, row, token, logprob in zip(step.drawn_slots, rows, tokens, logprobs, strict=True):
            completion = self._advance(row, token, logprob)
            if completion is not None:
                finished.append((slot, completion))
        return finished

    def _current_prefixes(self) -> PrefixMap:
        layout = [(row.trunk, row.prefix_length) for row in self._table.rows]
        if self._prefixes is None or layout != self._layout:
            self._layout, self._prefixes = layout, PrefixMap(layout, self.device)
        return self._prefixes

    def _advance(self, row: Row, token: int, logprob: float) -> Completion | None:
        row.feed()
        if not math.isfinite(logprob):
            return self._completion("error", row=row, error="The model gave logits that are not finite")
        row.sampled.append(token)
        row.logprobs.append(logprob)
        row.pending = [token]
        if token in self.terminator_ids:
            return self._completion("stop", row=row)
        return self._completion("length", row=row) if len(row.sampled) == row.request.max_new_tokens else None

    def _completion(
        self, reason: Literal["stop", "length", "error"], *, row: Row | None = None, error: str = ""
    ) -> Completion:
        return Completion(
            token_ids=tuple(row.sampled) if row else (),
            logprobs=tuple(row.logprobs) if row else (),
            finish_reason=reason,
            error=error,
            weight_version=self.weight_version,
        )

    def _goes_on(self, row: Row, completion: Completion) -> bool:
        """Let a row respond, and start its next turn if there is one."""
        request = self._accepted(row.index, self.respond(row.index, completion))
        if request is not None:
            row.start_turn(request, greedy=self.sampling.greedy)
        return request is not None

    def _accepted(self, index: int, request: GenerationRequest | None) -> GenerationRequest | None:
        """Let the row respond to a request that can't be run, until one can or it gives up."""
        while request is not None and (fault := self._fault(request)):
            request = self.respond(index, self._completion("error", error=fault))
        if request is None:
            return None
        room = self.max_positions - len(request.prompt_ids)
        limits = (min(request.max_new_tokens, room), min(request.min_new_tokens, room))
        return replace(request, max_new_tokens=limits[0], min_new_tokens=limits[1])

    def _fault(self, request: GenerationRequest) -> str:
        limit = self.max_positions
        if len(request.prompt_ids) >= limit:
            return f"Expected a prompt of fewer than {limit} tokens, but got {len(request.prompt_ids)}"
        lowest, highest = min(request.prompt_ids), max(request.prompt_ids)
        if lowest < 0 or highest >= self.vocabulary:
            stranger = lowest if lowest < 0 else highest
            return f"Expected prompt tokens in [0, {self.vocabulary}), but got {stranger}"
        return ""


def plan_step(table: RowTable, prefixes: PrefixMap, *, max_chunk_tokens: int, device: torch.device) -> Step:
    """Feed the pending tokens of at least one row, and draw for every row that is fed.

    `max_chunk_tokens` limits the tokens of rows that have more than one; of these, one is always served, and those that
    don't fit wait for the next step.
    """
    rows = table.rows
    singles = [slot for slot, row in enumerate(rows) if len(row.pending) == 1]
    waiting = [slot for slot, row in enumerate(rows) if len(row.pending) > 1]
    sums = accumulate(len(rows[slot].pending) for slot in waiting)
    chunks = [
        slot
        for place, (slot, total) in enumerate(zip(waiting, sums, strict=True))
        if not place or total <= max_chunk_tokens
    ]
    blocks: list[Block] = []
    if singles:
        blocks.append(DecodeBlock(rows, singles, prefixes, device))
    if chunks:
        blocks.append(ChunkBlock(rows, chunks, device))
    fed = [rows[slot] for slot in singles + chunks]
    return Step(
        token_ids=[token for row in fed for token in row.pending],
        positions=[len(row.cached) + offset for row in fed for offset in range(len(row.pending))],
        layers=table.layers,
        blocks=tuple(blocks),
        sizes=[sum(len(rows[slot].pending) for slot in slots) for slots in (singles, chunks) if slots],
        drawn_slots=singles + chunks,
        drawn_from=[end - 1 for end in accumulate(len(row.pending) for row in fed)],
    )


def plan_prompts(table: RowTable, slots: Sequence[int], *, device: torch.device) -> Step:
    """Compute the new trunks in some slots, at least one, without a draw."""
    prompts = [table.trunks[slot] for slot in slots]
    return Step(
        token_ids=[token for prompt in prompts for token in prompt],
        positions=[position for prompt in prompts for position in range(len(prompt))],
        layers=table.layers,
        blocks=(PromptBlock(table.trunks, slots, device),),
        sizes=[sum(map(len, prompts))],
        drawn_slots=[],
        drawn_from=[],
    )
