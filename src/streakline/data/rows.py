"""Token rows: what a loss sees of a trajectory, and which rows share a batch or a forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streakline.errors import ConfigError, RecordError
from streakline.types import Sample, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """One sample with at least one trained token, and what its trajectory earned."""

    sample: Sample
    """Tokens, mask and engine log-probabilities."""
    advantage: float = 0.0
    """Advantage of the trajectory; 0 for a demonstration."""
    trajectory_index: int = 0
    """Which trajectory it belongs to; several rows share one under history `split`."""
    num_barred: int = 0
    """Leading trained tokens in whose place no terminator could be drawn."""

    def __post_init__(self) -> None:
        """Check that it trains something, and nothing that no token predicts."""
        if not any(self.sample.loss_mask) or self.sample.loss_mask[0]:
            raise RecordError("Expected a training row to train a token behind the first, but got none, or the first")

    @property
    def num_trained_tokens(self) -> int:
        """Tokens in the loss."""
        return sum(self.sample.loss_mask)


def rows_of(
    trajectories: Sequence[Trajectory], advantages: Sequence[float], *, min_new_tokens: int = 0
) -> tuple[TrainingRow, ...]:
    """Flatten trajectories to rows; samples without a trained token (a truncated turn alone) are left out.

    `trajectory_index` counts in the order of the trajectories. `min_new_tokens` is that of the sampling: it barred the
    terminator from the first turn, which opens the first sample, and is shorter only where nothing follows it.
    """
    return tuple(
        TrainingRow(
            sample=sample,
            advantage=advantage,
            trajectory_index=index,
            num_barred=0 if number else min_new_tokens,
        )
        for index, (trajectory, advantage) in enumerate(zip(trajectories, advantages, strict=True))
        for number, sample in enumerate(trajectory.samples)
        if any(sample.loss_mask)
    )


def bucketed_batches(
    rows: Sequence[TrainingRow], *, batch_size: int, seed: int, epoch: int, pool: int = 32
) -> list[list[int]]:
    """Shuffle rows, sort them by length within pools of batches, cut, and shuffle the batches; gives row indices.

    Pools keep the padding small without always putting the same rows together. The ceil(N / batch_size) batches of N
    rows hold each once, in an order that follows from seed and epoch. Rows of a trajectory stay side by side, since
    they share a prefix.
    """
    rng = np.random.default_rng([seed, epoch])
    rows_of: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        rows_of.setdefault(row.trajectory_index, []).append(index)
    units = list(rows_of.values())
    order = [index for unit in rng.permutation(len(units)) for index in units[unit]]
    longest = {index: max(len(rows[other].sample.token_ids) for other in unit) for unit in units for index in unit}
    batches: list[list[int]] = []
    for start in range(0, len(order), pool * batch_size):
        pooled = order[start : start + pool * batch_size]
        if pool > 1:
            pooled.sort(key=lambda index: longest[index])
        batches.extend(pooled[first : first + batch_size] for first in range(0, len(pooled), batch_size))
    return [batches[index] for index in rng.permutation(len(batches))]


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
