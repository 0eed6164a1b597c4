"""The benchmark of what down-sampling keeps of an update."""

import math

import pytest
import torch
from matplotlib.image import imread
from tests.fixtures.tiny_agents import policy_folder, task

from streakline.algorithms.logprobs import token_logprobs
from streakline.data.rows import TrainingRow
from streakline.policy.config import PolicyConfig
from streakline.policy.load import load_policy
from streakline.types import Group, Message, Role, Sample, Termination, Trajectory, Turn


def _trajectory(reward):
    return Trajectory(
        task_id="test/a",
        samples=(Sample(token_ids=(1, 2, 9), loss_mask=(False, True, True)),),
        turns=(Turn(sample=0, start=1, end=3, message=Message(role=Role.ASSISTANT)),),
        termination=Termination.ANSWER,
        terminator_id=9,
        reward=reward,
    )


def test_with_gradients_at_right_angles_quality_is_that_of_a_worked_example(load_tool):
    bench = load_tool("bench/down_sampling")
    rewards = (0.0, 0.0, 1.0, 1.0)
    group = Group(task=task("a"), trajectories=tuple(map(_trajectory, rewards)), all_rewards=rewards)
    places = {id(item.samples[0]): index for index, item in enumerate(group.trajectories)}
    products = torch.eye(4, dtype=torch.float64)

    found = bench.compare([group], products, places=places, num_kept=2, draws=500)

    by_rule = {(one.rule, one.statistics): one for one in found}
    whole, largest = by_rule["none", "kept"], by_rule["max_variance", "all"]
    assert (whole.variance_kept, whole.token_share) == (1.0, 1.0)
    assert (whole.cosine, whole.bias) == pytest.approx((1.0, 0.0), abs=1e-6)
    # Weights (-1, -1, 1, 1) and (-1, 0, 0, 1), but for a factor: cosine 2 / sqrt(4 * 2).
    assert (largest.variance_kept, largest.token_share) == (1.0, 0.5)
    assert largest.cosine == pytest.approx(math.sqrt(0.5))
    assert largest.bias == pytest.approx(math.sqrt(2 - 2 * math.sqrt(0.5)))
    # Two of four at random: both wrong, both right or one of each, with a cosine of sqrt(.5) in any case.
    drawn = by_rule["random", "all"]
    assert drawn.variance_kept == pytest.approx(2 / 3, abs=0.08)
    assert drawn.cosine == pytest.approx(math.sqrt(0.5))
    assert drawn.bias < 0.15


def test_inner_products_are_those_of_the_gradients(load_tool, tmp_path):
    model = load_policy(PolicyConfig(name_or_path=policy_folder(tmp_path), init="random"))
    rows = [
        TrainingRow(sample=Sample(token_ids=ids, loss_mask=(False, True, True)[: len(ids)]))
        for ids in ((5, 6, 7), (5, 8), (9, 6, 7))
    ]
    gradients = []
    for row in rows:
        model.zero_grad()
        ids, mask = torch.tensor([row.sample.token_ids]), torch.tensor([row.sample.loss_mask])
        token_logprobs(model, input_ids=ids, loss_mask=mask).logprobs.sum().backward()
        gradients.append([parameter.grad.double().clone() for parameter in model.parameters()])

    products = load_tool("bench/down_sampling").inner_products(model, rows)

    expected = [[sum(float((a * b).sum()) for a, b in zip(x, y, strict=True)) for y in gradients] for x in gradients]
    torch.testing.assert_close(products, torch.tensor(expected, dtype=torch.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_small_run_reports_every_figure(run_bench, tmp_path):
    picture = tmp_path / "quality.png"
    options = ("--tasks", 6, "--samples", 4, "--keep", 2, "--draws", 4, "--picture", picture)
    figures, printed = run_bench("down_sampling", *options)
    assert figures["shaped_groups_with_contrast"] > 0
    for rule in ("max_variance", "random", "max_reward"):
        assert -1 <= figures[f"shaped_{rule}_all_cosine"] <= 1
    assert figures["shaped_max_variance_all_variance_kept"] >= 1
    assert "| reward `shaped`: rule |" in printed
    assert imread(picture).std() > 0
