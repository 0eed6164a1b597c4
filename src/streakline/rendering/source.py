"""Where a model and its tokenizer are read from."""

from __future__ import annotations

import re
from pathlib import Path

from streakline.errors import DataError

_MODEL_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)


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
