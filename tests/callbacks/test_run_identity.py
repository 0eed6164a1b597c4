import os
import subprocess
import sys
from pathlib import Path

import pytest

from streakline.callbacks.run_identity import RunIdentity
from streakline.errors import ConfigError


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "a\n"])
def test_a_name_that_is_no_folder_name_is_refused(name):
    with pytest.raises(ConfigError, match=r"Expected `run\.name`"):
        RunIdentity(name=name)
    with pytest.raises(ConfigError, match=r"Expected `run\.experiment`"):
        RunIdentity(experiment=name)


def test_an_experiment_in_the_place_of_the_artifacts_is_refused():
    with pytest.raises(ConfigError, match="another name than 'artifacts'"):
        RunIdentity(experiment="artifacts")


def test_a_negative_seed_is_refused():
    with pytest.raises(ConfigError, match="at least 0, but got -1"):
        RunIdentity(seed=-1)


def test_the_store_is_the_option_then_the_variable_then_the_database_beside_the_runs(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert RunIdentity(root="runs").store == "sqlite:///runs/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server")
    assert RunIdentity().store == "http://server"
    assert RunIdentity(tracking_uri="sqlite:///x.db").store == "sqlite:///x.db"


def test_the_last_checkpoint_is_the_newest_named_last():
    run = RunIdentity()
    assert run.last_checkpoint() is None
    run.checkpoints.mkdir(parents=True)
    for age, name in enumerate(["step=9.ckpt", "last-v1.ckpt", "last.ckpt"]):
        path = run.checkpoints / name
        path.touch()
        os.utime(path, (1000 - age, 1000 - age))
    (run.checkpoints / ".last.ckpt.partial").touch()
    assert run.last_checkpoint() == run.checkpoints / "last-v1.ckpt"


def test_a_run_owns_the_checkpoints_in_its_folder_only():
    run = RunIdentity(experiment="a", name="b")
    assert run.owns(run.checkpoints / "last.ckpt")
    assert run.owns(run.checkpoints.resolve() / "last.ckpt")
    assert not run.owns(RunIdentity(experiment="a", name="c").checkpoints / "last.ckpt")


def test_setting_aside_keeps_everything_under_the_next_free_name():
    run = RunIdentity(experiment="a", name="b")
    assert run.set_aside() is None
    for number in (1, 2):
        run.checkpoints.mkdir(parents=True)
        (run.checkpoints / "last.ckpt").write_text(str(number))
        assert run.set_aside() == Path(f"mlruns/a/b.{number}")
        assert not run.folder.exists()
    assert Path("mlruns/a/b.1/checkpoints/last.ckpt").read_text() == "1"


def test_only_one_process_trains_a_run():
    code = (
        "from streakline.callbacks.run_identity import RunIdentity as R; R().lock(); print('held', flush=True); input()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(ConfigError, match="another process trains it"):
        RunIdentity().lock()
    RunIdentity(name="other").lock()
    other.communicate("\n", timeout=60)
    RunIdentity().lock()
