"""Which of the n trajectories of a task are worth an update: the m whose rewards differ most.

PODS (arXiv 2504.13818) keeps the subset of m rewards with the largest variance. One such subset always consists of the
i lowest and the m - i highest for some i, so that sorting and prefix sums find it in O(n log n).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch

from streakline.errors import ConfigError, RecordError

Rule: TypeAlias = Literal["none", "max_variance", "max_reward", "random"]
"""What is kept: everything; the largest variance; the highest rewards; a draw."""


def down_sample(
    rewards_P_G: Sequence[Sequence[float | None]],  # noqa: N803, the suffix names the axes
    *,
    keep: int,
    rule: Rule = "max_variance",
    identities: Sequence[str] = (),
) -> list[tuple[int, ...]]:
    """Indices, ascending, of the trajectories of each task that are kept: `keep` of the scored ones, or all if fewer.

    None = unscored, kept by the rule `none` alone. Of equal rewards later ones count as higher; of equal variances the
    subset with more of the highest rewards is taken, as in the paper's code. `identities` seed the draws of `random`,
    one a task.

    Raises:
        ConfigError: If `keep` is less than 1.
        RecordError: If a reward is nan or infinite.

    Example:
        >>> down_sample([[0, 0, 0, 1, 1, 1, 1, 1], [0, 0.9, 0.9, 1, None]], keep=4)
        [(0, 1, 6, 7), (0, 1, 2, 3)]
        >>> down_sample([[0, 0.9, 0.9, 1]], keep=3)
        [(0, 2, 3)]
    """
    if rule == "none":
        return [tuple(range(len(rewards))) for rewards in rewards_P_G]
    if keep < 1:
        raise ConfigError(f"Expected `keep` to be at least 1, but got {keep}")
    for rewards in rewards_P_G:
        if not all(reward is None or math.isfinite(reward) for reward in rewards):
            raise RecordError(f"Expected rewards to be finite or None, but got {list(rewards)}")
    if rule == "random":
        return [_draw(rewards, keep, name) for rewards, name in zip(rewards_P_G, identities, strict=True)]
    return _extremes(rewards_P_G, keep, balanced=rule == "max_variance") if rewards_P_G else []


def _draw(rewards: Sequence[float | None], keep: int, identity: str) -> tuple[int, ...]:
    scored = [index for index, reward in enumerate(rewards) if reward is not None]
    return tuple(sorted(random.Random(identity).sample(scored, min(keep, len(scored)))))


def _extremes(rewards: Sequence[Sequence[float | None]], keep: int, *, balanced: bool) -> list[tuple[int, ...]]:
    """The highest of each task, or as many lowest and highest as make the variance largest."""
    keep = min(keep, max(map(len, rewards)))
    counts = torch.tensor([[sum(reward is not None for reward in row)] for row in rewards])  # [P, 1]
    values = torch.full((len(rewards), max(map(len, rewards))), torch.inf, dtype=torch.float64)
    for index, row in enumerate(rewards):
        known = [torch.inf if reward is None else reward for reward in row]
        values[index, : len(row)] = torch.tensor(known, dtype=torch.float64)
    # Unscored ones sort behind all others; the stable sort keeps equal rewards in their order.
    ordered, order = values.sort(dim=1, stable=True)
    low = _num_lowest(ordered, counts, keep) if balanced else torch.zeros_like(counts)
    rank = torch.arange(values.shape[1])
    kept = (rank < counts) & ((rank < low) | (rank >= counts - (keep - low)))
    return [tuple(sorted(row[mask].tolist())) for row, mask in zip(order, kept, strict=True)]


def _num_lowest(ordered: torch.Tensor, counts: torch.Tensor, keep: int) -> torch.Tensor:
    """[P, 1] how many of the `keep` are the lowest; `ordered` [P, n] ascends, and has [P, 1] `counts` finite values."""
    finite = torch.where(ordered.isfinite(), ordered, 0.0)
    # Centred, so that the difference of sums below loses no digits.
    centred = torch.where(ordered.isfinite(), finite - finite.sum(1, keepdim=True) / counts.clamp(min=1), 0.0)
    low = torch.arange(keep + 1)
    first_high = (counts - (keep - low)).clamp(min=0)  # [P, m + 1]

    def over_kept(values: torch.Tensor) -> torch.Tensor:
        prefix = torch.nn.functional.pad(values.cumsum(1), (1, 0))
        return prefix[:, low] + prefix[:, -1:] - prefix.gather(1, first_high)

    variance = over_kept(centred.square()) / keep - (over_kept(centred) / keep).square()
    is_best = variance >= variance.amax(1, keepdim=True) * (1 - 1e-12)  # equal but for rounding
    return is_best.int().argmax(1, keepdim=True)
