"""Keeps a few trajectories of training, for people to read: too many would slow the run and fill the disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from lightning.pytorch import Callback, LightningModule
from transformers import PreTrainedTokenizerFast
from typing_extensions import override

from streakline.callbacks.mlflow_logger import artifact_stores
from streakline.data.jsonl import write_jsonl
from streakline.errors import ConfigError
from streakline.modules.agent import AgentModule
from streakline.modules.episode_rows import trajectory_to_json
from streakline.types import JSON, Group, Trajectory


@final
class RolloutLog(Callback):
    """Writes the best and the worst trajectory of some groups to `trajectories/train-<rollout>.jsonl`, and to MLflow.

    Args:
        every_n_rollouts: The first batch of rollouts and then each n-th is sampled; 0 = none.
        num_groups: Groups taken from a batch, those with contrast first.
        max_chars: A row longer than this goes without its tokens as text; one that is longer even so is left out, and
            the others follow as far as the sum of a file stays within ten times as much.

    Raises:
        ConfigError: If a number is out of range.
    """

    def __init__(self, every_n_rollouts: int = 10, num_groups: int = 2, max_chars: int = 100_000) -> None:
        for name, value, low in (
            ("every_n_rollouts", every_n_rollouts, 0),
            ("num_groups", num_groups, 1),
            ("max_chars", max_chars, 1),
        ):
            if value < low:
                raise ConfigError(f"Expected `rollout_log.{name}` to be at least {low}, but got {value}")
        self._every_n_rollouts = every_n_rollouts
        self._num_groups = num_groups
        self._max_chars = max_chars
        self._num_rollouts = 0

    def select_groups(self, module: LightningModule, groups: Sequence[Group]) -> Sequence[Group]:
        """Look at the groups of a rollout, and leave them as they are."""
        if (
            self._every_n_rollouts
            and self._num_rollouts % self._every_n_rollouts == 0
            and module.trainer.is_global_zero
        ):
            self._write(module, groups)
        self._num_rollouts += 1
        return groups

    def _write(self, module: LightningModule, groups: Sequence[Group]) -> None:
        tokenizer = module.renderer().tokenizer if isinstance(module, AgentModule) else None
        rows = self._rows(groups, tokenizer)
        if not rows:
            return
        folder = Path(module.trainer.default_root_dir) / "trajectories"
        path = folder / f"train-{self._num_rollouts:06d}.jsonl"
        write_jsonl(path, rows)
        for store in artifact_stores(module.trainer):
            store.log_file(path, "trajectories")

    def _rows(self, groups: Sequence[Group], tokenizer: PreTrainedTokenizerFast | None) -> list[dict[str, JSON]]:
        rows: list[dict[str, JSON]] = []
        room = 10 * self._max_chars
        for group in sorted(groups, key=_contrast, reverse=True)[: self._num_groups]:
            for trajectory in _best_and_worst(group):
                row = trajectory_to_json(group.task, trajectory, tokenizer=tokenizer)
                size = len(json.dumps(row))
                if size > min(self._max_chars, room) and row.pop("samples", None):
                    size = len(json.dumps(row))
                if size <= min(self._max_chars, room):
                    rows.append(row)
                    room -= size
        return rows

    @override
    def state_dict(self) -> dict[str, Any]:
        """Number of batches seen, so that a resumed run goes on with the same file names."""
        return {"num_rollouts": self._num_rollouts}

    @override
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self._num_rollouts = int(state_dict["num_rollouts"])


def _contrast(group: Group) -> float:
    known = [reward for reward in group.all_rewards if reward is not None]
    return max(known) - min(known) if known else -1.0


def _best_and_worst(group: Group) -> tuple[Trajectory, ...]:
    known = sorted(
        (trajectory for trajectory in group.trajectories if trajectory.reward is not None),
        key=lambda trajectory: -(trajectory.reward or 0.0),
    )
    return (known[0], known[-1]) if len(known) > 1 else tuple(known)
