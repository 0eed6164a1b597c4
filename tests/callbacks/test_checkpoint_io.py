import multiprocessing
import os
import signal
import time

import pytest
import torch

from streakline.callbacks.checkpoint_io import AtomicCheckpointIO
from streakline.errors import DataError

LIGHTNING = {"pytorch-lightning_version": "2.6.6", "state_dict": {}}
"""What makes a file a checkpoint of Lightning."""


class _Exotic:
    pass


def test_what_is_saved_is_loaded(tmp_path):
    io = AtomicCheckpointIO()
    io.save_checkpoint(LIGHTNING | {"weights": torch.arange(3), "step": 4}, tmp_path / "new" / "last.ckpt")
    loaded = io.load_checkpoint(tmp_path / "new" / "last.ckpt")
    assert loaded["step"] == 4
    assert torch.equal(loaded["weights"], torch.arange(3))
    assert os.listdir(tmp_path / "new") == ["last.ckpt"]


def test_a_failed_write_keeps_the_checkpoint_of_before_and_says_so(tmp_path, monkeypatch):
    io, path = AtomicCheckpointIO(), tmp_path / "last.ckpt"
    io.save_checkpoint(LIGHTNING | {"step": 1}, path)

    def write_half_of_it(checkpoint, stream):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", write_half_of_it)
    with pytest.raises(DataError, match=r"but got: No space left on device; the one of before is kept") as caught:
        io.save_checkpoint(LIGHTNING | {"step": 2}, path)
    assert "\n" not in str(caught.value)
    assert io.load_checkpoint(path)["step"] == 1
    assert os.listdir(tmp_path) == ["last.ckpt"]


def _save_for_ever(path, started):
    io = AtomicCheckpointIO()
    for step in range(1_000_000):
        io.save_checkpoint(LIGHTNING | {"step": step, "weights": torch.full((300_000,), float(step))}, path)
        started.set()


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    path = tmp_path / "last.ckpt"
    context = multiprocessing.get_context("fork")
    for attempt in range(8):
        started = context.Event()
        writer = context.Process(target=_save_for_ever, args=(path, started))
        writer.start()
        assert started.wait(timeout=60)
        time.sleep(0.003 * attempt)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        loaded = AtomicCheckpointIO().load_checkpoint(path)
        assert torch.equal(loaded["weights"], torch.full((300_000,), float(loaded["step"])))


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 cut in the middle"])
def test_a_damaged_file_is_one_clear_line(tmp_path, content):
    path = tmp_path / "last.ckpt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="it is damaged") as caught:
        AtomicCheckpointIO().load_checkpoint(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        AtomicCheckpointIO().load_checkpoint(tmp_path / "last.ckpt")


@pytest.mark.parametrize("weights_only", [None, False])
def test_nothing_but_plain_types_and_tensors_is_loaded_whatever_is_asked(tmp_path, weights_only):
    torch.save({"state": _Exotic()}, tmp_path / "last.ckpt")
    with pytest.raises(DataError, match=r"plain types and tensors only, but got .*_Exotic"):
        AtomicCheckpointIO().load_checkpoint(tmp_path / "last.ckpt", weights_only=weights_only)


def test_a_file_of_something_else_is_refused(tmp_path):
    torch.save([1, 2], tmp_path / "last.ckpt")
    with pytest.raises(DataError, match="holds something else"):
        AtomicCheckpointIO().load_checkpoint(tmp_path / "last.ckpt")


def test_removing_what_is_gone_is_fine(tmp_path):
    path = tmp_path / "old.ckpt"
    path.touch()
    AtomicCheckpointIO().remove_checkpoint(path)
    AtomicCheckpointIO().remove_checkpoint(path)
    assert not path.exists()
