"""Leave a policy in the Hugging Face layout, as transformers, vLLM and others load it."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import peft
from safetensors import SafetensorError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from streakline.errors import DataError


def export_policy(
    model: PreTrainedModel | peft.PeftModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    *,
    merge_lora: bool = True,
) -> None:
    """Write weights, config and tokenizer. The folder is there in full or not at all, and replaces an earlier one.

    Tied weights are written once, under the name that `config.json` implies. `merge_lora` adds adapters to a copy of
    the weights, so that any tool loads the result; without it the adapter is written alone.

    Raises:
        DataError: If the folder can't be written; what stood there before is still there.
    """
    folder = Path(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # In the same parent, so that the final renames stay on one file system.
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
            new = Path(scratch) / "new"
            _merged(model, merge_lora=merge_lora).save_pretrained(str(new))
            tokenizer.save_pretrained(new)
            _swap(new, folder, aside=Path(scratch) / "old")
    except (OSError, SafetensorError) as error:
        raise DataError(f"Expected to write the policy to {folder}, but got: {error}") from error


def _swap(new: Path, folder: Path, *, aside: Path) -> None:
    if not folder.exists():
        new.rename(folder)
        return
    folder.rename(aside)
    try:
        new.rename(folder)
    except OSError:
        aside.rename(folder)
        raise


def _merged(model: PreTrainedModel | peft.PeftModel, *, merge_lora: bool) -> PreTrainedModel | peft.PeftModel:
    if not isinstance(model, peft.PeftModel) or not merge_lora:
        return model
    # A copy: merging and unmerging in place would round the weights in training.
    merged: PreTrainedModel = copy.deepcopy(model).merge_and_unload()
    return merged
