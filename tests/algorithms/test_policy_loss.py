import numpy as np
import pytest
import torch

from streakline.algorithms.normaliser import StepTotals, token_weights
from streakline.algorithms.policy_loss import kl_divergence, policy_loss

MASK = torch.tensor([[False, True, True, False], [False, False, True, True]])


def _inputs(seed=0, rows=2, columns=4):
    generator = torch.Generator().manual_seed(seed)
    logprobs = -torch.rand(rows, columns, generator=generator)
    old = logprobs + 0.6 * (torch.rand(rows, columns, generator=generator) - 0.5)
    reference = -torch.rand(rows, columns, generator=generator)
    return logprobs, old, reference, torch.randn(rows, generator=generator)


def _numpy_oracle(logprobs, old, advantages, mask, weights, low, high, reference=None, kl_coef=0.0):
    """Token by token, as the formula is written in the paper."""
    total = 0.0
    for row, column in zip(*np.nonzero(mask), strict=True):
        ratio = np.exp(logprobs[row, column] - old[row, column])
        clipped = np.clip(ratio, 1 - low, 1 + high)
        objective = min(ratio * advantages[row], clipped * advantages[row])
        if reference is not None:
            difference = reference[row, column] - logprobs[row, column]
            objective -= kl_coef * (np.exp(difference) - difference - 1)
        total -= weights[row] * objective
    return total


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.1, 0.28)])
def test_equals_the_formula_written_out(low, high):
    logprobs, old, reference, advantages = _inputs()
    weights = torch.tensor([0.25, 0.5])

    loss, _ = policy_loss(
        logprobs,
        logprobs_old=old,
        advantages=advantages,
        loss_mask=MASK,
        weights=weights,
        clip_low=low,
        clip_high=high,
        logprobs_reference=reference,
        kl_coef=0.15,
    )

    parts = [tensor.numpy().astype(np.float64) for tensor in (logprobs, old, advantages, MASK, weights, reference)]
    logprobs, old, advantages, mask, weights, reference = parts
    assert float(loss) == pytest.approx(
        _numpy_oracle(logprobs, old, advantages, mask, weights, low, high, reference, 0.15), rel=1e-5
    )


def test_equals_trl_on_a_worked_example():
    # TRL's loss_type="dapo" at 1.16: sum over completion tokens of -min(r A, clip(r) A), divided by their number. By
    # hand: ratios [1.5, 0.5], advantages +1: min(1.5, 1.2) = 1.2 and min(0.5, 0.8) = 0.5; loss -(1.2 + 0.5) / 2.
    old = torch.zeros(1, 3)
    logprobs = torch.log(torch.tensor([[1.0, 1.5, 0.5]]))
    weights = token_weights([2], loss="dapo", totals=StepTotals(tokens=2, trajectories=1), token_budget=1)

    loss, sums = policy_loss(
        logprobs,
        logprobs_old=old,
        advantages=torch.ones(1),
        loss_mask=torch.tensor([[False, True, True]]),
        weights=weights,
    )

    assert float(loss) == pytest.approx(-0.85)
    assert float(sums.ratio) == pytest.approx(2.0)
    assert float(sums.clipped) == 1


@pytest.mark.parametrize(
    ("ratio", "advantage", "is_cut"), [(1.5, 1.0, True), (1.5, -1.0, False), (0.5, -1.0, True), (0.5, 1.0, False)]
)
def test_clipping_cuts_the_gradient_only_where_the_step_would_go_on_in_the_same_direction(ratio, advantage, is_cut):
    logprobs = torch.log(torch.tensor([[1.0, ratio]])).requires_grad_()

    loss, sums = policy_loss(
        logprobs,
        logprobs_old=torch.zeros(1, 2),
        advantages=torch.tensor([advantage]),
        loss_mask=torch.tensor([[False, True]]),
        weights=torch.ones(1),
    )
    loss.backward()

    assert bool(sums.clipped) is is_cut
    assert (float(logprobs.grad[0, 1]) == 0.0) is is_cut


