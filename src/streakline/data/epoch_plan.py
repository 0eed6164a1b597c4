"""Asks callbacks which tasks an epoch can do without, before its order is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from lightning.pytorch import Trainer

from streakline.tasks.sampler import WHOLE_EPOCH, EpochPlan
from streakline.types import Task


@runtime_checkable
class PlansEpochs(Protocol):
    """A callback that knows, when an epoch begins, which tasks need not be attempted in it."""

    def plan_epoch(self, trainer: Trainer, tasks: Sequence[Task]) -> EpochPlan:
        """Choose among all tasks. Asked on every process, and again after a resume inside the epoch: answer alike."""


def plan_epoch(trainer: Trainer | None, tasks: Sequence[Task]) -> EpochPlan:
    """Ask every callback that plans epochs: what one of them skips is skipped."""
    if trainer is None:
        return WHOLE_EPOCH
    callbacks: Sequence[object] = trainer.callbacks  # type: ignore[attr-defined]
    plans = [callback.plan_epoch(trainer, tasks) for callback in callbacks if isinstance(callback, PlansEpochs)]
    return EpochPlan(
        skipped=frozenset().union(*(plan.skipped for plan in plans)),
        once=frozenset().union(*(plan.once for plan in plans)),
        refill=any(plan.refill for plan in plans),
    )
