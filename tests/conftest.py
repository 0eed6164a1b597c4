"""Settings and fixtures that all tests share."""

import os
import shutil

# Before anything imports numpy or torch: xdist workers share the cores, and nothing may ask the network.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

# A busy machine is no fault of the code.
settings.register_profile("streakline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("streakline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none."""
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Run every test in a folder of its own, so that nothing it leaves behind meets another test or the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def _empty_store(tmp_path_factory):
    """An MLflow store with its tables: making them takes seconds, copying them none."""
    from mlflow.tracking import MlflowClient

    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def mlflow_store(_empty_store, tmp_path):
    """Put an MLflow store at its usual place in the test's folder, and give its URI."""
    (tmp_path / "mlruns").mkdir(exist_ok=True)
    shutil.copy(_empty_store, tmp_path / "mlruns" / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlruns/mlflow.db"
