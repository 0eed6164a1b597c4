"""What callbacks ask of a logger that can keep texts and files."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from lightning.pytorch import Trainer


@runtime_checkable
class KeepsArtifacts(Protocol):
    """A logger that keeps more than numbers."""

    def log_text(self, text: str, artifact_file: str) -> None:
        """Store a text under a path within the run's artifacts."""

    def log_file(self, path: Path, artifact_folder: str) -> None:
        """Store a copy of a file in a folder within the run's artifacts."""

    def set_tag(self, key: str, value: str) -> None:
        """Set a tag, or replace it."""


def artifact_stores(trainer: Trainer) -> list[KeepsArtifacts]:
    """Loggers of a trainer that keep artifacts."""
    return [logger for logger in trainer.loggers if isinstance(logger, KeepsArtifacts)]
