"""Sums over the processes that train together. Without others, nothing happens."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from lightning.pytorch.strategies import ParallelStrategy, Strategy

RowT = TypeVar("RowT")


def local_gradients(strategy: Strategy) -> AbstractContextManager[None]:
    """Keep DDP from averaging gradients inside the block.

    Ranks may have different numbers of micro-batches, which DDP's own reduction can't deal with, and the loss is
    already divided by a count over all ranks, so gradients have to be summed, not averaged.
    """
    return strategy.block_backward_sync() if isinstance(strategy, ParallelStrategy) else nullcontext()


def sum_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Sum the gradients of trained parameters over the processes; one that has none counts as 0."""
    if not _is_distributed():
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        torch.distributed.all_reduce(parameter.grad)


def sum_over_ranks(*values: float, device: torch.device) -> list[float]:
    """Sum numbers over the processes."""
    if not _is_distributed():
        return list(values)
    total = torch.tensor(values, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(total)
    summed: list[float] = total.tolist()
    return summed


def gather_lists(rows: list[RowT]) -> list[RowT]:
    """Concatenate the lists of all processes, in the order of their ranks."""
    if not _is_distributed():
        return rows
    parts: list[list[RowT]] = [[] for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather_object(parts, rows)
    return [row for part in parts for row in part]


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
