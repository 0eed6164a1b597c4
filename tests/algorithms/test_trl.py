"""The loss against values that TRL computed (`tools/trl_reference.py`); TRL itself is not needed here."""

import json
from pathlib import Path

import pytest
import torch

from streakline.algorithms.normaliser import StepTotals, token_weights
from streakline.algorithms.policy_loss import policy_loss

REFERENCE = json.loads(Path(__file__).with_name("trl_reference.json").read_text())
INPUTS = {name: torch.tensor(values) for name, values in REFERENCE["inputs"].items()}
FLOATS = {name: torch.tensor(values, dtype=torch.float64) for name, values in REFERENCE["inputs"].items()}
MASK = (INPUTS["completion_mask"] * INPUTS["tool_mask"]).bool()
WHOLE, PAIRS, SINGLE_ROWS = [[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1], [2], [3]]
WITH_AN_EMPTY_ROW = [[0, 1, 2, 3, 4]]
# What TRL's losses are called here: the normaliser, and options of the loss.
NORMALISER = {"gspo": "grpo", "cispo": "dapo", "truncated": "dapo", "entropy": "dapo"}
OPTIONS = {
    "gspo": {
        "surrogate": "gspo",
        "clip_low": REFERENCE["gspo_clip_low"],
        "clip_high": REFERENCE["gspo_clip_high"],
    },
    "cispo": {"surrogate": "cispo", "clip_low": 1.0},
    "entropy": {"entropy": FLOATS["entropy"], "entropy_coef": REFERENCE["entropy_coef"]},
    "truncated": {
        "logprobs_engine": FLOATS["logprobs_engine"],
        "engine_correction": "truncated",
        "engine_cap": REFERENCE["engine_cap"],
    },
}


def _trl(loss, kl_coef, split):
    (case,) = [c for c in REFERENCE["cases"] if (c["loss"], c["kl_coef"], c["split"]) == (loss, kl_coef, split)]
    return case["value"], torch.tensor(case["gradient"], dtype=torch.float64)


def _streakline(loss, kl_coef, split):
    """One optimiser step, summed over its micro-batches, and its gradient by log-probability."""
    rows = [row for part in split for row in part]
    counts = MASK.sum(1)
    weights = token_weights(
        counts.tolist(),
        loss=NORMALISER.get(loss, loss),
        # Counts of the whole step, whatever the split; a row without trained tokens is no trajectory of it.
        totals=StepTotals(tokens=float(counts[rows].sum()), trajectories=float((counts[rows] > 0).sum())),
        # TRL divides by `max_completion_length`.
        token_budget=REFERENCE["max_completion_length"],
    )
    logprobs = FLOATS["logprobs"].clone().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for part in split:
        kept = [row for row in part if counts[row]]
        options = {"clip_low": REFERENCE["clip_low"], "clip_high": REFERENCE["clip_high"]} | OPTIONS.get(loss, {})
        value, _ = policy_loss(
            logprobs[kept],
            logprobs_old=FLOATS["logprobs_old"][kept],
            advantages=FLOATS["advantages"][kept],
            loss_mask=MASK[kept],
            weights=weights[kept],
            logprobs_reference=FLOATS["logprobs_reference"][kept] if kl_coef else None,
            kl_coef=kl_coef,
            **{name: value[kept] if isinstance(value, torch.Tensor) else value for name, value in options.items()},
        )
        total = total + value
    total.backward()
    return total.item(), logprobs.grad


def _assert_equal(ours, theirs, *, factor=1.0):
    assert ours[0] == pytest.approx(factor * theirs[0], abs=1e-6)
    torch.testing.assert_close(ours[1], factor * theirs[1], atol=1e-6, rtol=0)


