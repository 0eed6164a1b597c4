"""Checkpoints that are whole or absent, and hold nothing that could run code."""

from __future__ import annotations

import os
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import torch
from lightning.fabric.plugins import CheckpointIO
from torch.types import Storage
from typing_extensions import override

from streakline.errors import DataError


@final
class AtomicCheckpointIO(CheckpointIO):
    """Writes beside the target and renames when all is on disk, so that no kill leaves a broken `last.ckpt`.

    Lightning's own plugin writes to the system's temporary folder; where that is another disk, the last step is a copy,
    and a copy can be cut in the middle. It also holds the whole file in memory once more.
    """

    @override
    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: object | None = None
    ) -> None:
        """Save a checkpoint; where it can't be written, raises `DataError`, and what lay there before is untouched."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as stream:
                torch.save(checkpoint, stream)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(target)
        except (OSError, RuntimeError) as error:
            partial.unlink(missing_ok=True)
            kept = f"; the one of before is kept at {target}" if target.exists() else ""
            raise DataError(f"Expected to write the checkpoint {target}, but got: {_reason(error)}{kept}") from error

    @override
    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Callable[[Storage, str], Storage] | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Load a checkpoint; raises `DataError` where it is missing, damaged or not of plain types and tensors."""
        source = Path(path)
        if not source.is_file():
            raise DataError(f"Expected a checkpoint at {source}, but there is no such file")
        try:
            loaded = torch.load(source, map_location=map_location or "cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            found = re.search(r"GLOBAL (\S+)", str(error))
            what = found[1] if found else "something else"
            raise DataError(f"Expected {source} to hold plain types and tensors only, but got {what}") from error
        except (OSError, RuntimeError, EOFError, KeyError, ValueError) as error:
            raise DataError(
                f"Expected {source} to be a whole checkpoint, but it is damaged or of another kind"
            ) from error
        if not isinstance(loaded, dict) or not {"pytorch-lightning_version", "state_dict"} <= loaded.keys():
            raise DataError(f"Expected {source} to hold a Lightning checkpoint, but it holds something else")
        return loaded

    @override
    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a checkpoint that has been replaced by a newer one."""
        try:
            Path(path).unlink(missing_ok=True)
        except OSError as error:
            warnings.warn(f"Could not remove the old checkpoint {path}: {_reason(error)}", stacklevel=2)


def _reason(error: Exception) -> str:
    cause = error.__context__ if isinstance(error.__context__, OSError) else error
    text = str(cause.strerror if isinstance(cause, OSError) and cause.strerror else cause)
    return text.strip().split("\n")[0].strip() or type(error).__name__
