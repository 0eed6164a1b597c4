"""Settings and fixtures that all tests share."""

import os

# Before anything imports numpy or torch: xdist workers share the cores, and nothing may ask the network.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
import torch

torch.set_num_threads(1)


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
