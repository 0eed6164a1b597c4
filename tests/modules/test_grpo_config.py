import pytest

from streakline.errors import ConfigError
from streakline.modules.grpo_config import GRPOConfig


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("group_size", 1),
        ("updates_per_rollout", 0),
        ("clip_low", 0.0),
        ("clip_low", 1.5),
        ("clip_high", -0.1),
        ("engine_cap", 0.5),
        ("kl_coef", -1.0),
        ("entropy_coef", -0.1),
        ("max_grad_norm", -1.0),
        ("micro_batch_tokens", 0),
        ("token_budget", 0),
        ("zero_variance_tol", -1e-9),
    ],
)
def test_a_value_out_of_range_is_named_with_its_option(option, value):
    with pytest.raises(ConfigError, match=rf"Expected `grpo\.{option}` to be .*, but got {value}"):
        GRPOConfig(**{option: value})
