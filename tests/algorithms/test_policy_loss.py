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


def _numpy_oracle(
    logprobs,
    old,
    advantages,
    mask,
    weights,
    low,
    high,
    reference=None,
    kl_coef=0.0,
    surrogate="ppo",
    correction=None,
    bonus=0.0,
):
    """Token by token, as the formulas are written in the papers."""
    total = 0.0
    for row, column in zip(*np.nonzero(mask), strict=True):
        if surrogate == "gspo":
            places = np.flatnonzero(mask[row])
            likelihoods = [np.exp(values[row, places].sum()) for values in (logprobs, old)]
            ratio = (likelihoods[0] / likelihoods[1]) ** (1 / len(places))
        else:
            ratio = np.exp(logprobs[row, column] - old[row, column])
        clipped = np.clip(ratio, 1 - low, 1 + high)
        objective = min(ratio * advantages[row], clipped * advantages[row])
        if surrogate == "cispo":
            objective = clipped * advantages[row] * logprobs[row, column]
        if correction is not None:
            objective *= correction[row, column]
        if reference is not None:
            difference = reference[row, column] - logprobs[row, column]
            objective -= kl_coef * (np.exp(difference) - difference - 1)
        total -= weights[row] * (objective + (bonus[row, column] if np.ndim(bonus) else bonus))
    return total


@pytest.mark.parametrize("surrogate", ["ppo", "gspo", "cispo"])
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.01, 0.08)])
def test_equals_the_formula_written_out(low, high, surrogate):
    logprobs, old, reference, advantages = _inputs()
    engine = _inputs(seed=1)[1] - _inputs(seed=1)[0] + old
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
        surrogate=surrogate,
        entropy=-2.0 * old,
        entropy_coef=0.3,
        logprobs_engine=engine,
        engine_correction="truncated",
        engine_cap=0.95,
    )

    correction = np.minimum(np.exp(old.double().numpy() - engine.double().numpy()), 0.95)
    assert MASK.numpy()[correction == 0.95].any()
    parts = [tensor.numpy().astype(np.float64) for tensor in (logprobs, old, advantages, MASK, weights, reference)]
    logprobs, old, advantages, mask, weights, reference = parts
    assert float(loss) == pytest.approx(
        _numpy_oracle(
            logprobs, old, advantages, mask, weights, low, high, reference, 0.15, surrogate, correction, -0.6 * old
        ),
        rel=1e-5,
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


@pytest.mark.parametrize("surrogate", ["ppo", "gspo", "cispo"])
def test_at_the_old_policy_the_gradient_is_the_policy_gradient_and_the_ratio_is_one(surrogate):
    logprobs, _, _, advantages = _inputs()
    logprobs.requires_grad_()

    loss, sums = policy_loss(
        logprobs,
        logprobs_old=logprobs.detach(),
        advantages=advantages,
        loss_mask=MASK,
        weights=torch.ones(2),
        surrogate=surrogate,
    )
    loss.backward()

    assert float(sums.ratio / sums.tokens) == 1.0
    torch.testing.assert_close(logprobs.grad, -advantages.unsqueeze(1) * MASK)


def test_cispo_takes_no_token_its_gradient():
    logprobs = torch.log(torch.tensor([[1.0, 9.0, 0.1]])).requires_grad_()

    loss, sums = policy_loss(
        logprobs,
        logprobs_old=torch.zeros(1, 3),
        advantages=torch.tensor([2.0]),
        loss_mask=torch.tensor([[False, True, True]]),
        weights=torch.ones(1),
        surrogate="cispo",
        clip_low=1.0,
        clip_high=3.0,
    )
    loss.backward()

    # 9 is cut to 4; 0.1 stands, since nothing is cut below.
    torch.testing.assert_close(logprobs.grad, torch.tensor([[0.0, -8.0, -0.2]]))
    assert float(sums.clipped) == 1


def test_gspo_clips_a_whole_sample_or_none_of_it():
    ratios = torch.tensor([[1.0, 4.0, 0.25], [1.0, 2.0, 1.0]])
    logprobs = ratios.log().requires_grad_()

    loss, sums = policy_loss(
        logprobs,
        logprobs_old=torch.zeros(2, 3),
        advantages=torch.ones(2),
        loss_mask=torch.tensor([[False, True, True]] * 2),
        weights=torch.ones(2),
        surrogate="gspo",
    )
    loss.backward()

    # Geometric means 1 and sqrt(2) = 1.41 > 1.2: ratios of 4 and 1/4 cancel, and the second sample loses its gradient.
    torch.testing.assert_close(logprobs.grad, torch.tensor([[0.0, -1.0, -1.0], [0.0, 0.0, 0.0]]))
    assert float(loss.detach()) == pytest.approx(-2 * 1.0 - 2 * 1.2)
    assert float(sums.clipped) == 2


@pytest.mark.parametrize("surrogate", ["ppo", "gspo", "cispo"])
def test_masked_columns_are_never_looked_at(surrogate):
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
            surrogate=surrogate,
            logprobs_engine=old - 0.1,
            engine_correction="geometric",
        )[0]
        for values in (logprobs, broken)
    ]

    assert float(losses[0]) == float(losses[1])


@pytest.mark.parametrize(
    ("loss_name", "options"),
    [
        ("dapo", {}),
        ("grpo", {}),
        ("dr_grpo", {}),
        ("grpo", {"surrogate": "gspo", "clip_low": 0.05, "clip_high": 0.05}),
        ("dapo", {"surrogate": "cispo"}),
        ("dapo", {"engine_correction": "truncated", "engine_cap": 1.1}),
        ("grpo", {"engine_correction": "geometric", "engine_cap": 1.01, "surrogate": "gspo"}),
    ],
)
@pytest.mark.parametrize("split", [[[3], [1, 0], [2]], [[0], [1], [2], [3]]])
def test_the_gradient_does_not_depend_on_how_rows_are_split(loss_name, options, split):
    logprobs, old, reference, advantages = _inputs(rows=4, columns=6)
    mask = torch.rand(4, 6, generator=torch.Generator().manual_seed(3)) > 0.4
    counts = mask.sum(1)
    # The last two rows are samples of one trajectory, as under the history `split`.
    tokens = [int(counts[0]), int(counts[1]), *[int(counts[2:].sum())] * 2]
    totals = StepTotals(tokens=int(counts.sum()), trajectories=3)
    weights = token_weights(tokens, loss=loss_name, totals=totals, token_budget=10)
    engine = old + 0.2 * (torch.rand(4, 6, generator=torch.Generator().manual_seed(4)) - 0.5)

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
                logprobs_engine=engine[rows],
                **options,
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
