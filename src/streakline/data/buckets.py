"""Batches of rows of similar length, in an order that follows from seed and epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streakline.errors import ConfigError


def bucketed_batches(
    lengths: Sequence[int], *, batch_size: int, seed: int, epoch: int, pool: int = 32
) -> list[list[int]]:
    """Shuffle rows of these [N] lengths, sort them within pools of batches, cut, and shuffle the batches.

    Pools keep the padding small without always putting the same rows together. The ceil(N / batch_size) batches hold
    every row index once, in another order each epoch.

    Raises:
        ConfigError: If a size isn't positive.
    """
    for name, value in (("batch_size", batch_size), ("pool", pool)):
        if value < 1:
            raise ConfigError(f"Expected `{name}` to be at least 1, but got {value}")
    rng = np.random.default_rng([seed, epoch])
    order = [int(index) for index in rng.permutation(len(lengths))]
    batches: list[list[int]] = []
    for start in range(0, len(order), pool * batch_size):
        pooled = order[start : start + pool * batch_size]
        if pool > 1:
            pooled.sort(key=lambda row: lengths[row])
        batches.extend(pooled[first : first + batch_size] for first in range(0, len(pooled), batch_size))
    return [batches[index] for index in rng.permutation(len(batches))]
