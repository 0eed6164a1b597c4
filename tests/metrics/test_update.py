import math

import pytest
import torch

from streakline.algorithms.policy_loss import policy_loss
from streakline.metrics.update import NO_UPDATE, UpdateMetrics

MASK = torch.tensor([[False, True, True], [False, False, True]])
ENGINE = torch.tensor([[0.0, -0.5, 0.1], [0.0, 0.0, -0.5]])


def _update(metrics, rows, gap=0.0, **options):
    logprobs = torch.log(torch.tensor([[1.0, 1.5, 0.5], [1.0, 1.0, 1.0]])) * MASK
    loss, sums = policy_loss(
        logprobs[rows],
        logprobs_old=torch.zeros(len(rows), 3),
        advantages=torch.ones(len(rows)),
        loss_mask=MASK[rows],
        weights=torch.full((len(rows),), 1 / 3),
        logprobs_engine=ENGINE[rows],
        **options,
    )
    engine = (logprobs - gap) * MASK
    metrics.update(
        loss=loss, sums=sums, entropy=2.0 * MASK[rows], logprobs=logprobs[rows], logprobs_engine=engine[rows]
    )


@pytest.mark.parametrize("split", [[[0, 1]], [[0], [1]]])
def test_means_over_trained_tokens_do_not_depend_on_micro_batches(split):
    metrics = UpdateMetrics()
    for rows in split:
        _update(metrics, rows, gap=0.25)

    values = metrics.compute()

    assert values["trained_tokens"] == 3
    assert values["ratio"] == pytest.approx(1.0)
    assert values["clipped"] == pytest.approx(1 / 3)
    assert values["entropy"] == pytest.approx(2.0)
    assert values["engine_gap"] == values["engine_gap_max"] == pytest.approx(0.25)
    assert values["loss"] == pytest.approx(-(1.2 + 0.5 + 1.0) / 3)


def test_reset_forgets():
    metrics = UpdateMetrics()
    _update(metrics, [0, 1], gap=0.25)
    metrics.reset()
    _update(metrics, [0])

    assert metrics.compute()["engine_gap_max"] == 0.0
    assert metrics.compute()["trained_tokens"] == 2


@pytest.mark.parametrize("split", [[[0, 1]], [[0], [1]]])
def test_the_share_that_kept_its_ratio_is_given_by_length(split):
    metrics = UpdateMetrics()
    for rows in split:
        _update(metrics, rows, engine_correction="truncated", engine_cap=1.5)
    metrics.skip()

    values = metrics.compute()

    # Ratios exp(.5), exp(-.1), exp(.5): two of three are cut.
    assert values["engine_kept"] == values["engine_kept/below_512"] == pytest.approx(1 / 3)
    assert math.isnan(values["engine_kept/below_2048"])
    assert math.isnan(values["engine_kept/from_2048"])
    assert NO_UPDATE.keys() == values.keys()
