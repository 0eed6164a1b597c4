"""Draws against probabilities computed by hand, and truncation against a plain loop."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from streakline.rollout.draw import draw_tokens, uniforms
from streakline.rollout.sampling import SamplingPolicy

LOGITS = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()


def draw(logits: torch.Tensor, numbers: list[float], may_stop: bool = True, **options):
    rows = logits.expand(len(numbers), -1)
    return draw_tokens(
        rows, numbers, sampling=SamplingPolicy(**options), terminator_ids=[3], may_stop=[may_stop] * len(numbers)
    )


def test_the_inverse_of_the_cumulative_distribution():
    tokens, logprobs = draw(LOGITS, [0.0, 0.09, 0.11, 0.29, 0.31, 0.59, 0.61, 0.999999])
    assert tokens == [0, 0, 1, 1, 2, 2, 3, 3]
    np.testing.assert_allclose(np.exp(logprobs), [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4], rtol=1e-6)


def test_temperature_sharpens_and_is_in_the_log_probability():
    _, (logprob,) = draw(LOGITS, [0.99], temperature=0.5)
    assert np.exp(logprob) == pytest.approx(0.16 / 0.30, rel=1e-6)


def test_greedy_takes_the_likeliest_and_reports_at_temperature_one():
    tokens, (logprob,) = draw(LOGITS, [0.0], greedy=True, temperature=0.5)
    assert tokens == [3]
    assert np.exp(logprob) == pytest.approx(0.4, rel=1e-6)


def test_terminators_are_barred_and_the_rest_renormalised():
    tokens, (logprob,) = draw(LOGITS, [0.999], may_stop=False)
    assert tokens == [2]
    assert np.exp(logprob) == pytest.approx(0.5, rel=1e-6)


def test_barring_is_by_row():
    tokens, _ = draw_tokens(
        LOGITS.expand(2, -1), [0.9, 0.9], sampling=SamplingPolicy(), terminator_ids=[3], may_stop=[False, True]
    )
    assert tokens == [2, 3]


@pytest.mark.parametrize(
    ("options", "kept"), [({"top_k": 2}, {2, 3}), ({"top_p": 0.7}, {2, 3}), ({"top_p": 0.71}, {1, 2, 3})]
)
def test_truncation_keeps_the_likeliest(options, kept):
    numbers = np.linspace(0, 0.999, 100).tolist()
    tokens, logprobs = draw(LOGITS, numbers, **options)
    assert set(tokens) == kept
    mass = sum((0.1, 0.2, 0.3, 0.4)[token] for token in kept)
    np.testing.assert_allclose(np.exp(logprobs), [(0.1, 0.2, 0.3, 0.4)[token] / mass for token in tokens], rtol=1e-5)


def test_nothing_impossible_is_ever_drawn():
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf])
    tokens, _ = draw(logits, [0.0, 0.25, 0.5, 1 - 2**-53])
    assert tokens == [1, 1, 3, 3]


def test_a_distribution_that_is_not_finite_is_reported_by_its_log_probability():
    _, logprobs = draw_tokens(
        torch.stack((LOGITS, LOGITS * torch.nan)), [0.5, 0.5], sampling=SamplingPolicy(), terminator_ids=[3],
        may_stop=[True, True],
    )  # fmt: skip
    assert np.isfinite(logprobs[0])
    assert np.isnan(logprobs[1])


def test_a_large_vocabulary_is_drawn_from_in_proportion():
    logits = torch.zeros(150_000)
    tokens, _ = draw(logits, [0.5, 0.99999])
    assert tokens == [75_000, 149_998]


@given(st.integers(0, 2**63 - 1), st.integers(1, 50))
def test_uniforms_are_a_stream_of_their_seed(seed, count):
    drawn = uniforms(seed, count)
    assert drawn == uniforms(seed, count + 7)[:count]
    assert all(0 <= number < 1 for number in drawn)
    assert drawn != uniforms(seed ^ 1, count)
