"""Spends no rollouts on tasks that are solved for the time being (arXiv 2606.00135, online filter before rollouts)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from streakline.algorithms.streaks import StreakTable
from streakline.errors import ConfigError
from streakline.modules.agent import AgentModule
from streakline.modules.distributed import gather_lists
from streakline.tasks.sampler import WHOLE_EPOCH, EpochPlan
from streakline.types import Group, Task

_EPOCH_SUMS = ("reward", "scored", "probe_reward", "probe_scored", "probes", "probes_judged", "probes_correct")


@final
class StreakFilter(Callback):
    """Skips tasks whose trajectories were all right in `k` epochs in a row.

    Some of the skipped tasks are attempted all the same, as probes: they are not trained on, but tell how many of the
    skipped tasks are still solved, and a wrong one brings its task back in the next epoch.

    Loaders are rebuilt each epoch, so that epochs get shorter or are refilled. Under a DataModule that does not ask
    (`data/tasks.py`), skipped tasks leave their batches instead.

    Logged under `filter/`: `active_share` of the tasks attempted so far; `skipped` tasks; of the epoch so far `probes`,
    their `persistence` (the share that was all right again) and `reward_all`, an unbiased mean over active and skipped
    tasks; `rollouts_saved`, trajectories that skipped tasks would have taken since training began.

    Args:
        k: Epochs in a row; None = nothing is skipped.
        threshold: Reward from which a trajectory is right; of a hybrid reward the score of its answer.
        reentry: When a skipped task comes back with a streak of 0, unless a probe brings it back earlier: after one
            epoch, after `cooldown` epochs, or never.
        cooldown: Epochs for which a task is skipped where `reentry` says `cooldown`.
        epoch: Whether epochs get shorter (`shrink`), or active tasks come several times in one (`refill`).
        probe_fraction: Share of the skipped tasks that is attempted.
        seed: Of the choice of probes.

    Raises:
        ConfigError: If a number is out of range.
    """

    def __init__(
        self,
        k: int | None = None,
        threshold: float = 1.0,
        reentry: Literal["next_epoch", "cooldown", "never"] = "next_epoch",
        cooldown: int = 2,
        epoch: Literal["shrink", "refill"] = "shrink",
        probe_fraction: float = 0.05,
        seed: int = 0,
    ) -> None:
        table = StreakTable(
            k=1 if k is None else k,
            threshold=threshold,
            rest={"next_epoch": 1, "cooldown": cooldown, "never": None}[reentry],
            probe_fraction=probe_fraction,
            seed=seed,
        )
        self._table = None if k is None else table
        self._refill = epoch == "refill"
        self._counts = dict.fromkeys((*_EPOCH_SUMS, "group_size", "rollouts_saved"), 0.0)

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Have loaders rebuilt each epoch."""
        if self._table is None or stage != "fit":
            return
        every = trainer.reload_dataloaders_every_n_epochs  # type: ignore[attr-defined]
        if every > 1:
            raise ConfigError(f"Expected `trainer.reload_dataloaders_every_n_epochs` to be 1, but got {every}")
        trainer.reload_dataloaders_every_n_epochs = 1  # type: ignore[attr-defined]

    def plan_epoch(self, trainer: Trainer, tasks: Sequence[Task]) -> EpochPlan:
        """Leave out the tasks that the epoch skips, and let probes come once."""
        table = self._begin(trainer.current_epoch)
        if table is None:
            return WHOLE_EPOCH
        keys = [task_key(trainer.lightning_module, task) for task in tasks]
        skipped = {index for index, key in enumerate(keys) if not table.is_active(key)}
        probes = {index for index in skipped if table.is_probe(keys[index])}
        return EpochPlan(skipped=frozenset(skipped - probes), once=frozenset(probes), refill=self._refill)

    def select_tasks(self, module: LightningModule, tasks: Sequence[Task]) -> Sequence[Task]:
        """Leave out what is skipped, however it came into the batch, and probes that were tried in this epoch."""
        table = self._begin(module.trainer.current_epoch)
        if table is None:
            return tasks
        keys = [task_key(module, task) for task in tasks]
        wanted = [table.is_active(key) or (table.is_probe(key) and not table.was_observed(key)) for key in keys]
        return [task for task, is_wanted in zip(tasks, wanted, strict=True) if is_wanted]

    def observe_groups(self, module: LightningModule, groups: Sequence[Group]) -> None:
        """Note how the tasks of all processes went."""
        if self._table is None:
            return
        for key, *scores in gather_lists(
            [(task_key(module, group.task), group.all_rewards, group.success_scores) for group in groups]
        ):
            self._observe(self._table, key, *scores)
        module.log_dict({f"filter/{name}": value for name, value in self._values(self._table).items()}, batch_size=1)

    def select_groups(self, module: LightningModule, groups: Sequence[Group]) -> Sequence[Group]:
        """Leave out the probes."""
        table = self._table
        return [group for group in groups if table is None or table.is_active(task_key(module, group.task))]

    @override
    def state_dict(self) -> dict[str, Any]:
        """Streaks and counts, as plain types; empty = the filter is off."""
        return {} if self._table is None else {"table": self._table.state_dict(), "counts": dict(self._counts)}

    @override
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        if self._table is not None and state_dict:
            self._table.load_state_dict(state_dict["table"])
            self._counts |= state_dict["counts"]

    def _begin(self, epoch: int) -> StreakTable | None:
        """The table, after the epoch has begun; None = the filter is off."""
        table, counts = self._table, self._counts
        if table is not None and table.begin_epoch(epoch):
            counts |= dict.fromkeys(_EPOCH_SUMS, 0.0)
            counts["rollouts_saved"] += counts["group_size"] * sum(not table.is_probe(key) for key in table.skipped)
        return table

    def _observe(
        self, table: StreakTable, key: str, rewards: Sequence[float | None], scores: Sequence[float | None]
    ) -> None:
        counts, scored = self._counts, [reward for reward in rewards if reward is not None]
        is_active, is_right = table.is_active(key), table.observe(key, scores)
        prefix = "" if is_active else "probe_"
        counts["group_size"] = float(len(rewards))
        counts[f"{prefix}reward"] += sum(scored)
        counts[f"{prefix}scored"] += len(scored)
        counts["probes"] += not is_active
        counts["probes_judged"] += not is_active and is_right is not None
        counts["probes_correct"] += not is_active and is_right is True

    def _values(self, table: StreakTable) -> dict[str, float]:
        counts, share = self._counts, len(table.skipped) / max(table.num_known, 1)

        def mean(total: str, count: str) -> float:
            return counts[total] / counts[count] if counts[count] else math.nan

        parts = ((1 - share, mean("reward", "scored")), (share, mean("probe_reward", "probe_scored")))
        return {
            "active_share": 1 - share,
            "skipped": float(len(table.skipped)),
            "probes": counts["probes"],
            "persistence": mean("probes_correct", "probes_judged"),
            "reward_all": sum(weight * value for weight, value in parts if weight),
            "rollouts_saved": counts["rollouts_saved"],
        }


def task_key(module: LightningModule, task: Task) -> str:
    """What a streak belongs to: the task, and where one turn alone is attempted, that turn."""
    is_turn = isinstance(module, AgentModule) and module.episode.mode == "turn"
    return f"{task.id}@{len(task.requests) - 1}" if is_turn else task.id
