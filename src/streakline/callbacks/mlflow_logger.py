"""The MLflow run of a run: fails early and clearly, and later never takes a training down with it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import sqlite3
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import MLFlowLogger
from lightning.pytorch.utilities import rank_zero_only
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError
from typing_extensions import override

from streakline.callbacks.run_identity import RunIdentity
from streakline.errors import DataError
from streakline.types import JSON

_STORE_ERRORS = (MlflowException, SQLAlchemyError, OSError)

_SQLITE = "sqlite:///"

_MAX_PARAM_LENGTH = 6000
"""What MLflow 3 stores of a parameter's value; Lightning's own logger cuts at 250 without a word."""

_PARAMS_AT_ONCE = 100
_METRICS_AT_ONCE = 1000
"""What MLflow takes in one call."""

_MAX_PENDING = 100_000
"""Metric values kept while the store can't be reached, about 20 MB; older ones are dropped."""

_RETRY_AFTER_S = 120.0
"""A locked store costs 20 seconds at each attempt."""


@final
class RunLogger(MLFlowLogger):
    """Logs to the MLflow run of a `RunIdentity`, and goes on with that run when its folder already names one.

    A store that can't be used is an error at the start, before work is spent. Later it is a warning: metrics wait and
    are sent when it answers again, because hours of training are worth more than their curve.

    Raises:
        DataError: If the store is locked, unreachable or damaged.
    """

    def __init__(self, run: RunIdentity) -> None:
        self._pending: list[Metric] = []
        self._num_dropped = 0
        self._blocked_until = 0.0
        # MLflow's own defaults ask an unreachable server for minutes.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        # Our own one line says it; MLflow adds a page of traceback.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        probe_store(run.store)
        is_local = run.store.startswith(_SQLITE)
        # MLflow keeps a store open under its URI, whatever folder that is relative to by then.
        uri = f"{_SQLITE}{Path(run.store.removeprefix(_SQLITE)).resolve()}" if is_local else run.store
        try:
            with _alone_at(run.folder.parents[1]):
                super().__init__(experiment_name=run.experiment, run_name=run.name, tracking_uri=uri)
                self._run_id = self._stored_run_id(run)
                if self._run_id is None and self._mlflow_client.get_experiment_by_name(run.experiment) is None:
                    # Beside the runs where the store is a local database; None = the server knows.
                    location = str(run.artifacts.resolve()) if is_local else None
                    self._mlflow_client.create_experiment(run.experiment, artifact_location=location)
                with _unchanged_variable("MLFLOW_TRACKING_URI"):
                    identifier = self.run_id
            if identifier is not None:
                self._mlflow_client.update_run(identifier, status="RUNNING")
                self._mlflow_client.set_tag(identifier, "run_folder", run.folder.as_posix())
                run.folder.mkdir(parents=True, exist_ok=True)
                run.mlflow_run_id_file.write_text(identifier, encoding="utf-8")
        except _STORE_ERRORS as error:
            raise DataError(f"Expected to open the MLflow store {run.store}, but got: {_first_line(error)}") from error

    def _stored_run_id(self, run: RunIdentity) -> str | None:
        if not run.mlflow_run_id_file.is_file():
            return None
        identifier = run.mlflow_run_id_file.read_text(encoding="utf-8").strip()
        try:
            found = self._mlflow_client.get_run(identifier)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            warnings.warn(
                f"MLflow run {identifier} of {run.folder} is not in {run.store}: a new one is made", stacklevel=3
            )
            return None
        return identifier if found.info.lifecycle_stage == "active" else None

    @override
    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Send metrics, or keep them until the store answers; `pass@1` becomes `pass_at_1`, see `metric_name`."""
        now_ms = int(time.time() * 1000)
        self._pending += [Metric(metric_name(key), float(value), now_ms, step or 0) for key, value in metrics.items()]
        if len(self._pending) > _MAX_PENDING:
            self._num_dropped += len(self._pending) - _MAX_PENDING
            del self._pending[:-_MAX_PENDING]
        if time.monotonic() >= self._blocked_until:
            self._send_pending()

    def _send_pending(self, *, is_quiet: bool = False) -> None:
        def send() -> None:
            while self._pending:
                self.experiment.log_batch(self.run_id, metrics=self._pending[:_METRICS_AT_ONCE])
                del self._pending[:_METRICS_AT_ONCE]

        self._attempt("metrics", send, is_quiet=is_quiet)

    @override
    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace) -> None:
        """Log parameters without cutting or changing one.

        A value too long for MLflow becomes the artifact `params/<name>.txt` and the parameter holds its digest. A value
        that differs from what the run holds already (a resumed run: MLflow never changes a parameter) is named in the
        tag `changed_parameters`.
        """
        flat = flatten(vars(params) if isinstance(params, Namespace) else params)
        self._attempt("parameters", lambda: self._log_params(flat))

    def _log_params(self, flat: Mapping[str, str]) -> None:
        client, run_id = self.experiment, self.run_id
        run = client.get_run(run_id).data
        known, already = run.params, run.tags.get("changed_parameters", "")
        long = {key: value for key, value in flat.items() if len(value) > _MAX_PARAM_LENGTH}
        digests = {key: f"sha256:{hashlib.sha256(value.encode()).hexdigest()}" for key, value in long.items()}
        short = {**flat, **digests}
        new = [Param(key, value) for key, value in short.items() if key not in known]
        for start in range(0, len(new), _PARAMS_AT_ONCE):
            client.log_batch(run_id, params=new[start : start + _PARAMS_AT_ONCE])
        for key, value in long.items():
            client.log_text(run_id, value, f"params/{key}.txt")
        changed = {key for key, value in short.items() if known.get(key, value) != value}
        if changed:
            names = sorted(changed.union(already.split(", ") if already else ()))
            client.set_tag(run_id, "changed_parameters", ", ".join(names)[:5000])

    @rank_zero_only
    def log_text(self, text: str, artifact_file: str) -> None:
        """Store a text as an artifact."""
        self._attempt(artifact_file, lambda: self.experiment.log_text(self.run_id, text, artifact_file))

    @rank_zero_only
    def log_file(self, path: Path, artifact_folder: str) -> None:
        """Store a file as an artifact."""
        self._attempt(
            str(path), lambda: self.experiment.log_artifact(self.run_id, str(path), artifact_path=artifact_folder)
        )

    @rank_zero_only
    def set_tag(self, key: str, value: str) -> None:
        """Set a tag, which unlike a parameter can change."""
        self._attempt(f"tag {key}", lambda: self.experiment.set_tag(self.run_id, key, value))

    @override
    @rank_zero_only
    def finalize(self, status: str = "success") -> None:
        """Send what waits and close the run."""
        self._blocked_until = 0.0
        self._send_pending(is_quiet=True)
        self._attempt("the end of the run", lambda: super(RunLogger, self).finalize(status))
        lost = len(self._pending) + self._num_dropped
        if lost:
            warnings.warn(f"{lost} metric values could not be written to {self._tracking_uri}", stacklevel=2)

    def _attempt(self, what: str, action: Callable[[], object], *, is_quiet: bool = False) -> None:
        try:
            action()
        except _STORE_ERRORS as error:
            self._blocked_until = time.monotonic() + _RETRY_AFTER_S
            if not is_quiet:
                line = _first_line(error)
                warnings.warn(f"Could not write {what} to {self._tracking_uri}, work goes on: {line}", stacklevel=3)


def artifact_stores(trainer: Trainer) -> list[RunLogger]:
    """Loggers of a trainer that keep texts and files beside numbers."""
    return [logger for logger in trainer.loggers if isinstance(logger, RunLogger)]


def metric_name(name: str) -> str:
    """Spell a metric name with the characters that MLflow takes.

    Example::

        >>> metric_name("held_out/pass@1")
        'held_out/pass_at_1'
    """
    return re.sub(r"[^a-zA-Z0-9_/. -]", "_", name.replace("@", "_at_"))


def flatten(value: JSON | Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Write a nested configuration as text values by dotted name. A list stays whole: its parts have no names.

    Example::

        >>> flatten({"model": {"lr": 0.1, "betas": [0.9, 0.98]}})
        {'model.lr': '0.1', 'model.betas': '[0.9, 0.98]'}
    """
    if isinstance(value, Mapping):
        parts = [flatten(item, f"{prefix}.{key}" if prefix else str(key)) for key, item in value.items()]
        return {key: text for part in parts for key, text in part.items()}
    text = json.dumps(value, default=str) if isinstance(value, list | tuple) else str(value)
    return {metric_name(prefix)[:250]: text}


def probe_store(store: str) -> None:
    """Raise `DataError` soon where SQLAlchemy would retry for half a minute; a store on a server is not asked."""
    if not store.startswith(_SQLITE):
        return
    path = Path(store.removeprefix(_SQLITE))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=10)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()
    except (sqlite3.Error, OSError) as error:
        raise DataError(f"Expected to write to the MLflow store {store}, but got: {_first_line(error)}") from error


@contextmanager
def _unchanged_variable(name: str) -> Iterator[None]:
    """MLflow puts its store into the environment, where the next run would take it for the user's choice."""
    value = os.environ.get(name)
    try:
        yield
    finally:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _alone_at(folder: Path) -> Iterator[None]:
    """Wait for other processes that open the store: MLflow makes its tables unguarded, and two makers spoil them."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".mlflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _first_line(error: Exception) -> str:
    text = str(error.strerror) if isinstance(error, OSError) and error.strerror else str(error)
    return text.strip().split("\n")[0] or type(error).__name__
