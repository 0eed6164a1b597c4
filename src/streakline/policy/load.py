"""Load the policy: float32 master weights, train mode, adapters, and one clear line for whatever is wrong with it."""

from __future__ import annotations

import copy
import logging as stdlib_logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import peft
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from streakline.errors import ConfigError, DataError
from streakline.policy.config import LoraConfig, PolicyConfig
from streakline.rendering.tokenizer import first_line, resolve_source


def load_policy(config: PolicyConfig) -> PreTrainedModel | peft.PeftModel:
    """Load or initialise the policy, ready to be trained.

    Transformers 5 loads a bfloat16 checkpoint as bfloat16, in which AdamW at a rate of 1e-6 changes 2% of the weights
    in 20 steps; the configured type (float32 unless told otherwise) is therefore always passed on.

    Raises:
        ConfigError: If the model has no causal language model head, `freeze` finds no parameter or leaves none, or
            LoRA has nothing to adapt.
        DataError: If the checkpoint is missing, unreadable, or of another architecture than its `config.json`.
    """
    model = _initialise(config) if config.init == "random" else _read_checkpoint(config)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    _freeze(model, config.freeze or [])
    policy = model if config.lora is None else _add_lora(model, config.lora)
    policy.train()
    return policy


def _initialise(config: PolicyConfig) -> PreTrainedModel:
    source, is_local = resolve_source(config.name_or_path)
    try:
        architecture = AutoConfig.from_pretrained(source, local_files_only=is_local)
    except (OSError, ValueError) as error:
        raise _unreadable(config.name_or_path, is_local=is_local, error=error) from error
    try:
        return _build(architecture, config)
    except (ValueError, ImportError) as error:
        raise ConfigError(
            f"Expected `{config.name_or_path}` to be a causal LM, but got: {first_line(error)}"
        ) from error


def _build(architecture: PreTrainedConfig, config: PolicyConfig) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        architecture, dtype=config.dtype, attn_implementation=config.attn_implementation
    )
    return model


def _read_checkpoint(config: PolicyConfig) -> PreTrainedModel:
    source, is_local = resolve_source(config.name_or_path, gguf_file=config.gguf_file)
    try:
        with _quiet_load_report():
            loaded: tuple[PreTrainedModel, Mapping[str, set[object]]] = AutoModelForCausalLM.from_pretrained(
                source,
                dtype=config.dtype,
                attn_implementation=config.attn_implementation,
                gguf_file=config.gguf_file,
                local_files_only=is_local,
                # Reported by `_check_keys`, with a message that names the weight.
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )  # type: ignore[assignment]
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise _unreadable(config.name_or_path, is_local=is_local, error=error) from error
    model, info = loaded
    _check_keys(config.name_or_path, info)
    return model if config.gguf_file is None else _plain_copy(model, config)


@contextmanager
def _quiet_load_report() -> Iterator[None]:
    """Hold back transformers' table of missing weights, which would bury the one line that says it."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(stdlib_logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _check_keys(name: str, info: Mapping[str, set[object]]) -> None:
    unexpected = {str(key) for key in info["unexpected_keys"]}
    # Old checkpoints hold the rotary frequencies, which are computed; anything else in a layer is a lost weight.
    lost = {key for key in unexpected if ".layers." in key and not key.endswith("rotary_emb.inv_freq")}
    # transformers gives (name, shape in the checkpoint, shape in the model).
    mismatched = {key[0] if isinstance(key, tuple) else key for key in info["mismatched_keys"]}
    for label, keys in (("missing", info["missing_keys"]), ("of another shape", mismatched), ("left over", lost)):
        if keys:
            raise DataError(
                f"Expected the checkpoint {name} to hold the weights of its config.json, but got {len(keys)} {label}, "
                f"such as {min(map(str, keys))} (a checkpoint of another architecture?)"
            )
    if unexpected:
        warnings.warn(f"Ignoring {len(unexpected)} weights of {name}, such as {min(unexpected)}", stacklevel=4)


def _plain_copy(model: PreTrainedModel, config: PolicyConfig) -> PreTrainedModel:
    """Copy a dequantised model into one that transformers agrees to save, and to save again once it is read back."""
    architecture = copy.deepcopy(model.config)
    vars(architecture).pop("quantization_config", None)
    copied = _build(architecture, config)
    copied.load_state_dict(model.state_dict())
    return copied


def _freeze(model: nn.Module, patterns: list[str]) -> None:
    for pattern in patterns:
        found = [parameter for name, parameter in model.named_parameters() if re.search(pattern, name)]
        if not found:
            raise ConfigError(f"Expected every pattern of `freeze` to match a parameter name, but got {pattern!r}")
        for parameter in found:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(f"Expected `freeze` to leave a parameter to train, but got {patterns}")


def _add_lora(model: PreTrainedModel, lora: LoraConfig) -> peft.PeftModel:
    try:
        adapted = peft.get_peft_model(
            model,
            peft.LoraConfig(
                task_type=peft.TaskType.CAUSAL_LM,
                r=lora.r,
                # PEFT annotates an int, but only ever divides by it.
                lora_alpha=lora.alpha,  # type: ignore[arg-type]
                lora_dropout=lora.dropout,
                target_modules=lora.target_modules,
            ),
        )
    except ValueError as error:
        raise ConfigError(f"Expected `lora` to fit the model, but got: {first_line(error)}") from error
    return cast("peft.PeftModel", adapted)


def _unreadable(name: str, *, is_local: bool, error: Exception) -> DataError:
    if is_local:
        return DataError(
            f"Expected {name} to hold a causal LM in the Hugging Face layout, but got: {first_line(error)}"
        )
    return DataError(
        f"Expected `name_or_path` to be a folder or a model that the hub can be asked for, but got {name!r}, which is "
        f"no folder, and: {first_line(error)}"
    )
