"""Attention over a rollout's own cache, plugged into transformers as one more attention function.

The model runs over one flat sequence [1, N] that holds the new tokens of many rows. Every layer but attention treats
tokens independently, so it needs no padding; attention is given a `Step`, whose blocks say which token belongs to
which row. Rows that share a prompt attend to one copy of its keys (the memory traffic that dominates decoding), and
the two parts are merged by their log-sum-exp, which equals one softmax over both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from torch.nn import functional
from transformers import AttentionInterface

from streakline.errors import EngineError
from streakline.policy.probe import altering_options
from streakline.rollout.kv_store import LayerStore
from streakline.rollout.rows import Row

ATTENTION_NAME = "streakline_rollout"
"""Name under which transformers finds the attention function."""

_MASKED = -1e30  # Finite, so that a fully masked part has weight 0 and not nan.


@final
class PrefixMap:
    """Which row sees how much of which trunk; rows of a trunk are handled together.

    `layout` [R] holds slot and visible length of each row's trunk; a row without one sees nothing of trunk 0.
    """

    def __init__(self, layout: Sequence[tuple[int, int]], device: torch.device) -> None:
        trunks = np.maximum([trunk for trunk, _ in layout], 0)
        counts = np.bincount(trunks)
        order = np.argsort(trunks, kind="stable")
        within = np.arange(len(order)) - (np.cumsum(counts) - counts)[trunks[order]]
        slot_of_row = np.empty(len(order), dtype=np.int64)
        slot_of_row[order] = trunks[order] * counts.max() + within
        rows_of_slots = np.zeros(len(counts) * counts.max(), dtype=np.int64)
        rows_of_slots[slot_of_row] = np.arange(len(order))
        self.rows_of_slots = torch.from_numpy(rows_of_slots).view(len(counts), -1).to(device)
        """[trunks, s] int64: rows of each trunk, filled up with row 0."""
        self.slot_of_row = torch.from_numpy(slot_of_row).to(device)
        """[R] int64: place of each row in the flattened `rows_of_slots`."""
        self.lengths = torch.tensor([length for _, length in layout], device=device)
        """[R] int64: trunk positions that each row sees."""
        self.longest = max(length for _, length in layout)
        """Largest of `lengths`; 0 = there is no trunk to look at."""
        self._biases: dict[int, torch.Tensor] = {}
        """Query heads a key head -> what is added to the scores; kept for all layers and steps."""

    def attend(
        self, query: torch.Tensor, positions: torch.Tensor, layer: LayerStore, window: int | None
    ) -> torch.Tensor:
        """Attend to the trunks only, from scaled queries [R, kv_heads, g, head_dim] at [R] int64 `positions`.

        g query heads share a key head. Gives [R, kv_heads, g, value_dim + 1]; see `_partial`.
        """
        num_trunks, width = self.rows_of_slots.shape
        _, kv_heads, group, _ = query.shape
        keys, values = layer.trunks.leading(num_trunks, self.longest)
        by_trunk = query[self.rows_of_slots].transpose(1, 2).reshape(num_trunks, kv_heads, width * group, -1)
        partial = _partial(by_trunk, keys, values, self._bias(positions, group, window))
        by_row = partial.view(num_trunks, kv_heads, width, group, -1).transpose(1, 2)
        return by_row.flatten(0, 1)[self.slot_of_row]

    def _bias(self, positions: torch.Tensor, group: int, window: int | None) -> torch.Tensor:
        """[trunks, 1, s * g, longest]; without a window it doesn't depend on the positions."""
        if window is None and group in self._biases:
            return self._biases[group]
        trunk = torch.arange(self.longest, device=positions.device)
        bias = _bias(trunk < self.lengths[:, None], positions[:, None] - trunk, window)[
            self.rows_of_slots
        ].repeat_interleave(group, dim=1)[:, None]
        if window is None:
            self._biases[group] = bias
        return bias


@final
class DecodeBlock:
    """One new token for some or all of the rows: those in `slots`, ascending, of which one token is pending."""

    def __init__(self, rows: Sequence[Row], slots: Sequence[int], prefixes: PrefixMap, device: torch.device) -> None:
        ends = [0] * len(rows)
        for slot in slots:
            ends[slot] = rows[slot].tail_length
        self.rows = torch.tensor(slots, device=device)
        """[N] int64: row of each token."""
        self.slots = torch.tensor(ends, device=device)
        """[R] int64: position in the tail of each row's token; 0 for a row without one."""
        self.prefixes = prefixes
        """Trunks of all R rows."""
        self.longest = max(ends) + 1
        """Longest tail, new tokens included."""
        self._biases: dict[int | None, torch.Tensor] = {}
        """Window -> what is added to the scores; kept for all layers."""

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: LayerStore, *, window: int | None
    ) -> torch.Tensor:
        """Attend from every row at once; a row without a token is computed too and dropped."""
        num_rows = len(self.slots)
        size = (num_rows, self.longest)
        layer.tails.write(key, value, slots=self.rows, positions=self.slots[self.rows], size=size)
        keys, values = layer.tails.leading(num_rows, self.longest)
        is_whole = len(self.rows) == num_rows
        queries = query if is_whole else query.new_zeros(num_rows, *query.shape[1:]).index_copy_(0, self.rows, query)
        grouped = queries.reshape(num_rows, key.shape[1], -1, query.shape[-1])
        partial = _partial(grouped, keys, values, self._bias(window))
        if self.prefixes.longest:
            positions = self.prefixes.lengths + self.slots
            partial = _merged(partial, self.prefixes.attend(grouped, positions, layer, window))
        attended = partial[..., :-1].flatten(1, 2).to(query.dtype)
        return attended if is_whole else attended[self.rows]

    def _bias(self, window: int | None) -> torch.Tensor:
        """[R, 1, 1, longest]."""
        if window not in self._biases:
            distance = self.slots[:, None] - torch.arange(self.longest, device=self.slots.device)
            self._biases[window] = _bias(distance >= 0, distance, window)[:, None, None]
        return self._biases[window]


