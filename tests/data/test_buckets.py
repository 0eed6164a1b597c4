import pytest
from hypothesis import given
from hypothesis import strategies as st

from streakline.data.buckets import bucketed_batches
from streakline.errors import ConfigError


@given(st.lists(st.integers(1, 99), max_size=60), st.integers(1, 7), st.integers(1, 4), st.integers(0, 3))
def test_every_epoch_holds_every_row_once_in_equally_many_batches(lengths, batch_size, pool, epoch):
    batches = bucketed_batches(lengths, batch_size=batch_size, seed=0, epoch=epoch, pool=pool)

    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // batch_size)
    assert all(len(batch) <= batch_size for batch in batches)


def test_the_order_follows_from_seed_and_epoch():
    lengths = list(range(40))

    def order(seed, epoch):
        return bucketed_batches(lengths, batch_size=4, seed=seed, epoch=epoch)

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


def test_batches_hold_rows_of_similar_length():
    lengths = [(index * 37) % 100 for index in range(100)]

    batches = bucketed_batches(lengths, batch_size=10, seed=0, epoch=0, pool=10)

    assert max(max(lengths[row] for row in batch) - min(lengths[row] for row in batch) for batch in batches) <= 10


def test_the_rows_of_a_trajectory_stay_side_by_side():
    trajectories = [index // 3 for index in range(60)]
    lengths = [(index * 37) % 100 for index in range(60)]

    batches = bucketed_batches(lengths, batch_size=6, seed=0, epoch=1, pool=10, trajectories=trajectories)

    for batch in batches:
        assert sorted(trajectories[row] for row in batch[::3]) == sorted({trajectories[row] for row in batch})


def test_a_size_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="`batch_size` to be at least 1, but got 0"):
        bucketed_batches([1], batch_size=0, seed=0, epoch=0)
