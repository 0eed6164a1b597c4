"""How far raters of the same answers agree: Cohen's kappa of two, Krippendorff's alpha of any number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from streakline.rewards.judge.base import MAX_SCORE
from streakline.rewards.judge.extras import require


def krippendorff_alpha(ratings: Sequence[Sequence[float | None]]) -> float | None:
    """Alpha for ordinal ratings, [raters][answers]; None as a rating = not rated, None in return = can't be said.

    It can't where no answer has two ratings, or all ratings are the same.

    Example:
        >>> krippendorff_alpha([[0, 1, 5, None], [0, 1, 5, 3]])
        1.0
    """
    table = np.array([[np.nan if one is None else one for one in row] for row in ratings], dtype=np.float64)
    paired = table[:, (~np.isnan(table)).sum(axis=0) >= 2]
    if len(np.unique(paired[~np.isnan(paired)])) < 2:
        return None
    return float(require("krippendorff").alpha(reliability_data=paired, level_of_measurement="ordinal"))


def cohen_kappa(
    first: Sequence[int], second: Sequence[int], *, weights: Literal["quadratic"] | None = None
) -> float | None:
    """Kappa of two raters over [n] scores of 0 ... 5; None = both gave one score throughout, so it can't be said.

    With `weights` a difference counts by its square.
    """
    if len({*first, *second}) < 2:
        return None
    metrics = require("sklearn.metrics")
    return float(metrics.cohen_kappa_score(first, second, weights=weights, labels=list(range(MAX_SCORE + 1))))
