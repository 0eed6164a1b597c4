import numpy as np
import pytest
import torch

from streakline.algorithms.engine_correction import count_by_length, engine_weights

MASK = torch.tensor([[False, True, True, True], [False, True, False, True]])


def _logprobs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    old = -torch.rand(2, 4, generator=generator, dtype=torch.float64)
    return old, old + 0.6 * (torch.rand(2, 4, generator=generator, dtype=torch.float64) - 0.5)


def test_truncated_weights_equal_their_definition():
    old, engine = _logprobs()
    weights, kept = engine_weights(old, logprobs_engine=engine, loss_mask=MASK, correction="truncated", cap=1.05)

    ratio = np.exp(old.numpy() - engine.numpy())
    np.testing.assert_allclose(weights.numpy()[MASK], np.minimum(ratio, 1.05)[MASK])
    assert kept.tolist() == ((ratio <= 1.05) & MASK.numpy()).tolist()
    assert 0 < int(kept.sum()) < int(MASK.sum())


def test_geometric_weights_equal_their_definition_and_drop_whole_samples():
    old, engine = _logprobs()
    means = [np.prod(np.exp((old - engine).numpy()[row][MASK[row]])) ** (1 / int(MASK[row].sum())) for row in (0, 1)]
    cap = sum(means) / 2
    weights, kept = engine_weights(old, logprobs_engine=engine, loss_mask=MASK, correction="geometric", cap=cap)

    for row, mean in enumerate(means):
        np.testing.assert_allclose(weights[row][MASK[row]], mean if mean <= cap else 0.0)
        assert kept[row].tolist() == (MASK[row] & bool(mean <= cap)).tolist()
    assert kept.any(1).tolist() in ([True, False], [False, True])


@pytest.mark.parametrize("length", [3000, 4000, 40_000])
def test_a_small_drift_drops_no_sample_however_long(length):
    # The product over 3,000 and 4,000 tokens of exp(3e-4) is 2.46 and 3.32: a cap of 3 would drop the longer.
    old = torch.full((1, length), 3e-4, dtype=torch.float64)
    mask = torch.ones(1, length, dtype=torch.bool)
    weights, kept = engine_weights(
        old, logprobs_engine=torch.zeros_like(old), loss_mask=mask, correction="geometric", cap=1.01
    )

    assert float(old.sum().exp()) == pytest.approx(np.exp(3e-4 * length))
    assert weights.unique().tolist() == pytest.approx([1.0003], abs=1e-6)
    assert bool(kept.all())


def test_without_a_correction_everything_weighs_one():
    old, engine = _logprobs()
    weights, kept = engine_weights(old, logprobs_engine=engine, loss_mask=MASK, correction="none", cap=1e-9)

    assert torch.equal(weights, torch.ones(2, 4, dtype=torch.float64))
    assert torch.equal(kept, MASK)


def test_weights_carry_no_gradient():
    old, engine = _logprobs()
    weights, _ = engine_weights(
        old.requires_grad_(), logprobs_engine=engine, loss_mask=MASK, correction="truncated", cap=2.0
    )

    assert not weights.requires_grad


def test_tokens_are_counted_by_the_length_of_their_sample():
    lengths = (3, 511, 512, 2048, 3000)
    mask = torch.arange(3000) < torch.tensor(lengths).unsqueeze(1)
    kept = mask.clone()
    kept[1, :11] = False
    kept[4] = False

    counts = count_by_length(kept, loss_mask=mask)

    assert counts.tolist() == [[503, 514], [512, 512], [2048, 5048]]
