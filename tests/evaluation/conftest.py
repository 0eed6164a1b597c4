"""A training run as MLflow keeps it."""

from __future__ import annotations

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric

LOGGED = {
    "epoch": [0, 0, 1],
    "train/zero_variance": [0.5, 0.3, 0.9],
    "time/rollout": [2.0, 3.0, 1.0],
    "time/update": [1.0, 1.0, 0.5],
    "time/reference": [0.0, 0.0, 0.0],
}


@pytest.fixture(scope="session")
def logged_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """(store, run id) of a run that logged `LOGGED`, once for all tests: making a store takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    store = f"sqlite:///{folder}/mlflow.db"
    client = MlflowClient(tracking_uri=store)
    run_id = client.create_run(client.create_experiment("quickstart", artifact_location=str(folder))).info.run_id
    metrics = [
        Metric(key=name, value=value, timestamp=step, step=step)
        for name, values in LOGGED.items()
        for step, value in enumerate(values)
    ]
    client.log_batch(run_id, metrics=metrics)
    return store, run_id
