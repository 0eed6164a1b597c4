"""One- and two-layer models of the supported families, with random weights large enough that tokens matter."""

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel, Qwen2Config, Qwen3Config

VOCABULARY = 64

_SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    # Ten times the usual: at 0.02 every prompt has nearly the same next token.
    "initializer_range": 0.3,
}

CONFIGS = {
    "qwen3": lambda: Qwen3Config(**_SHAPE, head_dim=16, tie_word_embeddings=True),
    "qwen2": lambda: Qwen2Config(**_SHAPE, tie_word_embeddings=False),
    "qwen2_window": lambda: Qwen2Config(**_SHAPE, use_sliding_window=True, sliding_window=7, max_window_layers=1),
    "llama": lambda: LlamaConfig(**_SHAPE, head_dim=8),
    # SmolLM2-135M: 9 query heads on 3 key heads, tied.
    "smollm2": lambda: LlamaConfig(
        **(_SHAPE | {"hidden_size": 36, "num_attention_heads": 9, "num_key_value_heads": 3}), tie_word_embeddings=True
    ),
}


def tiny_model(family: str = "qwen3", *, seed: int = 0, **options: object) -> PreTrainedModel:
    """A model of a family; options replace those of its config."""
    torch.manual_seed(seed)
    config = CONFIGS[family]()
    config.update(options)
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").float().train()
