from dataclasses import fields, replace

import pytest

from streakline.errors import ConfigError
from streakline.rollout.sampling import SamplingPolicy

CHANGED = {
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 5,
    "greedy": True,
    "max_new_tokens": 64,
    "min_new_tokens": 2,
    "max_tokens": 99,
}


@pytest.mark.parametrize("option", [field.name for field in fields(SamplingPolicy)])
def test_every_option_changes_the_digest(option):
    policy = SamplingPolicy()
    assert policy.digest() == SamplingPolicy().digest()
    assert replace(policy, **{option: CHANGED[option]}).digest() != policy.digest()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("temperature", 0.0),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("max_new_tokens", 0),
        ("max_tokens", 0),
        ("min_new_tokens", 129),
    ],
)
def test_options_outside_their_range_are_refused(option, value):
    with pytest.raises(ConfigError, match=f"Expected `{option}` to be .*, but got {value}"):
        SamplingPolicy(**{option: value})


@pytest.mark.parametrize("biased", [{"top_p": 0.9}, {"top_k": 5}, {"greedy": True}])
def test_what_biases_an_importance_ratio_is_refused_for_training(biased):
    with pytest.raises(ConfigError, match=f"Expected `{next(iter(biased))}` to be .* for training rollouts"):
        SamplingPolicy(**biased).require_unbiased()


def test_what_the_update_takes_into_account_is_no_bias():
    SamplingPolicy(temperature=0.7, min_new_tokens=5).require_unbiased()
