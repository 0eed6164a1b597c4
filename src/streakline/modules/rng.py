"""The state of torch's generators, as checkpoint state.

Rollouts draw from streams of their own, derived from identity; what draws from torch's generators is dropout.
"""

from __future__ import annotations

from typing import TypedDict

import torch


class RngState(TypedDict):
    """States of the generators of this process. Tensors only, so that a checkpoint loads with `weights_only=True`."""

    cpu: torch.Tensor
    """[bytes] uint8."""
    cuda: list[torch.Tensor]
    """One [bytes] uint8 a device; empty without a GPU."""


def capture_rng() -> RngState:
    """States as they are now."""
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []}


def restore_rng(state: RngState) -> None:
    """Put states back; those of GPUs only where the same number of them is at hand."""
    torch.set_rng_state(state["cpu"].cpu())
    if state["cuda"] and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([device.cpu() for device in state["cuda"]])
