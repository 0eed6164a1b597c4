"""Measure what a tool cache is worth: `python tools/audit_cache.py --config configs/audit/quickstart.yaml`.

The gold calls of held-out tasks (`--tasks`), or the calls that an agent made on them as `python main.py test` and
`predict` write them down (`--episodes FILE`), run in the live simulators and are asked of the cache. Tables go to the
terminal; tables, JSON, a picture and every single call to the folder of the run and to MLflow.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from tqdm import tqdm

from streakline.cache.lookup import CacheOptions
from streakline.cache.store import CacheStore
from streakline.callbacks.run_identity import RunIdentity
from streakline.data.jsonl import write_jsonl
from streakline.errors import ConfigError, DataError, StreaklineError
from streakline.evaluation.cache_audit import AuditedCall, CacheAudit, CacheAuditor, summarise
from streakline.evaluation.cache_audit_report import draw, metrics, render_audit
from streakline.evaluation.held_out_calls import HeldOutCalls, gold_calls, read_calls
from streakline.tasks.base import TaskSet
from streakline.types import JSON

_THRESHOLDS = [round(0.4 + 0.05 * step, 2) for step in range(13)]
_AGES_S = [3600.0, 86400.0, 7 * 86400.0, 30 * 86400.0]
_OPTIONS = CacheOptions()


def held_out(tasks: Sequence[TaskSet], paths: Sequence[Path]) -> tuple[list[HeldOutCalls], list[str]]:
    """Collect what is replayed, and what was left out, a sentence each; raises `DataError` where nothing is left."""
    by_id = {task.id: task for one in tasks for task in one}
    faults: list[str] = []
    if paths:
        episodes = []
        for path in paths:
            read, skipped = read_calls(path, tasks=by_id)
            episodes += read
            faults += [f"Skipped: {fault}" for fault in skipped]
    else:
        episodes = gold_calls(by_id.values())
        if len(episodes) < len(by_id):
            faults.append(f"Left out: {len(by_id) - len(episodes)} tasks without a world or without gold calls.")
    if not episodes:
        raise DataError(
            f"Expected held-out episodes in {len(by_id)} tasks and {len(paths)} files, but got none"
            + (f": {faults[0]}" if faults else "")
        )
    return episodes, faults


def audit(options: Namespace) -> tuple[CacheAudit, list[AuditedCall], str]:
    """Replay and sum up; gives also the single calls, and in words what was audited."""
    episodes, faults = held_out(options.tasks, options.episodes)
    tasks = {each.task.id: each.task for each in episodes}
    with CacheStore.open(options.cache, read_only=True) as store:
        auditor = CacheAuditor(store, options=options.options, thresholds=options.thresholds)
        numbered = enumerate(tqdm(episodes, unit=" rollouts"))
        calls = [call for number, each in numbered for call in auditor.replay(each, number=number)]
        if not calls:
            raise DataError(f"Expected calls that ask the cache, but got none in {len(episodes)} rollouts")
        found = summarise(store, calls, tasks=tasks.values(), min_fidelity=options.min_fidelity, ages_s=options.ages_s)
        words = (
            f"{store.path} ({store.num_entries} entries, digest {store.digest()[:12]}) against the live simulators: "
            f"{len(calls)} calls in {len(episodes)} rollouts of {len(tasks)} tasks. Left out are {auditor.num_refused} "
            f"malformed calls, which no tool answers, and what followed a time-out in {auditor.num_cut} rollouts."
        )
    return found, calls, "\n".join([words, *faults])


def call_row(call: AuditedCall) -> dict[str, JSON]:
    """One call as a flat object, without the other thresholds."""
    row = asdict(call)
    del row["sweep"]
    return row.pop("answer") | row


def write(found: CacheAudit, calls: Sequence[AuditedCall], *, text: str, folder: Path) -> list[Path]:
    """Write all forms of the audit into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("audit.md", "audit.json", "audit.png", "audit_calls.jsonl")]
    paths[0].write_text(text, encoding="utf-8")
    paths[1].write_text(json.dumps(asdict(found), indent=2) + "\n", encoding="utf-8")
    draw(found, paths[2])
    write_jsonl(paths[3], map(call_row, calls))
    return paths


def log(found: CacheAudit, paths: Sequence[Path], *, run: RunIdentity, options: str) -> None:
    """Log to the MLflow run of the identity, each threshold in percent as a step of `sweep/`."""
    from streakline.callbacks.mlflow_logger import RunLogger  # loads Lightning and MLflow

    logger = RunLogger(run)
    logger.log_text(options, "config.yaml")
    logger.log_metrics(metrics(found.overall))
    if found.proposed_threshold is not None:
        logger.log_metrics({"proposed_threshold": found.proposed_threshold})
    for threshold, point in found.sweep.items():
        named = {f"sweep/{name}": value for name, value in metrics(point).items()}
        logger.log_metrics(named, step=round(100 * threshold))
    for path in paths:
        logger.log_file(path, "audit")
    logger.finalize()


def make_parser() -> ArgumentParser:
    """The options of the command, which a YAML file can give too."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--config", action="config", help="YAML file with these options")
    parser.add_argument("--cache", type=Path, required=True, help="file of the cache")
    parser.add_argument("--tasks", type=list[TaskSet], default=[], help="held-out task sets")
    parser.add_argument("--episodes", type=Path, nargs="+", default=[], help="trajectories on these tasks, not gold")
    parser.add_argument("--options", type=CacheOptions, default=_OPTIONS, help="how the cache serves")
    parser.add_argument("--thresholds", type=float, nargs="+", default=_THRESHOLDS, help="similarities to try")
    parser.add_argument("--min_fidelity", type=float, default=0.5, help="fidelity that fuzzy results must reach")
    parser.add_argument("--ages_s", type=float, nargs="+", default=_AGES_S, help="bounds between the bins of ages")
    parser.add_argument("--mlflow", type=bool, default=True, help="whether to log to MLflow")
    parser.add_class_arguments(RunIdentity, "run")
    parser.set_defaults({"run.experiment": "audit"})
    return parser


def main() -> None:
    """Audit."""
    parser = make_parser()
    parsed = parser.parse_args()
    try:
        options = parser.instantiate(parsed)
        if not 0 < options.min_fidelity <= 1:
            raise ConfigError(f"Expected `min_fidelity` to be in (0, 1], but got {options.min_fidelity}")
        found, calls, words = audit(options)
        text = f"{words}\n\n{render_audit(found)}"
        print(text)
        paths = write(found, calls, text=text, folder=options.run.folder)
        if options.mlflow:
            log(found, paths, run=options.run, options=parser.dump(parsed))
        print(f"Written to {options.run.folder}: {', '.join(path.name for path in paths)}")
    except (StreaklineError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
