"""Rows to one padded batch of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

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
    shape = (len(rows), max(len(row.sample.token_ids) for row in rows))
    input_ids = torch.full(shape, pad_id, dtype=torch.int64)
    attention_mask = torch.zeros(shape, dtype=torch.bool)
    loss_mask = torch.zeros(shape, dtype=torch.bool)
    engine = torch.zeros(shape, dtype=torch.float32)
    old = torch.zeros(shape, dtype=torch.float32)
    for index, row in enumerate(rows):
        length = len(row.sample.token_ids)
        input_ids[index, :length] = torch.tensor(row.sample.token_ids, dtype=torch.int64)
        attention_mask[index, :length] = True
        loss_mask[index, :length] = torch.tensor(row.sample.loss_mask, dtype=torch.bool)
        if row.sample.logprobs_engine:
            engine[index, :length] = torch.tensor(row.sample.logprobs_engine, dtype=torch.float32)
        if logprobs_old is not None:
            old[index, :length] = logprobs_old[index]
    return TrainingBatch(
        input_ids=input_ids,
        attention_mask=attention_mask,
        loss_mask=loss_mask,
        advantages=torch.tensor([row.advantage for row in rows], dtype=torch.float32),
        logprobs_old=old,
        logprobs_engine=engine,
        trajectory_index=torch.tensor([row.trajectory_index for row in rows], dtype=torch.int64),
        num_barred=torch.tensor([row.num_barred for row in rows], dtype=torch.int64),
    )


def to_device(batch: TrainingBatch, device: torch.device) -> TrainingBatch:
    """Move every tensor of a batch.

    Lightning's own transfer refuses frozen dataclasses.
    """
    return TrainingBatch(
        input_ids=batch.input_ids.to(device, non_blocking=True),
        attention_mask=batch.attention_mask.to(device, non_blocking=True),
        loss_mask=batch.loss_mask.to(device, non_blocking=True),
        advantages=batch.advantages.to(device, non_blocking=True),
        logprobs_old=batch.logprobs_old.to(device, non_blocking=True),
        logprobs_engine=batch.logprobs_engine.to(device, non_blocking=True),
        trajectory_index=batch.trajectory_index.to(device, non_blocking=True),
        num_barred=batch.num_barred.to(device, non_blocking=True),
    )
