"""Loading a tokenizer with a chat template that agents can use."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from streakline.errors import ConfigError, DataError

__all__ = ["load_tokenizer", "read_chat_template"]


def load_tokenizer(name_or_path: str, *, chat_template: str | None = None) -> PreTrainedTokenizerFast:
    """Load a tokenizer and see that it can render conversations.

    Args:
        name_or_path: Folder, or a name on the Hugging Face hub.
        chat_template: Jinja file, or the name of a template that comes with streakline (`hermes_chatml`), in place of
            the tokenizer's own; None = its own.

    Returns:
        The tokenizer.

    Raises:
        DataError: If there is no tokenizer of that name, or no such template file.
        ConfigError: If the tokenizer has no chat template, or is none that `tokenizers` backs.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(name_or_path)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"Expected a tokenizer at {name_or_path!r}, but got: {reason}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ConfigError(
            f"Expected tokenizer {name_or_path!r} to be a fast one (tokenizer.json), but got {type(tokenizer).__name__}"
        )
    if chat_template is not None:
        tokenizer.chat_template = read_chat_template(chat_template)
    if not tokenizer.chat_template:
        raise ConfigError(
            f"Expected tokenizer {name_or_path!r} to have a chat template, but it has none; "
            "give a Jinja file, or 'hermes_chatml', as `chat_template`"
        )
    return tokenizer


def read_chat_template(name_or_path: str) -> str:
    """Read a chat template.

    Args:
        name_or_path: Jinja file, or the name of a template that comes with streakline.

    Returns:
        Its source.

    Raises:
        DataError: If it is neither.
    """
    folder = files("streakline.rendering") / "templates"
    names = sorted(entry.name.removesuffix(".jinja") for entry in folder.iterdir() if entry.name.endswith(".jinja"))
    if name_or_path in names:
        return (folder / f"{name_or_path}.jinja").read_text(encoding="utf-8")
    try:
        return Path(name_or_path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Expected `chat_template` to be a Jinja file or one of {names}, but got: {error}") from error
