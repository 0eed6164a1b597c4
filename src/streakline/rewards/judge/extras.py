"""Packages that only judges need, imported at their first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from streakline.errors import MissingDependencyError

INSTALL_COMMAND = "pip install -e '.[judge]'"


def require(name: str) -> ModuleType:
    """Import a module of the extra `judge`.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.split(".")[0]
        raise MissingDependencyError(
            f"Expected {package} to be installed, but got none: run `{INSTALL_COMMAND}`"
        ) from error