def test_the_reference_clips_on_both_sides_and_has_gaps_in_its_masks():
    ratio = (FLOATS["logprobs"] - FLOATS["logprobs_old"]).exp()
    positive = FLOATS["advantages"][:, None] > 0

    assert bool((MASK & positive & (ratio > 1 + REFERENCE["clip_high"])).any())
    assert bool((MASK & ~positive & (ratio < 1 - REFERENCE["clip_low"])).any())
    mean_ratio = (ratio.log() * MASK).sum(1).div(MASK.sum(1)).exp()
    assert bool((positive[:4, 0] & (mean_ratio[:4] > 1 + REFERENCE["gspo_clip_high"])).any())
    assert bool((~positive[:4, 0] & (mean_ratio[:4] < 1 - REFERENCE["gspo_clip_low"])).any())
    engine_ratio = (FLOATS["logprobs_old"] - FLOATS["logprobs_engine"]).exp()[MASK]
    assert bool((engine_ratio > REFERENCE["engine_cap"]).any() & (engine_ratio < REFERENCE["engine_cap"]).any())
    assert MASK.sum(1).tolist() == [4, 3, 4, 1, 0]
    assert INPUTS["completion_mask"].sum(1).tolist() == [6, 3, 5, 1, 0]


@pytest.mark.parametrize("split", [WHOLE, PAIRS, SINGLE_ROWS], ids=["whole", "pairs", "single_rows"])
@pytest.mark.parametrize("kl_coef", [0.0, 0.04])
@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo", "gspo", "cispo", "truncated"])
def test_loss_and_gradient_equal_trls(loss, kl_coef, split):
    # These mean the same in TRL: `dapo` and `cispo` divide by the trained tokens of the whole step, the others by the
    # number of sequences, which TRL's equally large micro-batches preserve.
    _assert_equal(_streakline(loss, kl_coef, split), _trl(loss, kl_coef, split))


@pytest.mark.parametrize("kl_coef", [0.0, 0.04])
def test_the_entropy_bonus_equals_trls_in_an_undivided_step(kl_coef):
    # TRL's is a mean over each micro-batch; here it depends on no split.
    _assert_equal(_streakline("entropy", kl_coef, WHOLE), _trl("entropy", kl_coef, WHOLE))
    assert _streakline("entropy", kl_coef, SINGLE_ROWS)[0] == pytest.approx(_streakline("entropy", kl_coef, WHOLE)[0])
    assert _trl("entropy", kl_coef, WHOLE)[0] != pytest.approx(_trl("dapo", kl_coef, WHOLE)[0], abs=0.01)


@pytest.mark.parametrize("kl_coef", [0.0, 0.04])
def test_bnpo_of_an_undivided_step_is_dapo(kl_coef):
    _assert_equal(_streakline("dapo", kl_coef, WHOLE), _trl("bnpo", kl_coef, WHOLE))


@pytest.mark.parametrize("split", [PAIRS, SINGLE_ROWS], ids=["pairs", "single_rows"])
def test_bnpo_of_a_divided_step_is_another_loss(split):
    # TRL's `bnpo` divides by the tokens of each micro-batch, so it depends on the split; nothing here does.
    assert _trl("bnpo", 0.0, split)[0] != pytest.approx(_trl("bnpo", 0.0, WHOLE)[0], abs=1e-3)
    assert _streakline("dapo", 0.0, split)[0] == pytest.approx(_streakline("dapo", 0.0, WHOLE)[0], abs=1e-12)


@pytest.mark.parametrize("kl_coef", [0.0, 0.04])
@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "gspo"])
def test_trl_counts_sequences_without_trained_tokens(loss, kl_coef):
    # A difference by definition: TRL divides by all 5 sequences, streakline by the 4 that are in the loss.
    _assert_equal(_streakline(loss, kl_coef, WITH_AN_EMPTY_ROW), _trl(loss, kl_coef, WITH_AN_EMPTY_ROW), factor=5 / 4)


@pytest.mark.parametrize("kl_coef", [0.0, 0.04])
@pytest.mark.parametrize("loss", ["dapo", "cispo", "truncated"])
def test_a_sequence_without_trained_tokens_changes_no_mean_over_tokens(loss, kl_coef):
    _assert_equal(_streakline(loss, kl_coef, WITH_AN_EMPTY_ROW), _trl(loss, kl_coef, WITH_AN_EMPTY_ROW))