@final
class ChunkBlock:
    """Several new tokens for each of a few rows, those in `slots`: a tool result, or a history that was cut back."""

    def __init__(self, rows: Sequence[Row], slots: Sequence[int], device: torch.device) -> None:
        chosen = [rows[slot] for slot in slots]
        self.rows = torch.tensor(slots, device=device)
        """[C] int64: rows that are extended."""
        self.trunks = torch.tensor([max(row.trunk, 0) for row in chosen], device=device)
        """[C] int64: their trunks."""
        self.prefix_lengths = torch.tensor([row.prefix_length for row in chosen], device=device)
        """[C] int64: trunk positions that each sees."""
        self.longest_prefix = max(row.prefix_length for row in chosen)
        """Largest of `prefix_lengths`."""
        self.starts = torch.tensor([row.tail_length for row in chosen], device=device)
        """[C] int64: tail positions that are there already."""
        self.padded, self.unpadded = _pad_indices([len(row.pending) for row in chosen], device)
        """See `_pad_indices`."""
        self.longest = max(row.tail_length + len(row.pending) for row in chosen)
        """Longest tail, new tokens included."""
        self.num_rows = len(rows)
        """R, rows whose tails are kept."""
        self._kept: dict[tuple[int | None, int], tuple[torch.Tensor, torch.Tensor]] = {}
        """(Window, query heads a key head) -> what is added to the scores of tails and of trunks, for all layers."""

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: LayerStore, *, window: int | None
    ) -> torch.Tensor:
        """Attend from the rows of the block, padded to the longest extension."""
        num_chunks, width = self.padded.shape
        kv_heads = key.shape[1]
        steps = self.starts[:, None] + torch.arange(width, device=query.device)
        slots = self.rows[:, None].expand(-1, width).flatten()[self.unpadded]
        positions = steps.flatten()[self.unpadded]
        layer.tails.write(key, value, slots=slots, positions=positions, size=(self.num_rows, self.longest))
        # [C, Q, heads, d] -> [C, kv_heads, g * Q, d]
        grouped = (
            query[self.padded]
            .view(num_chunks, width, kv_heads, -1, query.shape[-1])
            .permute(0, 2, 3, 1, 4)
            .flatten(2, 3)
        )
        tail_bias, trunk_bias = self._biases(window, query.shape[1] // kv_heads)
        partial = _partial(grouped, *layer.tails.gather(self.rows, self.longest), tail_bias)
        if self.longest_prefix:
            trunks = layer.trunks.gather(self.trunks, self.longest_prefix)
            partial = _merged(partial, _partial(grouped, *trunks, trunk_bias))
        attended = partial[..., :-1].reshape(num_chunks, kv_heads, -1, width, value.shape[-1]).permute(0, 3, 1, 2, 4)
        return attended.reshape(num_chunks * width, query.shape[1], -1)[self.unpadded].to(query.dtype)

    def _biases(self, window: int | None, group: int) -> tuple[torch.Tensor, torch.Tensor]:
        """[C, 1, g * Q, longest] and [C, 1, g * Q, longest_prefix]."""
        if (window, group) not in self._kept:
            width, device = self.padded.shape[1], self.padded.device
            steps = self.starts[:, None] + torch.arange(width, device=device)
            trunk = torch.arange(self.longest_prefix, device=device)
            in_tail = steps[:, :, None] - torch.arange(self.longest, device=device)
            in_trunk = (self.prefix_lengths[:, None] + steps)[:, :, None] - trunk
            seen = (trunk < self.prefix_lengths[:, None])[:, None].expand_as(in_trunk)
            tail, prefix = _bias(in_tail >= 0, in_tail, window), _bias(seen, in_trunk, window)
            # [C, Q, keys] -> [C, 1, g * Q, keys]
            self._kept[window, group] = (tail.repeat(1, group, 1)[:, None], prefix.repeat(1, group, 1)[:, None])
        return self._kept[window, group]


@final
class PromptBlock:
    """New trunks: those in `slots`, at least one."""

    def __init__(self, trunks: Sequence[Sequence[int]], slots: Sequence[int], device: torch.device) -> None:
        self.trunks = torch.tensor(slots, device=device)
        """[U] int64: where each is stored."""
        self.padded, self.unpadded = _pad_indices([len(trunks[slot]) for slot in slots], device)
        """See `_pad_indices`."""
        self.num_slots = len(trunks)
        """Trunks stored after this."""

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: LayerStore, *, window: int | None
    ) -> torch.Tensor:
        """Attend causally within each prompt; padding stands on the right, where no token looks."""
        num_prompts, width = self.padded.shape
        steps = torch.arange(width, device=query.device)
        layer.trunks.write(
            key,
            value,
            slots=self.trunks[:, None].expand(-1, width).flatten()[self.unpadded],
            positions=steps.repeat(num_prompts)[self.unpadded],
            size=(self.num_slots, width),
        )
        distance = steps[:, None] - steps
        attended = functional.scaled_dot_product_attention(
            query[self.padded].transpose(1, 2),
            key[self.padded].transpose(1, 2),
            value[self.padded].transpose(1, 2),
            attn_mask=None if window is None else (distance >= 0) & (distance < window),
            is_causal=window is None,
            scale=1.0,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        return attended.transpose(1, 2).flatten(0, 1)[self.unpadded]


Block: TypeAlias = "DecodeBlock | ChunkBlock | PromptBlock"
"""A run of the flat tokens that attend in the same way.

`attend` stores their new keys [N, kv_heads, head_dim] and values [N, kv_heads, value_dim], and attends to all: scaled
queries [N, heads, head_dim] give [N, heads, value_dim]. A token sees `window` positions, itself included; None = all
before it.
"""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One forward pass."""

    token_ids: list[int]
    """[N] flat tokens."""
    positions: list[int]
    """[N] position of each token within its own sequence."""
    layers: defaultdict[int, LayerStore]
    """Index of each attention layer -> keys and values, which are read and extended."""
    blocks: tuple[Block, ...]
    """What attention does with the tokens, in their order."""
    sizes: list[int]
    """Flat tokens of each block."""
    drawn_slots: list[int]
    """[D] rows that get a new token."""
    drawn_from: list[int]
    """[D] flat token whose output each is drawn from."""


def _pad_indices(lengths: Sequence[int], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Map between N flat tokens and C right-padded rows of them.

    Gives [C, longest] int64: flat token of each position, 0 where a row is shorter; and [N] int64: place of each flat
    token in the flattened first.

    Example:
        Lengths 2 and 3 give [[0, 1, 0], [2, 3, 4]] and [0, 1, 3, 4, 5].
    """
    sizes = torch.tensor(lengths)
    steps = torch.arange(int(sizes.max()))
    real = steps < sizes[:, None]
    padded = torch.where(real, (sizes.cumsum(0) - sizes)[:, None] + steps, 0)
    return padded.to(device), real.flatten().nonzero().flatten().to(device)


def _partial(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Attend to a part of the keys: [*, q, d] scaled, [*, k, d], [*, k, v] and a bias [*, q, k] of the scores.

    Gives [*, q, v + 1] float32: the weighted mean of the values, and the log-sum-exp of the scores, by which parts are
    weighed against each other.
    """
    scores = torch.matmul(query, keys.transpose(-1, -2)).float() + bias
    weights = scores.softmax(-1)
    mean = torch.matmul(weights.to(values.dtype), values).float()
    # The largest weight is exp(largest score) / sum. torch.logsumexp spends four times the time of all else here on
    # the exponentials of masked scores, which underflow.
    logsum = scores.amax(-1, keepdim=True) - weights.amax(-1, keepdim=True).log()
    return torch.cat((mean, logsum), dim=-1)


def _merged(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Weigh two parts of `_partial` against each other; the last column of the result has no meaning."""
    return torch.lerp(second, first, torch.sigmoid(first[..., -1:] - second[..., -1:]))


def _bias(seen: torch.Tensor, distance: torch.Tensor, window: int | None) -> torch.Tensor:
    """What is added to the scores of keys that are `seen`, and stand less than a window before the query."""
    return torch.where(seen if window is None else seen & (distance < window), 0.0, _MASKED)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float,
    rollout_step: Step,
    sliding_window: int | None = None,
    dropout: float = 0.0,
    **extras: object,
) -> tuple[torch.Tensor, None]:
    """Attention function in the form that transformers calls: [1, heads, N, d] in, [1, N, heads, d] out."""
    if altering := altering_options(extras):
        raise EngineError(f"Expected a model with plain softmax attention, but got one with {altering}")
    layer = rollout_step.layers[int(module.layer_idx)]  # type: ignore[arg-type]
    flat = (query[0].transpose(0, 1) * scaling, key[0].transpose(0, 1), value[0].transpose(0, 1))
    parts = zip(rollout_step.blocks, *(torch.split(x, rollout_step.sizes) for x in flat), strict=True)
    attended = [block.attend(q, k, v, layer, window=sliding_window) for block, q, k, v in parts]
    return torch.cat(attended).unsqueeze(0), None


AttentionInterface.register(ATTENTION_NAME, _attention)
