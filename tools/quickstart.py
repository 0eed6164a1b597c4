"""SFT, then GRPO on live tools, with held-out success before and after.

    python tools/quickstart.py --seed 0

Prints and runs ordinary `python main.py ...` commands, then a report; the figures go to quickstart.json. A stage that
is done is not run again while its command, the configs and the code stay the same, and one that was interrupted goes on
from its last checkpoint: after a kill, type the same command. `--fresh` starts over.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from streakline.errors import ConfigError, StreaklineError

REPOSITORY = Path(__file__).resolve().parents[1]
EXPERIMENT = "quickstart"
SFT_CONFIG = "configs/experiment/quickstart_sft.yaml"
GRPO_CONFIG = "configs/experiment/quickstart_grpo.yaml"
ENVIRONMENT = {"OMP_NUM_THREADS": "1", **os.environ}
"""One thread unless the user says otherwise: the model is too small to gain from more, a busy second core makes two
slower, and results then do not depend on the number of cores."""
ARMS: dict[str, tuple[str, ...]] = {
    "habits": (),
    "clean": ("--config", "configs/experiment/quickstart_sft_clean.yaml"),
}
"""Demonstrations -> options of the SFT: `habits` are wrong on purpose in some kinds, `clean` are all right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One command of the quickstart."""

    name: str
    """What the report calls it."""
    command: tuple[str, ...]
    """Arguments of `python main.py`."""
    outputs: tuple[Path, ...]
    """What it leaves behind; it counts as done only while all of this is there."""
    resumable: bool = False
    """Whether `--ckpt_path last` makes it go on where it stopped."""


class StageError(StreaklineError, RuntimeError):
    """A command ended with an error, which it has printed itself."""


class StageRunner:
    """Runs stages one after another and remembers which are done.

    A marker beside the runs holds each stage's digest, seconds and whether it is done. The digest covers the command,
    the configs, the code and the stages before it, so that nothing stale is taken for done.

    Args:
        folder: Where the markers go.
        program: Command that the stages' arguments are given to.
        sources: Files whose contents the results depend on.
    """

    def __init__(self, folder: Path, *, program: Sequence[str], sources: Sequence[Path]) -> None:
        self._folder = folder
        self._program = tuple(program)
        self._upstream = digest_of(*(text for path in sorted(sources) for text in (str(path), path.read_bytes())))
        self.seconds: dict[str, float] = {}

    def run(self, stage: Stage) -> None:
        """Run a stage unless it is done.

        Args:
            stage: The stage.

        Raises:
            StageError: If its command fails or leaves something out.
        """
        digest = digest_of(self._upstream, *stage.command)
        marker = self._folder / f"{stage.name.lower().replace(': ', '-').replace(' ', '-')}.json"
        earlier = _read_marker(marker)
        is_same = earlier.get("digest") == digest
        self._upstream = digest
        if is_same and earlier.get("done") and all(path.exists() for path in stage.outputs):
            self.seconds[stage.name] = float(earlier["seconds"])
            print(f"# {stage.name}: done before, in {self.seconds[stage.name]:.0f} s", flush=True)
            return
        resumes = is_same and not earlier.get("done") and stage.resumable
        command = (*stage.command, *(("--ckpt_path", "last") if resumes else ()))
        spent = float(earlier["seconds"]) if resumes else 0.0
        self.seconds[stage.name] = self._execute(stage, command, marker=marker, digest=digest, spent=spent)

    def _execute(self, stage: Stage, command: Sequence[str], *, marker: Path, digest: str, spent: float) -> float:
        print(f"\n# {stage.name}\n$ python main.py {shlex.join(command)}", flush=True)
        start = time.perf_counter()

        def record(*, done: bool) -> float:
            seconds = spent + time.perf_counter() - start
            _write_json(marker, {"digest": digest, "seconds": seconds, "done": done})
            return seconds

        record(done=False)
        child = subprocess.Popen([*self._program, *command], cwd=REPOSITORY, close_fds=False, env=ENVIRONMENT)
        try:
            while (status := _wait(child, seconds=2.0)) is None:
                record(done=False)
        finally:
            _end(child)
        missing = [path for path in stage.outputs if not path.exists()]
        if status:
            raise StageError(f"Expected {stage.name} to end well, but its command ended with status {status}")
        if missing:
            raise StageError(f"Expected {stage.name} to leave {missing[0]}, but there is none")
        return record(done=True)


def main(arguments: list[str] | None = None) -> int:
    """Run what is not done yet, and report.

    Args:
        arguments: Command line; None = that of the process.

    Returns:
        0, 1 after one line that says what is wrong, or 130 if interrupted.
    """
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with only_one(options.root / "mlruns" / EXPERIMENT / ".stages"):
            run_quickstart(
                seed=options.seed, arm=options.arm, scale=options.scale, root=options.root, fresh=options.fresh
            )
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except (StreaklineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def run_quickstart(*, seed: int, arm: str, scale: float, root: Path, fresh: bool) -> None:
    """Run the stages, print the report and write `quickstart.json`.

    Args:
        seed: Seed of both trainings.
        arm: Name in `ARMS`.
        scale: Size of everything, relative to the real one.
        root: Folder that gets `mlruns/` and `quickstart.json`.
        fresh: Whether to forget stages that are done.
    """
    runs = root / "mlruns"
    suffix = f"{'' if arm == 'habits' else f'-{arm}'}{'' if scale == 1 else f'-x{scale:g}'}-seed{seed}"
    sft, grpo = (runs / EXPERIMENT / f"{name}{suffix}" for name in ("sft", "grpo"))
    markers = runs / EXPERIMENT / ".stages" / suffix.lstrip("-")
    if fresh:
        shutil.rmtree(markers, ignore_errors=True)
    runner = StageRunner(markers, program=(sys.executable, "main.py"), sources=source_files())
    for stage in plan(sft=sft, grpo=grpo, seed=seed, arm=arm, scale=scale):
        runner.run(stage)
    # Imported late: the first stage need not wait for MLflow and statsmodels.
    from streakline.evaluation.quickstart_report import render_report, summary
    from streakline.evaluation.quickstart_run import collect_run, collect_stories

    store = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{runs}/mlflow.db"
    run = collect_run(sft=sft, grpo=grpo, seed=seed, arm=arm, stage_seconds=runner.seconds, store=store)
    stories = collect_stories(run, sft=sft, grpo=grpo)
    _write_json(root / "quickstart.json", summary(run))
    print(f"\n{render_report(run)}")
    print("What GRPO learned, on tasks that the greedy agent got wrong before:\n" if stories else "No task was mended.")
    print("\n\n".join(stories))
    print(f"\nFigures: {root / 'quickstart.json'}. To see both runs in a browser:")
    print(f"  {Path(sys.executable).parent / 'mlflow'} ui --backend-store-uri {store}", flush=True)


def plan(*, sft: Path, grpo: Path, seed: int, arm: str, scale: float) -> tuple[Stage, ...]:
    """The commands of a quickstart in order.

    Args:
        sft: Folder of the SFT run.
        grpo: Folder of the GRPO run.
        seed: Seed of both trainings.
        arm: Name in `ARMS`.
        scale: Size of everything, relative to the real one.

    Returns:
        Stages, each depending on those before it.
    """

    def run_options(folder: Path) -> tuple[str, ...]:
        root = folder.parents[1]
        place = () if root == Path("mlruns") else ("--run.root", str(root))
        return ("--run.experiment", EXPERIMENT, "--run.name", folder.name, "--run.seed", str(seed), *place)

    small = _shrink(scale)
    configs = {sft: (SFT_CONFIG, *ARMS[arm]), grpo: (GRPO_CONFIG,)}

    def fit(folder: Path, *options: str) -> tuple[str, ...]:
        return ("fit", "--config", *configs[folder], *run_options(folder), *options)

    def held_out(folder: Path) -> tuple[str, ...]:
        trained = ("--model.policy.name_or_path", str(folder / "export"))
        quiet = ("--verbose", "false")  # the report shows what Lightning's table would
        return ("test", "--config", *configs[folder], *run_options(folder), *trained, *small["held_out"], *quiet)

    def tested(folder: Path) -> tuple[Path, ...]:
        return (folder / "test_scores.jsonl", folder / "trajectories" / "test.jsonl")

    return (
        Stage(
            name="SFT: train",
            command=fit(sft, *small["sft"]),
            outputs=(sft / "export" / "config.json",),
            resumable=True,
        ),
        Stage(name="SFT: test", command=held_out(sft), outputs=tested(sft)),
        Stage(
            name="GRPO: train",
            command=fit(grpo, "--model.policy.name_or_path", str(sft / "export"), *small["grpo"]),
            outputs=(grpo / "export" / "config.json", grpo / "mlflow_run_id"),
            resumable=True,
        ),
        Stage(name="GRPO: test", command=held_out(grpo), outputs=tested(grpo)),
    )


def source_files() -> list[Path]:
    """Everything in the repository that decides what a run computes."""
    package = REPOSITORY / "src"
    code = [REPOSITORY / "main.py", *(path for kind in ("py", "jinja", "json") for path in package.rglob(f"*.{kind}"))]
    data = [path for path in (REPOSITORY / "data").rglob("*") if path.is_file() and "models" not in path.parts]
    return [*code, *(REPOSITORY / "configs").rglob("*.yaml"), *data]


def _shrink(scale: float) -> dict[str, tuple[str, ...]]:
    """Options that make each kind of stage smaller; none at scale 1."""
    if scale == 1:
        return {"sft": (), "grpo": (), "held_out": ()}
    demonstrations = _init_args("toolworld_demonstrations")["train"]["init_args"]["tasks"]["init_args"]["size"]
    tasks = _init_args("toolworld_tasks")

    def part(size: int) -> int:
        return max(6, round(scale * size))

    num_trained = part(tasks["train"]["init_args"]["size"])
    batch_size = min(tasks["batch_size"], num_trained // 3)  # a few steps, not one
    limit = ("--data.limit", str(part(tasks["test"]["init_args"]["size"])))
    return {
        "sft": ("--data.train.init_args.tasks.init_args.size", str(part(demonstrations))),
        "grpo": ("--data.train.init_args.size", str(num_trained), "--data.batch_size", str(batch_size), *limit),
        "held_out": limit,
    }


def _init_args(name: str) -> dict[str, Any]:
    path = REPOSITORY / "configs" / "data" / f"{name}.yaml"
    arguments: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["init_args"]
    return arguments


def digest_of(*parts: str | bytes) -> str:
    """SHA-256 over parts, each with its length, so that `ab, c` and `a, bc` differ."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold a lock that the stages' processes inherit, so that one left over by a kill is noticed.

    Args:
        folder: Where the lock lies.

    Raises:
        ConfigError: If someone else holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(
                f"Expected no other quickstart in {folder.parents[1]}, but got one that is running (perhaps a stage "
                "that outlived a kill): let it finish, or end it"
            ) from error
        os.set_inheritable(lock.fileno(), True)
        yield


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="seed of both trainings")
    parser.add_argument("--arm", choices=sorted(ARMS), default="habits", help="demonstrations of the SFT")
    parser.add_argument("--scale", type=float, default=1.0, help="size of everything; for tests")
    parser.add_argument("--root", type=Path, default=Path(), help="folder that gets mlruns/ and quickstart.json")
    parser.add_argument("--fresh", action="store_true", help="run everything again")
    options = parser.parse_args(arguments)
    if not 0 < options.scale <= 1:
        parser.error(f"Expected `--scale` to be in (0, 1], but got {options.scale}")
    if options.seed < 0:
        parser.error(f"Expected `--seed` to be at least 0, but got {options.seed}")
    return options


def _wait(child: subprocess.Popen[bytes], *, seconds: float) -> int | None:
    try:
        return child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def _end(child: subprocess.Popen[bytes]) -> None:
    """See that the child is gone: it saves nothing worth more than its last checkpoint."""
    if child.poll() is None:
        child.terminate()
        if _wait(child, seconds=20.0) is None:
            child.kill()
            child.wait()


def _read_marker(path: Path) -> dict[str, object]:
    try:
        marker = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return {}
    return marker if isinstance(marker, dict) else {}


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
