"""The dense parts into which attention along a prefix tree falls, without any square mask.

*Causal blocks* are stretches seen from themselves: a shared prompt, or what a row has alone. *Bridges* are shared
stretches seen from everything below them, which depth first is one range of the packed sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int64]
"""Token ids, or packed tokens."""

_Stretch: TypeAlias = tuple[Ids, NDArray[np.bool_]]  # packed tokens, and which of them it computes

# When a shared stretch gets a bridge: what it saves (copies of its tokens in the blocks below) against what it costs, a
# kernel call and merging two results for every token below. In tokens, from times of small models on one core.
_CALL_IN_COPIES = 128
_MERGES_A_COPY = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CausalBlock:
    """Stretches that attend causally within themselves, padded to one length."""

    index: torch.Tensor
    """[U, L] int64: packed tokens of U stretches, 0 on padding. A token may be in several, as a key."""
    kept: torch.Tensor
    """[U, L] bool: where the stretch is the one that computes the token. A tree keeps every token once."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """A range of packed tokens that sees all of a stretch above it."""

    keys: torch.Tensor
    """[K] int64: packed tokens of the stretch."""
    start: int
    """First packed token that sees it."""
    end: int
    """Behind the last one."""


def attention_parts(
    paths: Sequence[Ids], *, shared: Sequence[int], offsets: Sequence[int]
) -> tuple[tuple[CausalBlock, ...], tuple[Bridge, ...]]:
    """Walk sorted rows depth first, and give every token to the stretch that computes it.

    `paths` has the packed tokens of each of B rows, `shared` [B] how many of them belong to the rows before, `offsets`
    [B + 1] where what a row adds begins in the packed sequence.
    """
    stretches: list[_Stretch] = []
    bridges: list[Bridge] = []
    num_kept = 0
    waiting = [(0, len(paths), 0)]  # rows first to last, which see the tokens above some depth by bridges
    while waiting:
        first, last, depth = waiting.pop()
        common = min(shared[first + 1 : last], default=len(paths[first]))
        children = [first, *(row for row in range(first + 1, last) if shared[row] == common)]
        stretch = paths[first][depth:common]
        num_below = offsets[last] - offsets[first] - (common - shared[first])
        if len(stretch) and (last - first == 1 or _bridge_pays(len(stretch), len(children), num_below)):
            stretches.append((stretch, stretch >= num_kept))
            num_kept = max(num_kept, int(stretch[-1]) + 1)
            depth = common
            if num_below:
                bridges.append(Bridge(keys=torch.from_numpy(stretch), start=num_kept, end=offsets[last]))
        if last - first > 1:
            ranges = zip(children, [*children[1:], last], strict=True)
            waiting.extend(reversed([(start, end, depth) for start, end in ranges]))
    return _blocks(stretches), tuple(bridges)


def _bridge_pays(length: int, num_children: int, num_below: int) -> bool:
    return length * (num_children - 1) > _CALL_IN_COPIES + num_below // _MERGES_A_COPY


def _blocks(stretches: Sequence[_Stretch]) -> tuple[CausalBlock, ...]:
    """Stretches of similar length share a block."""
    grouped: list[list[_Stretch]] = []
    for stretch in sorted(stretches, key=lambda parts: -len(parts[0])):
        # A quarter more length is half as much again to compute.
        if grouped and len(stretch[0]) >= 0.8 * len(grouped[-1][0][0]) - 8:
            grouped[-1].append(stretch)
        else:
            grouped.append([stretch])
    return tuple(_padded(group) for group in grouped)


def _padded(group: Sequence[_Stretch]) -> CausalBlock:
    index = np.zeros((len(group), len(group[0][0])), dtype=np.int64)
    kept = np.zeros(index.shape, dtype=np.bool_)
    for row, (tokens, own) in enumerate(group):
        index[row, : len(tokens)], kept[row, : len(tokens)] = tokens, own
    return CausalBlock(index=torch.from_numpy(index), kept=torch.from_numpy(kept))
