"""One `generate` call of an in-process engine: rows come, are fed and drawn from step by step, and go."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, final

import torch

from streakline.rollout.cached_attention import PrefixMap
from streakline.rollout.draw import draw_tokens
from streakline.rollout.engine import GenerationRequest, Respond
from streakline.rollout.kv_store import KVStore
from streakline.rollout.rows import Row, RowTable
from streakline.rollout.sampling import SamplingPolicy
from streakline.rollout.step_plan import Step, map_prefixes, plan_prompts, plan_step
from streakline.types import Completion

Forward: TypeAlias = Callable[[Step], torch.Tensor]
"""Runs the model over a step; returns logits [D, V] of the tokens in `Step.drawn_from`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What the model and the machine can take."""

    max_rows: int
    """Rows at once."""
    max_step_tokens: int
    """Prompt or injected tokens of one forward pass."""
    max_positions: int | None
    """Longest sequence that the model can place; None = no limit."""
    vocabulary: int
    """Token ids lie in [0, vocabulary)."""


@final
class RolloutBatch:
    """The rows of one `generate` call. Single use."""

    def __init__(
        self,
        requests: Sequence[GenerationRequest],
        respond: Respond,
        *,
        forward: Forward,
        sampling: SamplingPolicy,
        terminator_ids: Sequence[int],
        limits: BatchLimits,
        weight_version: int,
        device: torch.device,
    ) -> None:
        self._queue = deque(enumerate(requests))
        self._respond = respond
        self._forward = forward
        self._sampling = sampling
        self._terminator_ids = tuple(terminator_ids)
        self._limits = limits
        self._weight_version = weight_version
        self._device = device
        self._table = RowTable()
        self._store = KVStore()
        self._prefixes: PrefixMap | None = None

    def run(self) -> None:
        """Step until no row is left."""
        self._admit()
        while self._table.rows:
            finished = self._step()
            if finished:
                self._finish(finished)
                self._admit()

    def _admit(self) -> None:
        entering: list[tuple[int, GenerationRequest]] = []
        while self._queue and len(self._table.rows) + len(entering) < self._limits.max_rows:
            index, request = self._queue.popleft()
            accepted = self._accepted(index, request)
            if accepted is not None:
                entering.append((index, accepted))
        if not entering:
            return
        self._prefixes = None
        new = self._table.admit(entering, greedy=self._sampling.greedy)
        for slots in self._prompt_batches(new):
            self._forward(plan_prompts(self._table, slots, self._store, device=self._device))

    def _prompt_batches(self, slots: Sequence[int]) -> list[list[int]]:
        batches: list[list[int]] = []
        used = math.inf
        for slot in slots:
            length = len(self._table.trunks[slot].token_ids)
            used += length
            if used > self._limits.max_step_tokens:
                batches.append([])
                used = length
            batches[-1].append(slot)
        return batches

    def _step(self) -> list[tuple[int, Completion]]:
        """Run one forward pass and draw; returns slot and completion of every turn that ended."""
        if self._prefixes is None:
            self._prefixes = map_prefixes(self._table, self._device)
        step = plan_step(
            self._table,
            self._store,
            self._prefixes,
            max_chunk_tokens=self._limits.max_step_tokens,
            device=self._device,
        )
        logits = self._forward(step)
        rows = [self._table.rows[slot] for slot in step.drawn_slots]
        tokens, logprobs = draw_tokens(
            logits,
            [row.uniforms[len(row.sampled)] if row.uniforms else 0.0 for row in rows],
            sampling=self._sampling,
            terminator_ids=self._terminator_ids,
            may_stop=[len(row.sampled) >= row.request.min_new_tokens for row in rows],
        )
        finished = []
        for slot, row, token, logprob in zip(step.drawn_slots, rows, tokens, logprobs, strict=True):
            completion = self._advance(row, token, logprob)
            if completion is not None:
                finished.append((slot, completion))
        return finished

    def _advance(self, row: Row, token: int, logprob: float) -> Completion | None:
        row.feed()
        if not math.isfinite(logprob):
            return self._completion(row, "error", error="The model gave logits that are not finite")
        row.sampled.append(token)
        row.logprobs.append(logprob)
        row.pending = [token]
        if token in self._terminator_ids:
            return self._completion(row, "stop")
        return self._completion(row, "length") if len(row.sampled) == row.request.max_new_tokens else None

    def _completion(self, row: Row, reason: Literal["stop", "length", "error"], error: str = "") -> Completion:
        return Completion(
            token_ids=tuple(row.sampled),
            logprobs=tuple(row.logprobs),
            finish_reason=reason,
            error=error,
            weight_version=self._weight_version,
        )

    def _finish(self, finished: Sequence[tuple[int, Completion]]) -> None:
        """Let rows respond, start their next turns, and drop those that are done."""
        done = []
        for slot, completion in finished:
            row = self._table.rows[slot]
            request = self._respond(row.index, completion)
            accepted = None if request is None else self._accepted(row.index, request)
            if accepted is None:
                done.append(slot)
                continue
            seen = row.prefix_length
            row.start_turn(accepted, greedy=self._sampling.greedy)
            if row.prefix_length != seen:
                self._prefixes = None
        if done:
            self._remove(done)

    def _remove(self, slots: Sequence[int]) -> None:
        self._prefixes = None
        sources, targets = self._table.remove_rows(slots)
        if sources:
            longest = max(self._table.rows[slot].tail_length for slot in targets)
            self._store.move_tails(sources, targets, length=longest, device=self._device)
        sources, targets = self._table.remove_idle_trunks()
        if sources:
            longest = max(len(self._table.trunks[slot].token_ids) for slot in targets)
            self._store.move_trunks(sources, targets, length=longest, device=self._device)

    def _accepted(self, index: int, request: GenerationRequest | None) -> GenerationRequest | None:
        """Let the row respond to a request that can't be run, until one can or it gives up."""
        while request is not None:
            error = self._fault(request)
            if not error:
                return self._within_positions(request)
            refused = Completion(
                token_ids=(), logprobs=(), finish_reason="error", error=error, weight_version=self._weight_version
            )
            request = self._respond(index, refused)
        return None

    def _fault(self, request: GenerationRequest) -> str:
        limit = self._limits.max_positions
        if limit is not None and len(request.prompt_ids) >= limit:
            return f"Expected a prompt of fewer than {limit} tokens, but got {len(request.prompt_ids)}"
        lowest, highest = min(request.prompt_ids), max(request.prompt_ids)
        if lowest < 0 or highest >= self._limits.vocabulary:
            stranger = lowest if lowest < 0 else highest
            return f"Expected prompt tokens in [0, {self._limits.vocabulary}), but got {stranger}"
        return ""

    def _within_positions(self, request: GenerationRequest) -> GenerationRequest:
        if self._limits.max_positions is None:
            return request
        room = self._limits.max_positions - len(request.prompt_ids)
        if request.max_new_tokens <= room:
            return request
        return replace(request, max_new_tokens=room, min_new_tokens=min(request.min_new_tokens, room))
