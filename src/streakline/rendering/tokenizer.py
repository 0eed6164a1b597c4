"""Loading a tokenizer with a chat template that agents can use, and where it and its model are read from."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from streakline.errors import ConfigError, DataError

_MODEL_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)


def load_tokenizer(
    name_or_path: str, *, chat_template: str | None = None, gguf_file: str | None = None
) -> PreTrainedTokenizerFast:
    """Load a tokenizer from a folder or the hub, and see that it can render conversations.

    `chat_template` is for `read_chat_template`; None = the tokenizer's own. `gguf_file` is the file in the folder that
    holds the tokenizer; None = `tokenizer.json`.

    Raises:
        DataError: If there is no tokenizer of that name, or no such template file.
        ConfigError: If the tokenizer has no chat template, or is none that `tokenizers` backs.
    """
    source, _ = resolve_source(name_or_path, gguf_file=gguf_file)
    try:
        # No `local_files_only`: transformers would write it into the tokenizer's files when they are saved again.
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=gguf_file)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise DataError(f"Expected a tokenizer at {name_or_path!r}, but got: {first_line(error)}") from error
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
    """Read the source of a chat template: a Jinja file, or one that comes with streakline by its name.

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


def resolve_source(name_or_path: str, *, gguf_file: str | None = None) -> tuple[str, bool]:
    """Tell a folder (True) from the id of a model on the hub (False), without touching the network.

    Raises:
        DataError: If it can only be a folder and there is none, or the folder lacks `gguf_file`.
    """
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        if gguf_file is not None and not (path / gguf_file).is_file():
            raise DataError(f"Expected `gguf_file` to be a file in {path}, but got {gguf_file!r}")
        return str(path), True
    # With an existing first part, `data/bsae` is a misspelt path.
    if not _MODEL_ID.fullmatch(name_or_path) or Path(path.parts[0]).is_dir():
        raise DataError(f"Expected `name_or_path` to be a folder or a model id, but got {name_or_path!r}")
    return name_or_path, False


def first_line(error: Exception) -> str:
    """First line of a message: transformers adds paragraphs of advice that do not apply here."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
