"""Token rows: what a loss sees of a trajectory, and the batches that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from streakline.errors import RecordError
from streakline.types import Sample, TrainingBatch, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """One sample with at least one trained token, and what its trajectory earned."""

    sample: Sample
    """Tokens, mask and engine log-probabilities."""
    advantage: float = 0.0
    """Advantage of the trajectory; 0 for a demonstration."""
    trajectory_index: int = 0
    """Which trajectory it belongs to; several rows share one under history `split`."""
    num_barred: int = 0
    """Leading trained tokens in whose place no terminator could be drawn."""

    def __post_init__(self) -> None:
        """Check that it trains something, and nothing that no token predicts."""
        if not any(self.sample.loss_mask) or self.sample.loss_mask[0]:
            raise RecordError("Expected a training row to train a token behind the first, but got none, or the first")

    @property
    def num_trained_tokens(self) -> int:
        """Tokens in the loss."""
        return sum(self.sample.loss_mask)


def rows_of(
    trajectories: Sequence[Trajectory], advantages: Sequence[float], *, min_new_tokens: int = 0
) -> tuple[TrainingRow, ...]:
    """Flatten trajectories to rows; samples without a trained token (a truncated turn alone) are left out.

    `trajectory_index` counts in the order of the trajectories. `min_new_tokens` is that of the sampling: it barred the
    terminator from the first turn, which opens the first sample, and is shorter only where nothing follows it.
    """
    return tuple(
        TrainingRow(
            sample=sample, advantage=advantage, trajectory_index=index, num_barred=0 if number else min_new_tokens
        )
        for index, (trajectory, advantage) in enumerate(zip(trajectories, advantages, strict=True))
        for number, sample in enumerate(trajectory.samples)
        if any(sample.loss_mask)
    )


def bucketed_batches(
    rows: Sequence[TrainingRow], *, batch_size: int, seed: int, epoch: int, pool: int = 32
) -> list[list[int]]:
    """Shuffle rows, sort them by length within pools of batches, cut, and shuffle the batches; gives row indices.

    Pools keep the padding small without always putting the same rows together. The ceil(N / batch_size) batches of N
    rows hold each once, in an order that follows from seed and epoch. Rows of a trajectory stay side by side, since
    they share a prefix.
    """
    rng = np.random.default_rng([seed, epoch])
    rows_of: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        rows_of.setdefault(row.trajectory_index, []).append(index)
    units = list(rows_of.values())
    order = [index for unit in rng.permutation(len(units)) for index in units[unit]]
    longest = {index: max(len(rows[other].sample.token_ids) for other in unit) for unit in units for index in unit}
    batches: list[list[int]] = []
    for start in range(0, len(order), pool * batch_size):
        pooled = order[start : start + pool * batch_size]
        if pool > 1:
            pooled.sort(key=lambda index: longest[index])
        batches.extend(pooled[first : first + batch_size] for first in range(0, len(pooled), batch_size))
    return [batches[index] for index in rng.permutation(len(batches))]


def collate_rows(
    rows: Sequence[TrainingRow], *, pad_id: int, logprobs_old: Sequence[torch.Tensor] | None = None
) -> TrainingBatch:
    """Pad rows on the right to one [B, T] batch. `logprobs_old` has [T] of each row; None = not known yet (zeros).

    Raises:
        RecordError: If there is no row.

    Example:
        >>> from streakline.types import Sample
        >>> short = TrainingRow(sample=Sample(token_ids=(5, 6), loss_mask=(False, True)))
        >>> long = TrainingRow(sample=Sample(token_ids=(7, 8, 9), loss_mask=(False, False, True)))
        >>> collate_rows([short, long], pad_id=0).input_ids.tolist()
        [[5, 6, 0], [7, 8, 9]]
    """
    if not rows:
        raise RecordError("Expected at least one row with a trained token, but got none")
    samples = [row.sample for row in rows]
    engine = _padded([sample.logprobs_engine or [0.0] * len(sample.token_ids) for sample in samples], torch.float32)
    return TrainingBatch(
        input_ids=_padded([sample.token_ids for sample in samples], torch.int64, fill=pad_id),
        attention_mask=_padded([[True] * len(sample.token_ids) for sample in samples], torch.bool),
        loss_mask=_padded([sample.loss_mask for sample in samples], torch.bool),
        advantages=torch.tensor([row.advantage for row in rows], dtype=torch.float32),
        logprobs_old=pad_sequence(list(logprobs_old), batch_first=True) if logprobs_old else torch.zeros_like(engine),
        logprobs_engine=engine,
        trajectory_index=torch.tensor([row.trajectory_index for row in rows], dtype=torch.int64),
        num_barred=torch.tensor([row.num_barred for row in rows], dtype=torch.int64),
    )


def to_device(batch: TrainingBatch, device: torch.device) -> TrainingBatch:
    """Move every tensor of a batch; Lightning's own transfer refuses frozen dataclasses."""
    tensors = {field.name: attrgetter(field.name)(batch) for field in fields(batch)}
    return TrainingBatch(**{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


def _padded(rows: Sequence[Sequence[float]], dtype: torch.dtype, *, fill: int = 0) -> torch.Tensor:
    return pad_sequence([torch.tensor(row, dtype=dtype) for row in rows], batch_first=True, padding_value=fill)
