import torch
from lightning.pytorch import Trainer
from tests.fixtures.tiny_modules import TinyData, TinyModule

from streakline.callbacks.checkpoint_io import AtomicCheckpointIO
from streakline.callbacks.run_checkpoint import RunCheckpoint


def fit(folder, *, steps, resume=None, every=4, **options):
    trainer = Trainer(
        accelerator="cpu",
        max_steps=steps,
        callbacks=[RunCheckpoint(save_last=True, every_n_train_steps=every, enable_version_counter=False)],
        plugins=[AtomicCheckpointIO()],
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=0,
        **options,
    )
    module = TinyModule(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9))
    trainer.fit(module, datamodule=TinyData(), ckpt_path=resume)
    return module


def last(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)


def test_the_files_lie_in_the_run_folder(tmp_path):
    fit(tmp_path, steps=4)
    assert (tmp_path / "checkpoints" / "last.ckpt").is_file()


def test_the_end_of_training_is_saved_even_between_two_intervals(tmp_path):
    module = fit(tmp_path, steps=6)
    checkpoint = last(tmp_path)
    assert checkpoint["global_step"] == 6
    assert torch.equal(checkpoint["state_dict"]["layer.weight"], module.layer.weight)


def test_training_shorter_than_an_interval_is_saved(tmp_path):
    fit(tmp_path, steps=2, every=100)
    assert last(tmp_path)["global_step"] == 2


def test_a_run_resumed_from_its_end_equals_one_that_never_stopped(tmp_path):
    whole = fit(tmp_path / "whole", steps=11)
    for stop in (2, 3, 6, 8):
        folder = tmp_path / str(stop)
        fit(folder, steps=stop)
        resumed = fit(folder, steps=11, resume=folder / "checkpoints" / "last.ckpt")
        assert torch.equal(resumed.layer.weight, whole.layer.weight), stop
        assert last(folder)["global_step"] == 11


def test_a_run_that_stopped_within_its_last_epoch_goes_on_with_it(tmp_path):
    whole = fit(tmp_path / "whole", steps=-1, max_epochs=1)
    length = last(tmp_path / "whole")["global_step"]
    for stop in (1, length - 1):
        folder = tmp_path / str(stop)
        fit(folder, steps=stop, max_epochs=1)
        resumed = fit(folder, steps=-1, max_epochs=1, resume=folder / "checkpoints" / "last.ckpt")
        assert last(folder)["global_step"] == length
        assert torch.equal(resumed.layer.weight, whole.layer.weight)
