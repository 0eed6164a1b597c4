"""What a callback can change about a training step: which tasks are attempted, and which groups are trained on.

Any callback of the trainer that has one of these methods is asked, in the order of the callbacks. All observe before
any selects. `data/tasks.py` has one more, about which tasks an epoch holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from lightning.pytorch import LightningModule, Trainer

from streakline.types import Group, Task


@runtime_checkable
class SelectsTasks(Protocol):
    """A callback that decides, before the rollouts, which tasks are worth them."""

    def select_tasks(self, module: LightningModule, tasks: Sequence[Task]) -> Sequence[Task]:
        """Choose among the tasks that the loader and earlier callbacks left; none = the step does nothing."""


@runtime_checkable
class ObservesGroups(Protocol):
    """A callback that looks at groups as they were sampled, whatever the order of the callbacks."""

    def observe_groups(self, module: LightningModule, groups: Sequence[Group]) -> None:
        """Look at full groups; none = this process had no task in the step. Called on all processes or on none."""


@runtime_checkable
class SelectsGroups(Protocol):
    """A callback that decides, after the rollouts, what is trained on."""

    def select_groups(self, module: LightningModule, groups: Sequence[Group]) -> Sequence[Group]:
        """Choose among groups, or the trajectories inside them; none = no optimiser step is taken.

        `Group.all_rewards` stays what was sampled.
        """


@runtime_checkable
class SavesBrokenStep(Protocol):
    """A callback that saves the run when a step can't be finished and has changed nothing yet."""

    def save_broken_step(self, trainer: Trainer) -> None:
        """Save. Called on all processes, before the run ends with an error."""


def save_broken_step(module: LightningModule) -> None:
    """Have every callback that saves broken steps do so, while fitting."""
    trainer = module.trainer
    for callback in trainer.callbacks if trainer.state.fn == "fit" else ():  # type: ignore[attr-defined]
        if isinstance(callback, SavesBrokenStep):
            callback.save_broken_step(trainer)


def select_tasks(module: LightningModule, tasks: Sequence[Task]) -> Sequence[Task]:
    """Ask every callback that selects tasks."""
    for callback in module.trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, SelectsTasks):
            tasks = callback.select_tasks(module, tasks)
    return tasks


def select_groups(module: LightningModule, groups: Sequence[Group]) -> Sequence[Group]:
    """Show full groups to every callback that observes them, then ask every callback that selects groups."""
    for callback in module.trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, ObservesGroups):
            callback.observe_groups(module, groups)
    for callback in module.trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, SelectsGroups):
            groups = callback.select_groups(module, groups)
    return groups
