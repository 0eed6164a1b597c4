import sqlite3
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger
from mlflow.tracking import MlflowClient

from streakline.callbacks import mlflow_logger
from streakline.callbacks.mlflow_logger import RunLogger, artifact_stores, flatten, metric_name
from streakline.callbacks.run_identity import RunIdentity
from streakline.errors import DataError

RUN = RunIdentity(experiment="exp", name="one")


@pytest.fixture
def client(mlflow_store):
    return MlflowClient(mlflow_store)


def history(client, logger, name):
    return [(metric.step, metric.value) for metric in client.get_metric_history(logger.run_id, name)]


def test_the_run_carries_experiment_name_and_folder(client):
    logger = RunLogger(RUN)
    run = client.get_run(logger.run_id)
    assert client.get_experiment(run.info.experiment_id).name == "exp"
    assert run.info.run_name == "one"
    assert run.data.tags["run_folder"] == "mlruns/exp/one"
    assert RUN.mlflow_run_id_file.read_text() == logger.run_id


def test_the_same_identity_goes_on_with_the_same_run(client):
    first = RunLogger(RUN)
    first.log_metrics({"loss": 1.0}, step=1)
    first.finalize("success")
    second = RunLogger(RUN)
    second.log_metrics({"loss": 0.5}, step=2)
    assert second.run_id == first.run_id
    assert client.get_run(first.run_id).info.status == "RUNNING"
    assert history(client, first, "loss") == [(1, 1.0), (2, 0.5)]
    second.finalize("success")
    assert client.get_run(first.run_id).info.status == "FINISHED"


def test_a_run_that_the_store_no_longer_has_is_replaced_with_a_warning(client):
    first = RunLogger(RUN)
    RUN.mlflow_run_id_file.write_text("0" * 32)
    with pytest.warns(UserWarning, match="a new one is made"):
        second = RunLogger(RUN)
    assert second.run_id not in {first.run_id, "0" * 32}


def test_a_metric_keeps_its_meaning_in_its_name(client):
    logger = RunLogger(RUN)
    logger.log_metrics({"test/pass@1": 0.25, "test/pass1": 0.5}, step=3)
    assert history(client, logger, "test/pass_at_1") == [(3, 0.25)]
    assert history(client, logger, "test/pass1") == [(3, 0.5)]


def test_no_parameter_is_cut_silently(client, tmp_path):
    logger = RunLogger(RUN)
    middle, long = "m" * 3000, "x" * 20_000
    logger.log_hyperparams({"model": {"prompt": middle, "template": long}})
    params = client.get_run(logger.run_id).data.params
    assert params["model.prompt"] == middle
    assert params["model.template"].startswith("sha256:")
    stored = client.download_artifacts(logger.run_id, "params/model.template.txt", str(tmp_path))
    assert Path(stored).read_text() == long


def test_a_resumed_run_may_differ_in_a_parameter(client):
    RunLogger(RUN).log_hyperparams({"lr": 0.1, "seed": 1})
    logger = RunLogger(RUN)
    logger.log_hyperparams({"lr": 0.2, "seed": 1, "new": 3})
    run = client.get_run(logger.run_id)
    assert run.data.params == {"lr": "0.1", "seed": "1", "new": "3"}
    assert run.data.tags["changed_parameters"] == "lr"


def test_more_parameters_than_mlflow_takes_at_once_are_all_there(client):
    logger = RunLogger(RUN)
    logger.log_hyperparams({f"p{index}": index for index in range(250)})
    assert len(client.get_run(logger.run_id).data.params) == 250


def test_a_locked_store_is_one_clear_line_at_the_start(client, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(mlflow_logger.sqlite3, "connect", lambda path, timeout: connect(path, timeout=0.05))
    holder = connect("mlruns/mlflow.db")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DataError, match="database is locked") as caught:
        RunLogger(RUN)
    assert "\n" not in str(caught.value)
    holder.close()


def test_a_damaged_store_is_one_clear_line(tmp_path):
    (tmp_path / "mlruns").mkdir()
    (tmp_path / "mlruns" / "mlflow.db").write_bytes(b"not a database" * 100)
    with pytest.raises(DataError, match="file is not a database"):
        RunLogger(RUN)


def test_a_store_in_a_place_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").touch()
    run = RunIdentity(tracking_uri="sqlite:///file/mlflow.db")
    with pytest.raises(DataError, match="Expected to write to the MLflow store"):
        RunLogger(run)


def test_of_several_loggers_those_that_keep_artifacts_are_asked(client, tmp_path):
    logger = RunLogger(RUN)
    trainer = Trainer(accelerator="cpu", logger=[CSVLogger(tmp_path), logger], enable_checkpointing=False)
    assert artifact_stores(trainer) == [logger]


@pytest.fixture
def broken(monkeypatch):
    """Make the store fail as long as the flag stands."""

    class Flag:
        is_down = False

    flag, send = Flag(), MlflowClient.log_batch

    def log_batch(self, *args, **kwargs):
        if flag.is_down:
            raise OSError(28, "No space left on device")
        return send(self, *args, **kwargs)

    monkeypatch.setattr(MlflowClient, "log_batch", log_batch)
    return flag


def test_metrics_wait_while_the_store_fails_and_come_late_but_whole(client, broken):
    logger = RunLogger(RUN)
    broken.is_down = True
    with pytest.warns(UserWarning, match="work goes on: No space left on device"):
        logger.log_metrics({"loss": 3.0}, step=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logger.log_metrics({"loss": 2.0}, step=2)
    broken.is_down = False
    logger.finalize("success")
    assert history(client, logger, "loss") == [(1, 3.0), (2, 2.0)]


def test_metrics_that_never_reach_the_store_are_counted_at_the_end(client, broken):
    logger = RunLogger(RUN)
    broken.is_down = True
    with pytest.warns(UserWarning, match="Could not write metrics"):
        logger.log_metrics({"loss": 3.0, "reward": 1.0}, step=1)
    with pytest.warns(UserWarning, match="2 metric values could not be written"):
        logger.finalize("failed")
    assert client.get_run(logger.run_id).info.status == "FAILED"


def test_what_waits_is_bounded(client, broken, monkeypatch):
    monkeypatch.setattr(mlflow_logger, "_MAX_PENDING", 3)
    logger = RunLogger(RUN)
    broken.is_down = True
    with pytest.warns(UserWarning, match="Could not write metrics"):
        logger.log_metrics({"loss": 0.0}, step=0)
    for step in range(1, 5):
        logger.log_metrics({"loss": float(step)}, step=step)
    broken.is_down = False
    with pytest.warns(UserWarning, match="2 metric values could not be written"):
        logger.finalize("success")
    assert history(client, logger, "loss") == [(2, 2.0), (3, 3.0), (4, 4.0)]


_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), _TREES, max_size=4))
def test_flattening_keeps_every_leaf(tree):
    def leaves(value):
        return sum(map(leaves, value.values())) if isinstance(value, dict) else 1

    assert len(flatten(tree)) == leaves(tree)


@given(st.text(max_size=30))
def test_every_metric_name_is_one_that_mlflow_takes(name):
    from mlflow.utils.validation import _validate_metric_name

    spelt = metric_name(f"m{name}m")
    if "//" not in spelt and "/." not in spelt and "./" not in spelt:  # paths that MLflow refuses are nobody's names
        _validate_metric_name(spelt)
