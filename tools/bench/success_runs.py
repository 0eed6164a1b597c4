"""The trainings of `time_to_success.py`: ordinary commands, each run once, and what they logged."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from success_curves import Curve

from streakline.errors import StreaklineError
from streakline.evaluation.run_metrics import PARTS, read_metric, seconds_by_part

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENT = "time-to-success"
ARMS: Mapping[str, tuple[str, str]] = {
    "plain": ("plain.yaml", "padded"),
    "filter": ("filter.yaml", "padded"),
    "down-sampling": ("down_sample.yaml", "padded"),
    "both": ("both.yaml", "padded"),
    "all": ("both.yaml", "auto"),
}
"""Arm -> its config under configs/ablation/efficiency, and how rows share passes."""
STUDIES: Mapping[str, str] = {"single": "[1]", "multi": "[2]"}
"""Study -> the numbers of user turns of its tasks."""


class BenchError(StreaklineError, RuntimeError):
    """A command of the benchmark failed; it has said why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One finished training."""

    curve: Curve
    seconds: Mapping[str, float]
    """By part of a step, over the whole run."""
    steps: int
    generated_tokens: float
    trained_tokens: float
    all_correct_at_start: float
    """Share of the groups of the first epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where the runs lie, and what they have in common."""

    folder: Path
    model: str
    """Policy that they start from."""
    steps: int
    """Optimiser steps of each training."""
    options: Sequence[str]
    """Further arguments of each training."""

    @property
    def store(self) -> str:
        """MLflow store of the runs."""
        return f"sqlite:///{self.folder.resolve()}/mlflow.db"

    def start(self, study: str) -> float:
        """Held-out success before training, measured once a study."""
        name = f"{study}-start"
        if not (marker := self.folder / f"{name}.json").exists():
            self._main("validate", study, name)
            marker.write_text(json.dumps({"success": self._metric(name, "validate/success_sampled")[-1][1]}))
        return float(json.loads(marker.read_text())["success"])

    def train(self, study: str, arm: str, seed: int) -> None:
        """Train an arm with a seed, unless that is done."""
        name = f"{study}-{arm}-seed{seed}"
        marker = self.folder / f"{name}.json"
        if not marker.exists():
            config, packing = ARMS[arm]
            arm_options = ("--config", f"configs/ablation/efficiency/{config}", "--model.grpo.packing", packing)
            # Epochs of a filter are short and may hold no step at all, so that steps alone would not bound a run.
            length = ("--trainer.max_steps", str(self.steps), "--trainer.max_epochs", str(3 * self.steps))
            self._main("fit", study, name, *arm_options, *length, "--run.seed", str(seed))
            marker.touch()

    def read(self, study: str, arm: str, seed: int) -> Run:
        """What a training logged."""
        name = f"{study}-{arm}-seed{seed}"
        spent: dict[int, float] = {}
        for metric in PARTS.values():
            for step, value in self._metric(name, metric):
                spent[step] = spent.get(step, 0.0) + value
        points = [(0.0, self.start(study))]
        for step, success in self._metric(name, "validate/success_sampled"):
            points.append((sum(value for place, value in spent.items() if place <= step), success))
        correct, epochs = (dict(self._metric(name, metric)) for metric in ("train/all_correct", "epoch"))
        first = [value for step, value in correct.items() if epochs.get(step) == 0]
        return Run(
            curve=Curve(seconds=tuple(x for x, _ in points), success=tuple(y for _, y in points)),
            seconds=seconds_by_part(run_id=self._run_id(name), store=self.store),
            steps=len(spent),
            generated_tokens=sum(value for _, value in self._metric(name, "train/generated_tokens")),
            trained_tokens=sum(
                value for _, value in self._metric(name, "train/trained_tokens") if math.isfinite(value)
            ),
            all_correct_at_start=float(np.mean(first)) if first else math.nan,
        )

    def _metric(self, name: str, metric: str) -> Sequence[tuple[int, float]]:
        return read_metric(metric, run_id=self._run_id(name), store=self.store)

    def _run_id(self, name: str) -> str:
        return (self.folder / EXPERIMENT / name / "mlflow_run_id").read_text(encoding="utf-8").strip()

    def _main(self, command: str, study: str, name: str, *options: str) -> None:
        run_main(
            command,
            ["--config", "configs/experiment/long_schemas_grpo.yaml", *options],
            ["--model.policy.name_or_path", self.model],
            [word for part in ("train", "validation") for word in _user_turns(part, study)],
            ["--run.root", str(self.folder), "--run.experiment", EXPERIMENT, "--run.name", name, *self.options],
            log=self.folder / f"{name}.log",
        )


def _user_turns(part: str, study: str) -> tuple[str, str]:
    return f"--data.init_args.{part}.init_args.user_turns", STUDIES[study]


def run_main(command: str, *options: Sequence[str], log: Path) -> None:
    """Run `python main.py`, one thread unless the user says otherwise; its output goes to a file.

    Raises:
        BenchError: If it fails.
    """
    arguments = [sys.executable, "main.py", command, *(word for words in options for word in words)]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        done = subprocess.run(
            arguments, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False, env=environment
        )
    if done.returncode:
        raise BenchError(f"Expected `{command}` to end well, but it ended with status {done.returncode}: see {log}")
    print(f"{log.stem}: done", flush=True)


def make_policy(folder: Path) -> str:
    """Policy that all arms start from, made by SFT unless it is there."""
    export = folder / EXPERIMENT / "sft" / "export"
    if not export.exists():
        run_main(
            "fit",
            ["--config", "configs/experiment/long_schemas_sft.yaml"],
            ["--run.root", str(folder), "--run.experiment", EXPERIMENT, "--run.name", "sft"],
            log=folder / "sft.log",
        )
    return str(export)
