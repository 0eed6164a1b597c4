"""Token rows as a prefix tree: what rows have in common is computed once.

The trajectories of a group share a long prompt, and tasks share a system prompt. Packed depth first, every distinct
prefix once, such rows are one sequence in which a token sees its ancestors only (`algorithms/tree_attention.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import final

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from streakline.algorithms.tree_parts import Bridge, CausalBlock, Ids, attention_parts
from streakline.errors import ConfigError

# Gathering a token into its block costs what so many more keys would; a kernel call so many multiply-adds. Both from
# times on a CPU.
_GATHER = 64
_CALL = 3e6


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTree:
    """Distinct prefixes of B rows, packed depth first."""

    token_ids: torch.Tensor
    """[N] int64."""
    depths: torch.Tensor
    """[N] int64: position of each token in its rows."""
    parents: torch.Tensor
    """[N] int64: packed token before each, -1 for the first of a row."""
    ends: torch.Tensor
    """[N] int64: behind the last packed token below each; i sees j where j <= i < ends[j]."""
    nodes: torch.Tensor
    """[B, T] int64: packed token of each token of each row, 0 on padding."""
    blocks: tuple[CausalBlock, ...]
    """Attention within stretches."""
    bridges: tuple[Bridge, ...]
    """Attention to stretches above."""
    masks: dict[torch.device, BlockMask] = field(default_factory=dict)
    """What `block_mask` made, kept for all layers."""

    @property
    def num_tokens(self) -> int:
        """N."""
        return len(self.token_ids)

    def to(self, device: torch.device) -> PrefixTree:
        """Move every tensor."""
        return PrefixTree(
            token_ids=self.token_ids.to(device),
            depths=self.depths.to(device),
            parents=self.parents.to(device),
            ends=self.ends.to(device),
            nodes=self.nodes.to(device),
            blocks=tuple(CausalBlock(index=b.index.to(device), kept=b.kept.to(device)) for b in self.blocks),
            bridges=tuple(Bridge(keys=b.keys.to(device), start=b.start, end=b.end) for b in self.bridges),
        )

    def block_mask(self) -> BlockMask:
        """[1, 1, N, N]: who sees whom, for FlexAttention."""
        ends, size, device = self.ends, self.num_tokens, self.ends.device
        if device not in self.masks:

            def sees(_row: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
                return (key <= query) & (query < ends[key])

            self.masks[device] = create_block_mask(sees, None, None, size, size, device=device)
        return self.masks[device]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCost:
    """What a forward pass costs, in multiply-adds, to predict whether a tree or padded rows take longer."""

    token: float
    """Weights that every token passes through."""
    pair: float
    """Of each query with each key, over all layers."""
    layers: int
    """Attention layers."""

    def of_tree(self, tree: PrefixTree) -> float:
        """Cost of a tree."""
        in_blocks = sum(block.index.numel() * block.index.shape[1] / 2 for block in tree.blocks)
        in_bridges = sum((bridge.end - bridge.start) * len(bridge.keys) for bridge in tree.bridges)
        calls = self.layers * (len(tree.blocks) + len(tree.bridges))
        pairs = tree.num_tokens * _GATHER + in_blocks + in_bridges
        return tree.num_tokens * self.token + pairs * self.pair + calls * _CALL

    def of_rows(self, num_rows: int, length: int) -> float:
        """Cost of rows padded to a length."""
        return num_rows * length * (self.token + length / 2 * self.pair) + self.layers * _CALL


def build_tree(rows: Sequence[Sequence[int]]) -> PrefixTree:
    """Pack rows of token ids, in any order, none of them empty.

    Example:
        Two rows that share two of their three tokens::

            >>> tree = build_tree([[5, 6, 7], [5, 6, 8]])
            >>> tree.token_ids.tolist(), tree.depths.tolist(), tree.nodes.tolist()
            ([5, 6, 7, 8], [0, 1, 2, 2], [[0, 1, 2], [0, 1, 3]])
    """
    ids = [np.asarray(row, dtype=np.int64) for row in rows]
    order = _sorted(ids)
    shared = _shared_lengths([ids[row] for row in order])
    lengths = [len(ids[row]) for row in order]
    offsets = [0, *np.cumsum(np.subtract(lengths, shared)).tolist()]
    paths: list[Ids] = []
    nodes = np.zeros((len(rows), max(lengths)), dtype=np.int64)
    for row, start, (begin, end) in zip(order, shared, pairwise(offsets), strict=True):
        paths.append(np.concatenate((paths[-1][:start] if start else [], np.arange(begin, end))).astype(np.int64))
        nodes[row, : len(paths[-1])] = paths[-1]
    added = list(zip(order, paths, shared, strict=True))
    blocks, bridges = attention_parts(paths, shared=shared, offsets=offsets)
    return PrefixTree(
        token_ids=_joined([ids[row][start:] for row, _, start in added]),
        depths=_joined([np.arange(start, len(path)) for _, path, start in added]),
        parents=_joined([np.concatenate(([-1], path[:-1]))[start:] for _, path, start in added]),
        ends=_joined(_subtree_ends(lengths, shared, offsets)),
        nodes=torch.from_numpy(nodes),
        blocks=blocks,
        bridges=bridges,
    )


def pack_by_prefix(rows: Sequence[Sequence[int]], *, max_tokens: int) -> list[list[int]]:
    """Split rows over trees of at most `max_tokens` distinct tokens; a longer row gets a tree for itself.

    Gives the indices of the rows of each, in the order of their tokens. Cut is where rows have least in common, but
    not before half of the rows that fit: what both sides share is computed twice.

    Raises:
        ConfigError: If the budget is not positive.

    Example:
        >>> pack_by_prefix([[5, 6, 7], [1, 2], [5, 6, 8], [1, 3]], max_tokens=4)
        [[1, 3], [0, 2]]
    """
    if max_tokens < 1:
        raise ConfigError(f"Expected `max_tokens` of a tree to be at least 1, but got {max_tokens}")
    ids = [np.asarray(row, dtype=np.int64) for row in rows]
    order = _sorted(ids)
    shared = [*_shared_lengths([ids[row] for row in order]), 0]
    packs: list[list[int]] = []
    start = 0
    while start < len(order):
        size, end = len(ids[order[start]]), start + 1
        while end < len(order) and (size := size + len(ids[order[end]]) - shared[end]) <= max_tokens:
            end += 1
        half = start + (end - start + 1) // 2
        end = min(range(half, end + 1), key=lambda place: (shared[place], -place)) if end < len(order) else end
        packs.append(order[start:end])
        start = end
    return packs


def _sorted(rows: Sequence[Ids]) -> list[int]:
    """Lexicographic order of rows of token ids, so that those with more in common stand closer."""
    # Big-endian bytes of non-negative numbers compare as the numbers do, and a prefix comes before what it begins.
    return sorted(range(len(rows)), key=lambda row: rows[row].astype(">u8").tobytes())


def _shared_lengths(rows: Sequence[Ids]) -> list[int]:
    """Tokens that each of some sorted rows has in common with the one before it; 0 for the first."""
    return [0, *(_shared_length(before, row) for before, row in pairwise(rows))]


def _shared_length(first: Ids, second: Ids) -> int:
    length = min(len(first), len(second))
    differs = first[:length] != second[:length]
    return int(differs.argmax()) if differs.any() else length


def _subtree_ends(lengths: Sequence[int], shared: Sequence[int], offsets: Sequence[int]) -> list[Ids]:
    """Of the tokens that each row adds: the first later row that has no more than the tokens above in common."""
    ends: list[Ids] = []
    for place, (length, start) in enumerate(zip(lengths, shared, strict=True)):
        below = np.minimum.accumulate([*shared[place + 1 :], 0])
        ends.append(np.asarray(offsets[place + 1 :])[np.searchsorted(-below, -np.arange(start, length))])
    return ends


def _joined(parts: Sequence[Ids]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(parts))
