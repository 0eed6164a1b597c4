"""What callbacks ask of a logger that can keep texts and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

from lightning.pytorch import Trainer

__all__ = ["KeepsArtifacts", "artifact_stores"]


@runtime_checkable
class KeepsArtifacts(Protocol):
    """A logger that keeps more than numbers."""

    def log_text(self, text: str, artifact_file: str) -> None:
        """Store a text.

        Args:
            text: Content.
            artifact_file: Path within the run's artifacts.
        """

    def log_file(self, path: Path, artifact_folder: str) -> None:
        """Store a copy of a file.

        Args:
            path: File to copy.
            artifact_folder: Folder within the run's artifacts.
        """

    def set_tag(self, key: str, value: str) -> None:
        """Set a tag.

        Args:
            key: Name.
            value: Text; replaces an earlier one.
        """


def artifact_stores(trainer: Trainer) -> Iterator[KeepsArtifacts]:
    """Loggers of a trainer that keep artifacts.

    Args:
        trainer: The trainer.

    Yields:
        Each such logger.
    """
    for logger in trainer.loggers:
        if isinstance(logger, KeepsArtifacts):
            yield logger
