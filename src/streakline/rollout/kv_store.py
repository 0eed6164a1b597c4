"""Keys and values of a rollout: growable tensors in which every row keeps its own length.

A prompt that several rows share is a *trunk*, stored once. What a row sampled, and what was injected into it, is its
*tail*. A row attends to the first `prefix_length` positions of its trunk, then to its tail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch

_LEAST_CAPACITY = 64  # Below it, growing costs more than the memory is worth.


@final
class KVSlab:
    """Keys and values of one layer: [slots, kv_heads, capacity, head_dim] each, grown by doubling."""

    def __init__(self) -> None:
        # Replaced at the first `write`; an empty tensor spares every reader a check for None.
        self._keys = torch.empty(0, 0, 0, 0)
        self._values = torch.empty(0, 0, 0, 0)

    def write(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        *,
        slots: torch.Tensor,
        positions: torch.Tensor,
        size: tuple[int, int],
    ) -> None:
        """Store the keys [N, kv_heads, head_dim] and values [N, kv_heads, value_dim] of N tokens.

        `slots` [N] int64 holds the slot of each token, `positions` [N] int64 its position there. Room is made for
        `size` = (slots, positions of each); type and shape are those of what is written.
        """
        self._reserve(keys, values, *size)
        _, heads, capacity, _ = self._keys.shape
        # One flat row copy: indexing two dimensions around a slice is an order of magnitude slower on CPU.
        lane = slots[:, None] * heads + torch.arange(heads, device=slots.device)
        index = (lane * capacity + positions[:, None]).flatten()
        for target, source in ((self._keys, keys), (self._values, values)):
            width = target.shape[-1]
            target.view(-1, width).index_copy_(0, index, source.reshape(-1, width).to(target.dtype))

    def move(self, moves: Mapping[int, int], *, length: int) -> None:
        """Copy the first `length` positions of slots to other slots, by source; the two are disjoint."""
        sources, targets = list(moves), list(moves.values())
        self._keys[targets, :, :length] = self._keys[sources, :, :length]
        self._values[targets, :, :length] = self._values[sources, :, :length]

    def leading(self, slots: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """View the first slots: keys [slots, kv_heads, length, head_dim], and values likewise."""
        return self._keys[:slots, :, :length], self._values[:slots, :, :length]

    def gather(self, slots: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy some slots: keys [n, kv_heads, length, head_dim], and values likewise."""
        return self._keys[:, :, :length][slots], self._values[:, :, :length][slots]

    def _reserve(self, keys: torch.Tensor, values: torch.Tensor, slots: int, capacity: int) -> None:
        if slots > self._keys.shape[0] or capacity > self._keys.shape[2]:
            slots = _grown(self._keys.shape[0], slots)
            capacity = _grown(self._keys.shape[2], max(capacity, _LEAST_CAPACITY))
            self._keys = _enlarged(self._keys, like=keys, slots=slots, capacity=capacity)
            self._values = _enlarged(self._values, like=values, slots=slots, capacity=capacity)


@final
class LayerStore:
    """What one attention layer has seen."""

    def __init__(self) -> None:
        self.trunks = KVSlab()
        self.tails = KVSlab()


def _grown(current: int, wanted: int) -> int:
    return current if wanted <= current else max(wanted, 2 * current)


def _enlarged(old: torch.Tensor, *, like: torch.Tensor, slots: int, capacity: int) -> torch.Tensor:
    # Zeros, not garbage: a masked position is multiplied by weight 0, and 0 times a stray nan is nan.
    new = like.new_zeros(slots, like.shape[1], capacity, like.shape[2])
    if old.numel():
        new[: old.shape[0], :, : old.shape[2]] = old
    return new
