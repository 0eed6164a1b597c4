import pytest

from streakline.errors import ConfigError
from streakline.policy.config import LoraConfig, PolicyConfig


@pytest.mark.parametrize(("field", "value"), [("r", 0), ("dropout", 1.0), ("target_modules", [])])
def test_lora_options_are_checked(field, value):
    with pytest.raises(ConfigError, match=f"lora.{field}"):
        LoraConfig(**{field: value})


def test_a_name_is_needed():
    with pytest.raises(ConfigError, match="name_or_path"):
        PolicyConfig(name_or_path="")


def test_random_weights_need_no_weight_file():
    with pytest.raises(ConfigError, match="gguf_file"):
        PolicyConfig(name_or_path="x", init="random", gguf_file="x.gguf")
