"""Epochs of different lengths: Lightning keeps the number of batches of the first, unless loaders are rebuilt."""

import pytest
import torch
from lightning.pytorch import LightningDataModule, LightningModule
from tests.fixtures.tiny_agents import EchoEnvironment, task_set, trainer

from streakline.data.tasks import TaskDataModule


class Learner(LightningModule):
    """Notes the tasks it is given, and may change how often rollouts are reused from one epoch to the next."""

    def __init__(self, updates=(1,)):
        super().__init__()
        self.automatic_optimization = False
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.updates = updates
        self.updates_per_rollout = updates[0]
        self.epochs = []

    def on_train_epoch_start(self):
        self.epochs.append([])

    def training_step(self, batch, batch_idx):
        self.epochs[-1].append([task.id for task in batch])

    def validation_step(self, batch, batch_idx):
        pass

    def on_train_epoch_end(self):
        # Lightning rebuilds the loader before the next epoch starts.
        self.updates_per_rollout = self.updates[min(self.current_epoch + 1, len(self.updates) - 1)]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def _tasks(size):
    return TaskDataModule(train=task_set(size), environment=EchoEnvironment, batch_size=1)


class ChangingTasks(LightningDataModule):
    """Tasks of which there are more or fewer in each epoch."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def train_dataloader(self):
        tasks = _tasks(self.sizes[self.trainer.current_epoch])
        tasks.trainer = self.trainer
        tasks.setup("fit")
        return tasks.train_dataloader()

    def val_dataloader(self):
        return []

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return batch


def _fit(learner, data, folder, *, epochs):
    trainer(folder, max_epochs=epochs, reload_dataloaders_every_n_epochs=1).fit(learner, datamodule=data)
    return learner.epochs


@pytest.mark.parametrize("sizes", [(2, 5, 3), (5, 2, 4)], ids=["longer", "shorter"])
def test_every_task_of_an_epoch_of_another_length_is_seen_once(tmp_path, sizes):
    epochs = _fit(Learner(), ChangingTasks(sizes), tmp_path, epochs=3)

    for size, batches in zip(sizes, epochs, strict=True):
        assert sorted(batches) == [[f"test/train-{index}"] for index in range(size)]


@pytest.mark.parametrize("updates", [(1, 3, 2), (3, 1, 2)], ids=["longer", "shorter"])
def test_every_task_is_seen_once_where_rollouts_are_reused_more_or_less_often(tmp_path, updates):
    epochs = _fit(Learner(updates), _tasks(4), tmp_path, epochs=3)

    for count, batches in zip(updates, epochs, strict=True):
        assert sorted(batch for batch in batches if batch) == [[f"test/train-{index}"] for index in range(4)]
        assert len(batches) == 4 * count
        assert all(not batch for index, batch in enumerate(batches) if index % count)
