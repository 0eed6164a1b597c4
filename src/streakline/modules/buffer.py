"""The rollout batch under training: rows with their advantages, kept for as many updates as it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict, final

import torch

from streakline.algorithms.advantages import group_advantages, has_zero_variance
from streakline.data.rows import TrainingRow, rows_of
from streakline.modules.grpo_config import GRPOConfig
from streakline.types import Group, Sample, Trajectory


class BufferState(TypedDict):
    """A buffer as tensors, all rows in one line."""

    lengths: torch.Tensor
    """[B] tokens of each row."""
    token_ids: torch.Tensor
    """[sum of lengths]."""
    loss_mask: torch.Tensor
    """[sum of lengths]."""
    logprobs_engine: torch.Tensor
    """[sum of lengths] float64, so that the engine's numbers come back as they were."""
    logprobs_old: torch.Tensor
    """[sum of lengths] float32; empty = no update has been made on these rows."""
    advantages: torch.Tensor
    """[B] float64."""
    trajectory_index: torch.Tensor
    """[B]."""
    num_barred: torch.Tensor
    """[B]."""
    updates_left: int
    """Updates that the rows still serve; 0 = used up."""


def training_rows(groups: Sequence[Group], *, config: GRPOConfig, min_new_tokens: int = 0) -> tuple[TrainingRow, ...]:
    """What of the selected groups, sampled with `min_new_tokens`, is trained on.

    Left out: groups without contrast (unless `drop_zero_variance_groups` is off), trajectories that could not be
    scored, and those that a limit cut off where `mask_truncated` says so. None counts in a denominator either.
    No row = nothing to learn from.
    """
    kept: list[Trajectory] = []
    advantages: list[float] = []
    for group in groups:
        if config.drop_zero_variance_groups and lacks_contrast(group, config=config):
            continue
        values = group_advantages(
            group.rewards,
            statistics=_statistics(group, config),
            baseline=config.advantage_baseline,
            scale=config.advantage_scale,
            zero_variance_tol=config.zero_variance_tol,
        )
        for trajectory, value in zip(group.trajectories, values, strict=True):
            is_masked = config.mask_truncated and trajectory.termination.is_truncated
            if trajectory.reward is not None and not is_masked:
                kept.append(trajectory)
                advantages.append(value)
    return rows_of(kept, advantages, min_new_tokens=min_new_tokens)


def lacks_contrast(group: Group, *, config: GRPOConfig) -> bool:
    """Whether the rewards that a group's advantages are made of have no contrast."""
    return has_zero_variance(_statistics(group, config), tol=config.zero_variance_tol)


def _statistics(group: Group, config: GRPOConfig) -> Sequence[float | None]:
    return group.all_rewards if config.advantage_statistics == "all" else group.rewards


@final
class RolloutBuffer:
    """Rows, and the log-probabilities they had when the first update began."""

    def __init__(self) -> None:
        self.rows: tuple[TrainingRow, ...] = ()
        self.updates_left = 0
        self._logprobs_old: list[torch.Tensor] | None = None

    def fill(self, rows: Sequence[TrainingRow], *, updates: int) -> None:
        """Replace the rows by those of a new rollout batch, which serve `updates` steps."""
        self.rows, self.updates_left, self._logprobs_old = tuple(rows), updates, None

    def finish_update(self, logprobs: Sequence[torch.Tensor]) -> None:
        """Note that an optimiser step was made; after the last one the rows are dropped.

        `logprobs` has [T] of each row before the step; those of the first update become `logprobs_old`.
        """
        self.updates_left -= 1
        if self.updates_left <= 0:
            self.fill((), updates=0)
        elif self._logprobs_old is None:
            self._logprobs_old = [values.cpu() for values in logprobs]

    @property
    def logprobs_old(self) -> Sequence[torch.Tensor] | None:
        """[T] of each row at the start of the first update; None = this is the first."""
        return self._logprobs_old

    @property
    def num_trained_tokens(self) -> int:
        """Trained tokens of all rows."""
        return sum(row.num_trained_tokens for row in self.rows)

    @property
    def tokens_of_trajectory(self) -> list[int]:
        """[B] trained tokens of the trajectory of each row, over all its rows."""
        counts: Counter[int] = Counter()
        for row in self.rows:
            counts[row.trajectory_index] += row.num_trained_tokens
        return [counts[row.trajectory_index] for row in self.rows]

    def state_dict(self) -> BufferState:
        """Everything, as plain tensors."""
        samples = [row.sample for row in self.rows]
        engine = [sample.logprobs_engine or (0.0,) * len(sample.token_ids) for sample in samples]
        return {
            "lengths": torch.tensor([len(sample.token_ids) for sample in samples], dtype=torch.int64),
            "token_ids": _flat([sample.token_ids for sample in samples], dtype=torch.int64),
            "loss_mask": _flat([sample.loss_mask for sample in samples], dtype=torch.bool),
            "logprobs_engine": _flat(engine, dtype=torch.float64),
            "logprobs_old": torch.cat(self._logprobs_old) if self._logprobs_old else torch.zeros(0),
            "advantages": torch.tensor([row.advantage for row in self.rows], dtype=torch.float64),
            "trajectory_index": torch.tensor([row.trajectory_index for row in self.rows], dtype=torch.int64),
            "num_barred": torch.tensor([row.num_barred for row in self.rows], dtype=torch.int64),
            "updates_left": self.updates_left,
        }

    def load_state_dict(self, state: BufferState) -> None:
        """Take over a saved buffer."""
        lengths: list[int] = state["lengths"].tolist()
        parts = zip(
            torch.split(state["token_ids"].cpu(), lengths),
            torch.split(state["loss_mask"].cpu(), lengths),
            torch.split(state["logprobs_engine"].cpu(), lengths),
            state["advantages"].tolist(),
            state["trajectory_index"].tolist(),
            state["num_barred"].tolist(),
            strict=True,
        )
        rows = [
            TrainingRow(
                sample=Sample(
                    token_ids=tuple(ids.tolist()),
                    loss_mask=tuple(mask.tolist()),
                    logprobs_engine=tuple(engine.tolist()),
                ),
                advantage=advantage,
                trajectory_index=index,
                num_barred=num_barred,
            )
            for ids, mask, engine, advantage, index, num_barred in parts
        ]
        self.fill(rows, updates=state["updates_left"])
        if len(state["logprobs_old"]):
            self._logprobs_old = list(torch.split(state["logprobs_old"].cpu(), lengths))


def _flat(values: Sequence[Sequence[float]], *, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([item for row in values for item in row], dtype=dtype)
