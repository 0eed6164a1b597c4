"""Rows to one padded batch of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter

import torch
from torch.nn.utils.rnn import pad_sequence

from streakline.data.rows import TrainingRow
from streakline.errors import RecordError
from streakline.types import TrainingBatch


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
