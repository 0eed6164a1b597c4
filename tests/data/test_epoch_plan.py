from types import SimpleNamespace

from lightning.pytorch import Callback
from tests.fixtures.tiny_agents import fit, grpo_module, policy_folder, task_data, task_set

from streakline.data.tasks import PlansEpochs, plan_epoch
from streakline.tasks.sampler import EpochPlan


class Skip(Callback):
    """Skips tasks by the number of the epoch."""

    def __init__(self, *skipped, refill=False):
        self.skipped = skipped
        self.refill = refill

    def plan_epoch(self, trainer, tasks):
        indices = self.skipped[min(trainer.current_epoch, len(self.skipped) - 1)]
        return EpochPlan(skipped=frozenset(indices), once=frozenset(indices), refill=self.refill)


def _trainer(*callbacks):
    return SimpleNamespace(callbacks=list(callbacks), current_epoch=0)


def test_what_any_callback_skips_is_skipped():
    plan = plan_epoch(_trainer(Skip({1}), Callback(), Skip({2}, refill=True)), task_set(4).tasks())

    assert plan == EpochPlan(skipped=frozenset({1, 2}), once=frozenset({1, 2}), refill=True)
    assert isinstance(Skip(), PlansEpochs)
    assert not isinstance(Callback(), PlansEpochs)


def test_without_such_callbacks_or_a_trainer_an_epoch_is_whole():
    tasks = task_set(4).tasks()
    assert plan_epoch(None, tasks) == plan_epoch(_trainer(Callback()), tasks) == EpochPlan()


def _flat(batches):
    return sorted(index for batch in batches for index in batch)


def _epochs(tmp_path, *skipped, refill=False, **options):
    folder = policy_folder(tmp_path / "policy")
    record = fit(
        grpo_module(folder, lr=0.0),
        task_data(size=8),
        tmp_path,
        Skip(*skipped, refill=refill),
        max_epochs=len(skipped),
        reload_dataloaders_every_n_epochs=1,
        **options,
    )
    return [[int(task.id.rpartition("-")[2]) for task in batch] for batch in record.batches]


def test_epochs_of_the_task_datamodule_get_shorter_and_longer_again(tmp_path):
    batches = _epochs(tmp_path, set(), {0, 1, 2, 3}, {0})

    epochs = batches[:4], batches[4:6], batches[6:]
    assert [len(epoch) for epoch in epochs] == [4, 2, 3]
    assert _flat(epochs[0]) == list(range(8))
    assert _flat(epochs[1]) == [4, 5, 6, 7]
    assert 0 not in _flat(epochs[2])


def test_refilled_epochs_keep_their_length(tmp_path):
    batches = _epochs(tmp_path, set(), {0, 1, 2, 3}, refill=True)

    assert len(batches) == 8
    assert _flat(batches[4:]) == [4, 4, 5, 5, 6, 6, 7, 7]
