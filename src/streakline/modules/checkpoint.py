"""One clear line for a checkpoint that belongs to another model."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from streakline.errors import DataError


def require_same_weights(own: Mapping[str, torch.Tensor], loaded: Mapping[str, torch.Tensor]) -> None:
    """Check names and shapes before any weight is copied.

    Raises:
        DataError: If a weight is missing, unknown, or of another shape; the first one is named.
    """
    missing, unknown = sorted(own.keys() - loaded.keys()), sorted(loaded.keys() - own.keys())
    if missing or unknown:
        raise DataError(
            f"Expected a checkpoint of this architecture, but got one with {len(missing)} weights missing and "
            f"{len(unknown)} unknown, such as {(missing + unknown)[0]}"
        )
    for name, weight in own.items():
        if weight.shape != loaded[name].shape:
            raise DataError(
                f"Expected a checkpoint of this architecture, with {name} of shape {tuple(weight.shape)}, "
                f"but got {tuple(loaded[name].shape)}"
            )
