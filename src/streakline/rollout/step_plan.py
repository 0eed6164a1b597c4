"""Turn the state of the rows into one forward pass: flat tokens, their positions, and who attends to what."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch

from streakline.rollout.cached_attention import Block, ChunkBlock, DecodeBlock, PrefixMap, PromptBlock, Step
from streakline.rollout.rows import RowTable


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
