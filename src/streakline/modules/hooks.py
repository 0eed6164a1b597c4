"""What a callback can change about a training step: which tasks are attempted, and which groups are trained on.

Any callback of the trainer that has one of these methods is asked, in the order of the callbacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from lightning.pytorch import LightningModule

from streakline.types import Group, Task


@runtime_checkable
class SelectsTasks(Protocol):
    """A callback that decides, before the rollouts, which tasks are worth them."""

    def select_tasks(self, module: LightningModule, tasks: Sequence[Task]) -> Sequence[Task]:
        """Choose among the tasks that the loader and earlier callbacks left; none = the step does nothing."""


@runtime_checkable
class SelectsGroups(Protocol):
    """A callback that decides, after the rollouts, what is trained on."""

    def select_groups(self, module: LightningModule, groups: Sequence[Group]) -> Sequence[Group]:
        """Choose among groups, or the trajectories inside them; none = no optimiser step is taken.

        `Group.all_rewards` stays what was sampled.
        """


def select_tasks(module: LightningModule, tasks: Sequence[Task]) -> Sequence[Task]:
    """Ask every callback that selects tasks."""
    for callback in module.trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, SelectsTasks):
            tasks = callback.select_tasks(module, tasks)
    return tasks


def select_groups(module: LightningModule, groups: Sequence[Group]) -> Sequence[Group]:
    """Ask every callback that selects groups."""
    for callback in module.trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, SelectsGroups):
            groups = callback.select_groups(module, groups)
    return groups
