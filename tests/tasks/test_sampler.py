import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streakline.errors import ConfigError
from streakline.tasks.sampler import EpochPlan, TaskSampler


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


def test_without_skipped_tasks_a_plan_changes_nothing():
    sampler = TaskSampler(10, seed=0, batch_size=4)
    for epoch in range(3):
        assert sampler.order(epoch, EpochPlan(refill=True)) == sampler.order(epoch)


@given(
    num_tasks=st.integers(1, 30),
    batch_size=st.integers(1, 8),
    skipped=st.sets(st.integers(0, 29)),
    once=st.sets(st.integers(0, 29)),
    refill=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_an_epoch_shrinks_or_is_refilled_with_tasks_that_are_left(num_tasks, batch_size, skipped, once, refill, epoch):
    assume(num_tasks >= batch_size)
    everything = set(range(num_tasks))
    skipped &= everything
    once = (once & everything) - skipped
    plan = EpochPlan(skipped=frozenset(skipped), once=frozenset(once), refill=refill)

    order = TaskSampler(num_tasks, seed=1, batch_size=batch_size).order(epoch, plan)

    num_left = num_tasks - len(skipped)
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    assert all(len(set(batch)) == batch_size for batch in batches)
    # Where all that is left comes once, there is nothing to refill an epoch with.
    is_refilled = refill and num_left > len(once)
    assert len(batches) == (num_tasks if is_refilled else max(num_left, batch_size)) // batch_size
    if num_left >= batch_size and num_left - len(once) >= batch_size:
        assert not skipped & set(order)
        assert all(order.count(index) <= 1 for index in once)
    if not refill:
        assert len(set(order)) == len(order)


def test_an_epoch_of_which_little_is_left_is_filled_up_to_one_batch():
    order = TaskSampler(9, seed=0, batch_size=4).order(1, EpochPlan(skipped=frozenset(range(7))))

    assert set(order[:2]) == {7, 8}
    assert len(order) == 4


def test_passes_of_a_refilled_epoch_differ():
    order = TaskSampler(12, seed=0, batch_size=2).order(0, EpochPlan(skipped=frozenset(range(6)), refill=True))

    assert sorted(order[:6]) == sorted(order[6:]) == list(range(6, 12))
    assert order[:6] != order[6:]
