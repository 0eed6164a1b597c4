import operator
from dataclasses import fields

import pytest
import torch

from streakline.data.collate import collate_rows, to_device
from streakline.data.rows import TrainingRow
from streakline.errors import RecordError
from streakline.types import Sample

SHORT = TrainingRow(
    sample=Sample(token_ids=(5, 6, 9), loss_mask=(False, True, True), logprobs_engine=(0.0, -0.5, -0.25)),
    advantage=0.5,
    trajectory_index=3,
    num_barred=1,
)
LONG = TrainingRow(sample=Sample(token_ids=(7, 8, 9, 9), loss_mask=(False, False, True, False)), advantage=-1.0)


def test_rows_are_padded_to_the_right():
    batch = collate_rows([SHORT, LONG], pad_id=0, logprobs_old=[torch.tensor([0.0, -1.0, -2.0]), torch.zeros(4)])

    assert batch.input_ids.tolist() == [[5, 6, 9, 0], [7, 8, 9, 9]]
    assert batch.attention_mask.tolist() == [[True, True, True, False], [True] * 4]
    assert batch.loss_mask.tolist() == [[False, True, True, False], [False, False, True, False]]
    assert batch.logprobs_engine.tolist() == [[0.0, -0.5, -0.25, 0.0], [0.0] * 4]
    assert batch.logprobs_old.tolist() == [[0.0, -1.0, -2.0, 0.0], [0.0] * 4]
    assert batch.advantages.tolist() == [0.5, -1.0]
    assert batch.trajectory_index.tolist() == [3, 0]
    assert batch.num_barred.tolist() == [1, 0]


def test_an_empty_batch_is_refused():
    with pytest.raises(RecordError, match="at least one row"):
        collate_rows([], pad_id=0)


def test_a_moved_batch_holds_the_same_tensors():
    batch = collate_rows([SHORT, LONG], pad_id=0)

    moved = to_device(batch, torch.device("cpu"))

    for field in fields(batch):
        assert torch.equal(operator.attrgetter(field.name)(moved), operator.attrgetter(field.name)(batch))
