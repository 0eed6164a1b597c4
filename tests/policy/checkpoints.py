"""Checkpoints of a tiny model on disk."""

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config


def architecture(**options) -> Qwen3Config:
    return Qwen3Config(
        **{
            "vocab_size": 64,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "tie_word_embeddings": True,
            **options,
        }
    )


def write(folder: Path, *, dtype: torch.dtype = torch.float32, **options) -> PreTrainedModel:
    """Save a model with random weights and give it."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(architecture(**options)).to(dtype)
    model.save_pretrained(folder)
    return model


def rewrite_config(folder: Path, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
