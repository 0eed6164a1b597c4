"""Turn the state of the rows into one forward pass: flat tokens, their positions, and who attends to what."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch

from streakline.rollout.cached_attention import Block, ChunkBlock, DecodeBlock, PrefixMap, PromptBlock, Step
from streakline.rollout.rows import Row, RowTable


def map_prefixes(layout: Sequence[tuple[int, int]], device: torch.device) -> PrefixMap:
    """Arrange rows by trunk, from slot and visible length of each row's trunk.

    A row without a trunk stands with trunk 0 and sees none of it.
    """
    trunks = np.maximum([trunk for trunk, _ in layout], 0)
    lengths = [length for _, length in layout]
    counts = np.bincount(trunks)
    order = np.argsort(trunks, kind="stable")
    within = np.arange(len(order)) - (np.cumsum(counts) - counts)[trunks[order]]
    slot_of_row = np.empty(len(order), dtype=np.int64)
    slot_of_row[order] = trunks[order] * counts.max() + within
    rows_of_slots = np.zeros(len(counts) * counts.max(), dtype=np.int64)
    rows_of_slots[slot_of_row] = np.arange(len(order))
    return PrefixMap(
        rows_of_slots=torch.from_numpy(rows_of_slots).view(len(counts), -1).to(device),
        slot_of_row=torch.from_numpy(slot_of_row).to(device),
        lengths=torch.tensor(lengths, device=device),
        longest=max(lengths),
    )


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
        blocks.append(_decode_block(rows, singles, prefixes, device))
    if chunks:
        blocks.append(_chunk_block(rows, chunks, device))
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
    padded, unpadded = _pad_indices([len(prompt) for prompt in prompts])
    block = PromptBlock(
        trunks=torch.tensor(slots, device=device),
        padded=padded.to(device),
        unpadded=unpadded.to(device),
        num_slots=len(table.trunks),
    )
    return Step(
        token_ids=[token for prompt in prompts for token in prompt],
        positions=[position for prompt in prompts for position in range(len(prompt))],
        layers=table.layers,
        blocks=(block,),
        sizes=[sum(map(len, prompts))],
        drawn_slots=[],
        drawn_from=[],
    )


def _decode_block(
    rows: Sequence[Row], singles: Sequence[int], prefixes: PrefixMap, device: torch.device
) -> DecodeBlock:
    slots = [0] * len(rows)
    for slot in singles:
        slots[slot] = rows[slot].tail_length
    return DecodeBlock(
        rows=torch.tensor(singles, device=device),
        slots=torch.tensor(slots, device=device),
        prefixes=prefixes,
        longest=max(slots) + 1,
    )


def _chunk_block(rows: Sequence[Row], chunks: Sequence[int], device: torch.device) -> ChunkBlock:
    chosen = [rows[slot] for slot in chunks]
    padded, unpadded = _pad_indices([len(row.pending) for row in chosen])
    return ChunkBlock(
        rows=torch.tensor(chunks, device=device),
        trunks=torch.tensor([max(row.trunk, 0) for row in chosen], device=device),
        prefix_lengths=torch.tensor([row.prefix_length for row in chosen], device=device),
        longest_prefix=max(row.prefix_length for row in chosen),
        starts=torch.tensor([row.tail_length for row in chosen], device=device),
        padded=padded.to(device),
        unpadded=unpadded.to(device),
        longest=max(row.tail_length + len(row.pending) for row in chosen),
        num_rows=len(rows),
    )


def _pad_indices(lengths: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Map between flat tokens and right-padded rows.

    Example:
        Lengths 2 and 3 give [[0, 1, 0], [2, 3, 4]] and [0, 1, 3, 4, 5].
    """
    sizes = torch.tensor(lengths)
    steps = torch.arange(int(sizes.max()))
    real = steps < sizes[:, None]
    padded = torch.where(real, (sizes.cumsum(0) - sizes)[:, None] + steps, 0)
    return padded, real.flatten().nonzero().flatten()
