import operator
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from streakline.data.rows import TrainingRow, bucketed_batches, collate_rows, rows_of, to_device
from streakline.errors import RecordError
from streakline.types import Message, Role, Sample, Termination, Trajectory, Turn

END = 9


def _trajectory(task_id, *samples, truncated=False):
    """Samples as (prompt length, completion length); a truncated turn is not trained."""
    message = Message(role=Role.ASSISTANT)
    built, turns = [], []
    for index, (prompt, completion) in enumerate(samples):
        ids = (1,) * prompt + (2,) * (completion - 1) + (END,)
        built.append(Sample(token_ids=ids, loss_mask=(False,) * prompt + (not truncated,) * completion))
        turns.append(Turn(sample=index, start=prompt, end=len(ids), message=message, truncated=truncated))
    return Trajectory(
        task_id=task_id,
        samples=tuple(built),
        turns=tuple(turns),
        termination=Termination.LENGTH if truncated else Termination.ANSWER,
        terminator_id=END,
    )


def test_each_sample_of_a_trajectory_becomes_a_row_with_its_advantage():
    rows = rows_of([_trajectory("a", (3, 2), (5, 2)), _trajectory("b", (2, 4))], [0.5, -1.0])

    assert [(row.trajectory_index, row.advantage, row.num_trained_tokens) for row in rows] == [
        (0, 0.5, 2),
        (0, 0.5, 2),
        (1, -1.0, 4),
    ]


def test_the_terminator_was_barred_from_the_first_turn_alone():
    trajectory = _trajectory("a", (3, 4), (5, 4))

    assert [row.num_barred for row in rows_of([trajectory] * 2, [1.0] * 2, min_new_tokens=3)] == [3, 0, 3, 0]
    # History `strip`: what opens the episode isn't trained, so its row is gone.
    first = replace(trajectory.samples[0], loss_mask=(False,) * 7)
    stripped = replace(trajectory, samples=(first, trajectory.samples[1]), untrained_turns=1)
    assert [row.num_barred for row in rows_of([stripped], [1.0], min_new_tokens=3)] == [0]


def test_samples_without_a_trained_token_give_no_row():
    assert rows_of([_trajectory("a", (3, 2), truncated=True)], [1.0]) == ()


@pytest.mark.parametrize("mask", [(False, False), (True, True)])
def test_a_row_that_trains_nothing_or_what_nothing_predicts_is_refused(mask):
    with pytest.raises(RecordError, match="Expected a training row to train a token"):
        TrainingRow(sample=Sample(token_ids=(1, 2), loss_mask=mask))


def of_lengths(lengths, trajectories=None):
    """Rows of these lengths; each of its own trajectory unless said."""
    return [
        TrainingRow(
            sample=Sample(token_ids=(0,) * length, loss_mask=(*[False] * (length - 1), True)), trajectory_index=number
        )
        for length, number in zip(lengths, trajectories or range(len(lengths)), strict=True)
    ]


@given(st.lists(st.integers(2, 99), max_size=60), st.integers(1, 7), st.integers(1, 4), st.integers(0, 3))
def test_every_epoch_holds_every_row_once_in_equally_many_batches(lengths, batch_size, pool, epoch):
    batches = bucketed_batches(of_lengths(lengths), batch_size=batch_size, seed=0, epoch=epoch, pool=pool)

    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // batch_size)
    assert all(len(batch) <= batch_size for batch in batches)


def test_the_order_follows_from_seed_and_epoch():
    lengths = list(range(2, 42))

    def order(seed, epoch):
        return bucketed_batches(of_lengths(lengths), batch_size=4, seed=seed, epoch=epoch)

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


def test_batches_hold_rows_of_similar_length():
    lengths = [2 + (index * 37) % 100 for index in range(100)]

    batches = bucketed_batches(of_lengths(lengths), batch_size=10, seed=0, epoch=0, pool=10)

    assert max(max(lengths[row] for row in batch) - min(lengths[row] for row in batch) for batch in batches) <= 10


def test_the_rows_of_a_trajectory_stay_side_by_side():
    trajectories = [index // 3 for index in range(60)]
    lengths = [2 + (index * 37) % 100 for index in range(60)]

    batches = bucketed_batches(of_lengths(lengths, trajectories), batch_size=6, seed=0, epoch=1, pool=10)

    for batch in batches:
        assert sorted(trajectories[row] for row in batch[::3]) == sorted({trajectories[row] for row in batch})


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
