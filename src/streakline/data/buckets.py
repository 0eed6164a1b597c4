"""Batches of rows of similar length, in an order that follows from seed and epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streakline.errors import ConfigError


def bucketed_batches(
    lengths: Sequence[int],
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    pool: int = 32,
    trajectories: Sequence[int] | None = None,
) -> list[list[int]]:
    """Shuffle rows of these [N] lengths, sort them within pools of batches, cut, and shuffle the batches.

    Pools keep the padding small without always putting the same rows together. The ceil(N / batch_size) batches hold
    every row index once, in another order each epoch. Rows of one of the [N] `trajectories` stay side by side, since
    they share a prefix; None = each row has its own.

    Raises:
        ConfigError: If a size isn't positive.
    """
    for name, value in (("batch_size", batch_size), ("pool", pool)):
        if value < 1:
            raise ConfigError(f"Expected `{name}` to be at least 1, but got {value}")
    rng = np.random.default_rng([seed, epoch])
    rows_of: dict[int, list[int]] = {}
    for row, trajectory in enumerate(range(len(lengths)) if trajectories is None else trajectories):
        rows_of.setdefault(trajectory, []).append(row)
    units = list(rows_of.values())
    order = [row for index in rng.permutation(len(units)) for row in units[index]]
    longest = {row: max(lengths[other] for other in unit) for unit in units for row in unit}
    batches: list[list[int]] = []
    for start in range(0, len(order), pool * batch_size):
        pooled = order[start : start + pool * batch_size]
        if pool > 1:
            pooled.sort(key=lambda row: longest[row])
        batches.extend(pooled[first : first + batch_size] for first in range(0, len(pooled), batch_size))
    return [batches[index] for index in rng.permutation(len(batches))]
