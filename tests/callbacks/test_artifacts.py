from pathlib import Path

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger

from streakline.callbacks.artifacts import artifact_stores
from streakline.callbacks.mlflow_logger import RunLogger


class _Store(CSVLogger):
    def log_text(self, text: str, artifact_file: str) -> None: ...

    def log_file(self, path: Path, artifact_folder: str) -> None: ...

    def set_tag(self, key: str, value: str) -> None: ...


def test_only_loggers_that_keep_artifacts_are_asked(tmp_path):
    store = _Store(tmp_path)
    trainer = Trainer(accelerator="cpu", logger=[CSVLogger(tmp_path), store], enable_checkpointing=False)
    assert list(artifact_stores(trainer)) == [store]


def test_the_run_logger_is_one(mlflow_store):
    from streakline.callbacks.artifacts import KeepsArtifacts
    from streakline.callbacks.run_identity import RunIdentity

    assert isinstance(RunLogger(RunIdentity()), KeepsArtifacts)
