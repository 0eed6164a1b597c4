"""What a training run logged, read back from its MLflow run."""

from __future__ import annotations

import math
from typing import TypeAlias

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from streakline.errors import DataError

Metric: TypeAlias = "tuple[tuple[int, float], ...]"
"""(step, value) pairs in the order in which they were logged."""

PARTS = {
    "rollouts": "time/rollout",
    "tools": "time/tool",
    "rewards": "time/reward",
    "reference": "time/reference",
    "updates": "time/update",
}


def read_metric(name: str, *, run_id: str, store: str) -> Metric:
    """Read one metric of a run; empty = nothing was logged under that name.

    Raises:
        DataError: If the store has no such run.
    """
    client = MlflowClient(tracking_uri=store)
    try:
        client.get_run(run_id)  # the history of an unknown run would be empty, not an error
        history = client.get_metric_history(run_id, name)
    except MlflowException as error:
        raise DataError(f"Expected MLflow run {run_id} in {store}, but got: {str(error).splitlines()[0]}") from error
    return tuple((metric.step, metric.value) for metric in history)


def mean_in_first_epoch(metric: Metric, *, epochs: Metric) -> float:
    """Mean of a metric over the steps of epoch 0, given the metric `epoch` of the same run; nan = there are none."""
    steps = {step for step, epoch in epochs if epoch == 0}
    values = [value for step, value in metric if step in steps]
    return sum(values) / len(values) if values else math.nan


def seconds_by_part(*, run_id: str, store: str) -> dict[str, float]:
    """Seconds that the steps of a GRPO run spent on each part, over all steps; parts that took no time are left out."""
    totals = {
        part: sum(value for _, value in read_metric(name, run_id=run_id, store=store)) for part, name in PARTS.items()
    }
    return {part: seconds for part, seconds in totals.items() if seconds > 0}
