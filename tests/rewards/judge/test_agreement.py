"""Agreement of raters, against published values and formulas written out."""

import numpy as np
import pytest

from streakline.rewards.judge.agreement import cohen_kappa, krippendorff_alpha

# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", example C: four observers, ordinal alpha 0.815.
EXAMPLE_C = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def test_alpha_is_the_published_one():
    assert krippendorff_alpha(EXAMPLE_C) == pytest.approx(0.815, abs=5e-4)


def test_alpha_can_not_be_said_without_pairs_or_variation():
    assert krippendorff_alpha([[1, None], [None, 2]]) is None
    assert krippendorff_alpha([[3, 3], [3, 3]]) is None
    assert krippendorff_alpha([[1, 2], [1, 2]]) == 1.0


def weighted_kappa(first, second, weights):
    observed = np.zeros((6, 6))
    for row, column in zip(first, second, strict=True):
        observed[row, column] += 1
    observed /= observed.sum()
    expected = np.outer(observed.sum(1), observed.sum(0))
    return 1 - (weights * observed).sum() / (weights * expected).sum()


def test_kappa_is_that_of_its_formula():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 6, 50).tolist()
    second = [min(5, max(0, score + int(step))) for score, step in zip(first, rng.integers(-1, 2, 50), strict=True)]
    gap = np.subtract.outer(np.arange(6), np.arange(6))

    assert cohen_kappa(first, second) == pytest.approx(weighted_kappa(first, second, gap != 0))
    assert cohen_kappa(first, second, weights="quadratic") == pytest.approx(weighted_kappa(first, second, gap**2))


def test_kappa_can_not_be_said_without_variation():
    assert cohen_kappa([3, 3], [3, 3]) is None
    assert cohen_kappa([1, 2], [1, 2]) == 1.0
