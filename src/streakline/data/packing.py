"""How rows share forward passes: as a tree of their prefixes or padded, whichever is predicted to be faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from streakline.algorithms.prefix_tree import PrefixTree, TreeCost, build_tree, pack_by_prefix
from streakline.errors import ConfigError
from streakline.types import TrainingBatch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Rows of one forward and backward pass."""

    indices: tuple[int, ...]
    """[B] rows."""
    tree: PrefixTree | None
    """Of these rows, in this order; None = they are padded."""
    num_tokens: int
    """Tokens that the pass computes."""
    num_padded: int
    """Tokens that the same rows have where they are padded, in one pass or several."""


def micro_batches(rows: Sequence[Sequence[int]], *, max_tokens: int, cost: TreeCost | None) -> tuple[MicroBatch, ...]:
    """Split rows of token ids over micro-batches, each within a budget of computed tokens unless a row is longer.

    `cost` is that of the policy; None = it can't follow trees.

    Raises:
        ConfigError: If the budget is not positive.
    """
    if cost is None:
        return _padded(rows, range(len(rows)), max_tokens=max_tokens)
    batches: list[MicroBatch] = []
    for pack in pack_by_prefix(rows, max_tokens=max_tokens):
        padded = _padded(rows, pack, max_tokens=max_tokens)
        shapes = [(len(batch.indices), batch.num_padded // len(batch.indices)) for batch in padded]
        tree = cheaper_tree([rows[index] for index in pack], shapes=shapes, cost=cost)
        if tree is None:
            batches.extend(padded)
        else:
            total = sum(batch.num_padded for batch in padded)
            batches.append(MicroBatch(indices=tuple(pack), tree=tree, num_tokens=tree.num_tokens, num_padded=total))
    return tuple(batches)


def cheaper_tree(
    rows: Sequence[Sequence[int]], *, shapes: Sequence[tuple[int, int]], cost: TreeCost
) -> PrefixTree | None:
    """Tree of rows, unless padding them to these (rows, length) is predicted to be as fast."""
    tree = build_tree(rows)
    return tree if cost.of_tree(tree) < sum(cost.of_rows(*shape) for shape in shapes) else None


def tree_of_batch(batch: TrainingBatch, *, cost: TreeCost | None) -> PrefixTree | None:
    """Tree of a padded batch, on its device, where that is predicted to be faster."""
    if cost is None:
        return None
    lengths = batch.attention_mask.sum(1).tolist()
    rows = [row[:length] for row, length in zip(batch.input_ids.tolist(), lengths, strict=True)]
    tree = cheaper_tree(rows, shapes=[(len(rows), batch.input_ids.shape[1])], cost=cost)
    return None if tree is None else tree.to(batch.input_ids.device)


def _padded(rows: Sequence[Sequence[int]], chosen: Sequence[int], *, max_tokens: int) -> tuple[MicroBatch, ...]:
    lengths = [len(rows[index]) for index in chosen]
    packs = pack_rows(lengths, max_tokens=max_tokens)
    sizes = [len(pack) * lengths[pack[0]] for pack in packs]  # the first row of each is its longest
    return tuple(
        MicroBatch(indices=tuple(chosen[place] for place in pack), tree=None, num_tokens=size, num_padded=size)
        for pack, size in zip(packs, sizes, strict=True)
    )


def pack_rows(lengths: Sequence[int], *, max_tokens: int) -> tuple[tuple[int, ...], ...]:
    """Split rows of these [B] lengths over micro-batches of similar length, each within a budget of padded tokens.

    Gives the indices of the rows of each, longest rows first, so that a lack of memory shows at once. A row that is
    over the budget gets a micro-batch for itself.

    Raises:
        ConfigError: If the budget is not positive.

    Example:
        >>> pack_rows([3, 9, 4, 2], max_tokens=8)
        ((1,), (2, 0), (3,))
    """
    if max_tokens < 1:
        raise ConfigError(f"Expected `max_tokens` of a micro-batch to be at least 1, but got {max_tokens}")
    packed: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        # The first row of a micro-batch is its longest.
        if packed and (len(packed[-1]) + 1) * lengths[packed[-1][0]] <= max_tokens:
            packed[-1].append(index)
        else:
            packed.append([index])
    return tuple(tuple(indices) for indices in packed)
