import pytest

from streakline.errors import ConfigError
from streakline.tasks.sampler import TaskSampler


def test_each_epoch_is_a_different_order_of_the_same_tasks():
    sampler = TaskSampler(12, seed=3, batch_size=4)
    first, second = sampler.order(0), sampler.order(1)
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second
    assert first == sampler.order(0)


def test_the_seed_decides_the_order():
    assert TaskSampler(50, seed=0).order(0) != TaskSampler(50, seed=1).order(0)
    assert TaskSampler(50, seed=0).order(1) != TaskSampler(50, seed=1).order(0)


def test_without_shuffle_the_order_is_that_of_the_index():
    assert TaskSampler(7, batch_size=3, shuffle=False).order(2) == [0, 1, 2, 3, 4, 5]


def test_only_whole_batches_are_handed_out_and_the_left_out_tasks_change():
    sampler = TaskSampler(10, seed=0, batch_size=4)
    left_out = {frozenset(set(range(10)) - set(sampler.order(epoch))) for epoch in range(10)}
    assert all(len(tasks) == 2 for tasks in left_out)
    assert len(left_out) > 1


@pytest.mark.parametrize(("tasks", "batch_size"), [(2, 3), (0, 1), (3, 0)])
def test_sizes_without_a_whole_batch_are_refused(tasks, batch_size):
    with pytest.raises(ConfigError, match="Expected `"):
        TaskSampler(tasks, batch_size=batch_size)