def test_at_the_old_policy_the_gradient_is_the_policy_gradient_and_the_ratio_is_one():
    logprobs, _, _, advantages = _inputs()
    logprobs.requires_grad_()

    loss, sums = policy_loss(
        logprobs, logprobs_old=logprobs.detach(), advantages=advantages, loss_mask=MASK, weights=torch.ones(2)
    )
    loss.backward()

    assert float(sums.ratio / sums.tokens) == 1.0
    torch.testing.assert_close(logprobs.grad, -advantages.unsqueeze(1) * MASK)


def test_masked_columns_are_never_looked_at():
    logprobs, old, reference, advantages = _inputs()
    broken = torch.where(MASK, logprobs, torch.tensor(1e4))

    losses = [
        policy_loss(
            values,
            logprobs_old=old,
            advantages=advantages,
            loss_mask=MASK,
            weights=torch.ones(2),
            logprobs_reference=reference,
            kl_coef=0.1,
        )[0]
        for values in (logprobs, broken)
    ]

    assert float(losses[0]) == float(losses[1])


@pytest.mark.parametrize("loss_name", ["dapo", "grpo", "dr_grpo"])
@pytest.mark.parametrize("split", [[[0, 1, 2, 3]], [[3], [1, 0], [2]], [[0], [1], [2], [3]]])
def test_the_gradient_does_not_depend_on_how_rows_are_split(loss_name, split):
    logprobs, old, reference, advantages = _inputs(rows=4, columns=6)
    mask = torch.rand(4, 6, generator=torch.Generator().manual_seed(3)) > 0.4
    tokens = mask.sum(1).tolist()
    totals = StepTotals(tokens=sum(tokens), trajectories=4)
    weights = token_weights(tokens, loss=loss_name, totals=totals, token_budget=10)

    def gradient(parts):
        leaf = logprobs.clone().requires_grad_()
        for rows in parts:
            loss, _ = policy_loss(
                leaf[rows],
                logprobs_old=old[rows],
                advantages=advantages[rows],
                loss_mask=mask[rows],
                weights=weights[rows],
                logprobs_reference=reference[rows],
                kl_coef=0.1,
            )
            loss.backward()
        return leaf.grad

    torch.testing.assert_close(gradient(split), gradient([[0, 1, 2, 3]]))


def test_a_masked_sample_leaves_the_denominator_too():
    # Two samples of 100 tokens, one masked: the mean is over 100 tokens, not 200.
    weights = token_weights([100], loss="dapo", totals=StepTotals(tokens=100, trajectories=1), token_budget=1)

    loss, _ = policy_loss(
        torch.zeros(1, 101),
        logprobs_old=torch.zeros(1, 101),
        advantages=torch.ones(1),
        loss_mask=torch.arange(101).gt(0).unsqueeze(0),
        weights=weights,
    )

    assert float(loss) == pytest.approx(-1.0)


def test_grpo_averages_each_trajectory_first_over_all_its_rows():
    # Trajectory 0 has two rows of 1 and 3 tokens, trajectory 1 one row of 2.
    totals = StepTotals(tokens=6, trajectories=2)

    weights = token_weights([4, 4, 2], loss="grpo", totals=totals, token_budget=1)

    assert weights.tolist() == [1 / 8, 1 / 8, 1 / 4]


def test_dr_grpo_divides_by_a_constant():
    totals = StepTotals(tokens=6, trajectories=2)

    assert token_weights([4, 2], loss="dr_grpo", totals=totals, token_budget=100).tolist() == [1 / 200, 1 / 200]


def test_kl_estimators_equal_their_definitions():
    logprobs, reference = torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0])
    difference = np.array([-0.5, 1.0])

    for estimator, expected in (
        ("k1", -difference),
        ("k2", difference**2 / 2),
        ("k3", np.exp(difference) - 1 - difference),
    ):
        estimate = kl_divergence(logprobs, logprobs_reference=reference, estimator=estimator)
        np.testing.assert_allclose(estimate.numpy(), expected, rtol=1e-6)


def test_k3_has_the_mean_of_the_true_divergence():
    probabilities = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    reference = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    truth = float((probabilities * (probabilities / reference).log()).sum())

    estimate = kl_divergence(probabilities.log(), logprobs_reference=reference.log(), estimator="k3")

    assert float((probabilities * estimate).sum()) == pytest.approx(truth)
