import pytest

from streakline.data.loader import Cursor, ResumableLoader, SequentialLoader, Shard
from streakline.errors import DataError


class FakeTrainer:
    """Counts as Lightning's loop does: a batch is trained some time after it was fetched."""

    def __init__(self, ready=0):
        self.ready = ready
        self.processed = ready

    def next_batch(self):
        return self.ready

    def trained_batches(self):
        return self.processed

    def train(self, loader, steps):
        seen = []
        for batch in loader:
            self.ready += 1
            seen.append(batch)
            self.processed += 1
            if len(seen) == steps:
                return seen
        self.ready = self.processed = 0
        return seen


def _plan(epoch):
    return [[10 * epoch + 2 * index, 10 * epoch + 2 * index + 1] for index in range(4)]


def _loader(cursor, trainer=None, **options):
    return ResumableLoader(_plan, fetch=list, cursor=cursor, progress=trainer, **options)


def test_epochs_follow_each_other():
    loader = _loader(Cursor())

    assert len(loader) == 4
    assert list(loader) == _plan(0)
    assert list(loader) == _plan(1)


@pytest.mark.parametrize("lengths", [(4, 3, 2), (2, 3, 4), (3, 1, 4)])
def test_without_a_trainer_epochs_of_other_lengths_are_whole(lengths):
    cursor = Cursor()
    for epoch, length in enumerate(lengths):
        loader = ResumableLoader(lambda epoch, length=length: _plan(epoch)[:length], fetch=list, cursor=cursor)
        assert list(loader) == _plan(epoch)[:length]


def test_without_a_trainer_an_epoch_that_was_left_goes_on():
    cursor = Cursor()
    iterator = iter(_loader(cursor))
    assert [next(iterator), next(iterator)] == _plan(0)[:2]
    resumed = Cursor()
    resumed.load_state_dict(cursor.state_dict())

    assert list(_loader(cursor)) == list(_loader(resumed)) == _plan(0)[2:]
    assert list(_loader(cursor)) == list(_loader(resumed)) == _plan(1)


def test_making_an_iterator_that_is_never_used_changes_nothing():
    loader = _loader(Cursor(), FakeTrainer())
    iter(loader)

    assert next(iter(loader)) == [0, 1]


@pytest.mark.parametrize("stop", [1, 2, 3, 5, 7])
def test_after_a_kill_the_same_batches_follow(stop):
    whole_trainer = FakeTrainer()
    whole = _loader(Cursor(), whole_trainer)
    expected = [batch for _ in range(3) for batch in whole_trainer.train(whole, steps=99)]

    first_trainer, cursor = FakeTrainer(), Cursor()
    first = _loader(cursor, first_trainer)
    seen = []
    while len(seen) < stop:
        seen += first_trainer.train(first, steps=stop - len(seen))
    state = cursor.state_dict()
    resumed_cursor = Cursor()
    resumed_cursor.load_state_dict(state)
    second_trainer = FakeTrainer(ready=stop % 4)
    second = _loader(resumed_cursor, second_trainer)
    while len(seen) < 12:
        seen += second_trainer.train(second, steps=99)

    assert seen == expected


def test_a_batch_that_was_fetched_but_not_trained_comes_again():
    trainer, cursor = FakeTrainer(), Cursor()
    iterator = iter(_loader(cursor, trainer))
    assert next(iterator) == [0, 1]  # the kill comes before it is trained

    resumed = Cursor()
    resumed.load_state_dict(cursor.state_dict())

    assert cursor.state_dict() == {"epoch": 0, "position": 0}
    assert next(iter(_loader(resumed, FakeTrainer()))) == [0, 1]


def test_an_epoch_that_ended_early_is_followed_by_the_next():
    trainer, cursor = FakeTrainer(), Cursor()
    trainer.train(_loader(cursor, trainer), steps=2)

    # A time bound ended the epoch: Lightning begins a new one at its first batch.
    resumed = Cursor()
    resumed.load_state_dict(cursor.state_dict())

    assert next(iter(_loader(resumed, FakeTrainer()))) == [10, 11]


def test_the_state_outlives_a_loader_that_is_rebuilt():
    trainer, cursor = FakeTrainer(), Cursor()
    trainer.train(_loader(cursor, trainer), steps=99)

    assert trainer.train(_loader(cursor, trainer), steps=99) == _plan(1)


def test_processes_share_each_batch():
    shares = [list(_loader(Cursor(), shard=Shard(rank=rank, world_size=2))) for rank in range(2)]

    assert shares[0] == [batch[:1] for batch in _plan(0)]
    assert shares[1] == [batch[1:] for batch in _plan(0)]


def test_a_process_without_a_share_gets_an_empty_list_or_the_first_item():
    assert Shard(rank=1, world_size=2).of([5]) == []
    assert Shard(rank=1, world_size=2, fill=True).of([5]) == [5]
    assert Shard(rank=1, world_size=2, fill=True).of([]) == []


def test_held_out_items_keep_their_order():
    loader = SequentialLoader([1, 2, 3, 4, 5], batch_size=2, fetch=list)

    assert len(loader) == 3
    assert list(loader) == list(loader) == [[1, 2], [3, 4], [5]]


def test_a_state_of_something_else_is_refused():
    with pytest.raises(DataError, match="`epoch` and `position`, but got \\['offset'\\]"):
        Cursor().load_state_dict({"offset": 1})
