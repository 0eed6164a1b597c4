"""Which run this is: experiment and name decide the folder, the MLflow run and what `last` means."""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path

from streakline.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """Identity of a run. The same identity resumes and evaluates the same run.

    Example::

        >>> run = RunIdentity(experiment="quickstart", name="grpo-seed0")
        >>> run.folder.as_posix()
        'mlruns/quickstart/grpo-seed0'
    """

    experiment: str = "default"
    """MLflow experiment, and folder under `root`."""
    name: str = "run"
    """Name within the experiment, and folder under that of the experiment."""
    seed: int = 0
    """The one seed of the run: rollouts, task order, initial weights and everything else derive from it."""
    root: str = "mlruns"
    """Folder that holds the runs."""
    tracking_uri: str | None = None
    """MLflow store; None = the variable MLFLOW_TRACKING_URI, else `sqlite:///<root>/mlflow.db`."""

    def __post_init__(self) -> None:
        """Check that the names are good folder names."""
        for label, value in (("experiment", self.experiment), ("name", self.name)):
            if not _NAME.fullmatch(value):
                raise ConfigError(
                    f"Expected `run.{label}` to hold letters, digits, '.', '_' and '-' only, but got {value!r}"
                )
        # The folder of that name holds the artifacts of MLflow.
        if self.experiment == "artifacts":
            raise ConfigError("Expected `run.experiment` to be another name than 'artifacts'")
        if self.seed < 0:
            raise ConfigError(f"Expected `run.seed` to be at least 0, but got {self.seed}")

    @property
    def folder(self) -> Path:
        """Where everything that the run leaves behind lies."""
        return Path(self.root) / self.experiment / self.name

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def artifacts(self) -> Path:
        """Folder in which MLflow keeps the artifacts of the experiment."""
        return Path(self.root) / "artifacts" / self.experiment

    @property
    def mlflow_run_id_file(self) -> Path:
        """File that holds the id of the MLflow run, so that a resumed run goes on with it."""
        return self.folder / "mlflow_run_id"

    @property
    def store(self) -> str:
        """Tracking URI of MLflow."""
        return self.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.root}/mlflow.db"

    def last_checkpoint(self) -> Path | None:
        """Find the newest checkpoint named `last`; None = there is none."""
        found = sorted(self.checkpoints.glob("last*.ckpt"), key=lambda path: path.stat().st_mtime_ns)
        return found[-1] if found else None

    def owns(self, checkpoint: Path) -> bool:
        """Tell whether a checkpoint is one of this run's."""
        return self.checkpoints.resolve() in checkpoint.resolve().parents

    def lock(self) -> None:
        """Keep other processes from training the run until this one ends; raises `ConfigError` where one does."""
        path = self.folder.with_name(f".{self.name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        # Never closed: the system drops the lock when the process ends, however it ends.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise ConfigError(
                f"Expected to be alone with the run {self.folder}, but another process trains it: wait for it, or "
                "choose another `run.name`"
            ) from error

    def set_aside(self) -> Path | None:
        """Rename the folder of an earlier run of the same identity, so that a fresh one starts in an empty folder.

        Gives the new name; None = there was nothing to keep.
        """
        if not self.folder.is_dir() or not any(self.folder.iterdir()):
            return None
        number = 1
        while (target := self.folder.with_name(f"{self.name}.{number}")).exists():
            number += 1
        self.folder.rename(target)
        return target
