"""What the policy is: which weights, in which precision, and which of them are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streakline.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Low-rank adapters in place of full fine-tuning (arXiv 2106.09685)."""

    r: int = 16
    """Rank of the update."""
    alpha: float = 32.0
    """The update is scaled by alpha / r."""
    dropout: float = 0.0
    """Dropout in front of the adapters. Above 0 the update's log-probabilities differ from the engine's."""
    target_modules: str | list[str] = "all-linear"
    """Modules that get an adapter: "all-linear" (all but the output head), a regular expression, or name endings."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.r < 1:
            raise ConfigError(f"Expected `lora.r` to be at least 1, but got {self.r}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"Expected `lora.dropout` to be in [0, 1), but got {self.dropout}")
        if not self.target_modules:
            raise ConfigError("Expected `lora.target_modules` to name at least one module, but got none")


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """Which model is trained, and how it is held in memory."""

    name_or_path: str
    """Folder in the Hugging Face layout, or the name of a model on the hub."""
    init: Literal["pretrained", "random"] = "pretrained"
    """`random`: only the architecture is read (from `config.json`), the weights are drawn from torch's generator."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the stored weights. Train with float32: a bfloat16 weight ignores updates below 1/256 of itself."""
    attn_implementation: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    """Attention kernel."""
    lora: LoraConfig | None = None
    """Adapters to train; None = all weights (but the frozen ones) are trained."""
    freeze: list[str] | None = None
    """Regular expressions; a parameter whose name one of them finds is not trained. None = nothing is frozen."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    chat_template: str | None = None
    """Jinja file, or a template that comes with streakline (`hermes_chatml`), in place of the tokenizer's own chat
    template; None = its own."""
    gguf_file: str | None = None
    """GGUF file within `name_or_path` to read weights and tokenizer from; None = safetensors."""

    def __post_init__(self) -> None:
        """Check what can be checked without reading the model."""
        if not self.name_or_path:
            raise ConfigError("Expected `name_or_path` to be a folder or a model name, but got ''")
        if self.init == "random" and self.gguf_file is not None:
            raise ConfigError(f"Expected no `gguf_file` with `init: random`, but got {self.gguf_file!r}")
