import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from streakline.errors import ConfigError, DataError
from streakline.tasks.sampler import TaskSampler


def drawn(sampler, count):
    """The next `count` indices, over as many epochs as it takes."""
    indices = []
    while True:
        for index in sampler:
            indices.append(index)
            if len(indices) == count:
                return indices


def test_each_epoch_is_a_different_order_of_the_same_tasks():
    sampler = TaskSampler(12, seed=3, batch_size=4)
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second
    assert first == TaskSampler(12, seed=3, batch_size=4).order(0)


def test_the_seed_decides_the_order():
    assert TaskSampler(50, seed=0).order(0) != TaskSampler(50, seed=1).order(0)
    assert TaskSampler(50, seed=0).order(1) != TaskSampler(50, seed=1).order(0)


def test_without_shuffle_the_order_is_that_of_the_index():
    assert list(TaskSampler(7, batch_size=3, shuffle=False)) == [0, 1, 2, 3, 4, 5]


def test_only_whole_batches_are_handed_out_and_the_left_out_tasks_change():
    sampler = TaskSampler(10, seed=0, batch_size=4)
    assert len(sampler) == 8
    left_out = {frozenset(set(range(10)) - set(sampler.order(epoch))) for epoch in range(10)}
    assert all(len(tasks) == 2 for tasks in left_out)
    assert len(left_out) > 1


@settings(deadline=None)
@given(
    tasks=st.integers(1, 30),
    batch_size=st.integers(1, 8),
    steps=st.integers(0, 40),
    more=st.integers(1, 20),
    shuffle=st.booleans(),
)
def test_a_restored_sampler_goes_on_where_the_stored_one_stood(tasks, batch_size, steps, more, shuffle):
    tasks = max(tasks, batch_size)
    whole = drawn(TaskSampler(tasks, seed=1, batch_size=batch_size, shuffle=shuffle), (steps + more) * batch_size)
    stopped = TaskSampler(tasks, seed=1, batch_size=batch_size, shuffle=shuffle)
    if steps:
        drawn(stopped, steps * batch_size)
    state = json.loads(json.dumps(stopped.state_dict()))
    resumed = TaskSampler(tasks, seed=1, batch_size=batch_size, shuffle=shuffle)
    resumed.load_state_dict(state)
    assert drawn(resumed, more * batch_size) == whole[steps * batch_size :]


def test_indices_handed_out_but_not_used_are_drawn_again():
    sampler = TaskSampler(12, seed=0, batch_size=3)
    handed_out = drawn(sampler, 6)
    resumed = TaskSampler(12, seed=0, batch_size=3)
    resumed.load_state_dict(sampler.state_dict(unused=3))
    assert drawn(resumed, 3) == handed_out[3:]


def test_the_state_is_plain_integers():
    sampler = TaskSampler(4, batch_size=2)
    drawn(sampler, 2)
    assert {type(value) for value in sampler.state_dict().values()} == {int}


def test_a_loader_draws_the_same_batches_after_a_resume():
    def batches(sampler):
        return [batch.tolist() for batch in DataLoader(range(9), batch_size=3, sampler=sampler)]

    sampler = TaskSampler(9, seed=5, batch_size=3)
    first, second = batches(sampler), batches(sampler)
    resumed = TaskSampler(9, seed=5, batch_size=3)
    resumed.load_state_dict({"epoch": 0, "position": 6})
    assert batches(resumed) == first[2:]
    assert batches(resumed) == second
    assert resumed.epoch == 2


@pytest.mark.parametrize(
    "state",
    [{"epoch": 0}, {"epoch": 0, "position": 0, "seed": 1}, {"epoch": 0, "position": 5}, {"epoch": 0, "position": 14}],
)
def test_a_state_that_does_not_fit_is_refused(state):
    with pytest.raises(DataError, match="Expected"):
        TaskSampler(12, batch_size=3).load_state_dict(state)


@pytest.mark.parametrize(("tasks", "batch_size"), [(2, 3), (0, 1), (3, 0)])
def test_sizes_without_a_whole_batch_are_refused(tasks, batch_size):
    with pytest.raises(ConfigError, match="Expected `"):
        TaskSampler(tasks, batch_size=batch_size)
