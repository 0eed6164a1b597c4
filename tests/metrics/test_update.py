import pytest
import torch

from streakline.algorithms.policy_loss import policy_loss
from streakline.metrics.update import UpdateMetrics

MASK = torch.tensor([[False, True, True], [False, False, True]])


def _update(metrics, rows, gap=0.0):
    logprobs = torch.log(torch.tensor([[1.0, 1.5, 0.5], [1.0, 1.0, 1.0]])) * MASK
    loss, sums = policy_loss(
        logprobs[rows],
        logprobs_old=torch.zeros(len(rows), 3),
        advantages=torch.ones(len(rows)),
        loss_mask=MASK[rows],
        weights=torch.full((len(rows),), 1 / 3),
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
