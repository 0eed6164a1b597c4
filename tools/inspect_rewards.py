"""Show the trajectories of a run that were rewarded most and least: `python tools/inspect_rewards.py RUN`.

RUN is the folder of a run, such as `mlruns/quickstart/grpo-seed0`, or one of its `trajectories/*.jsonl`. Says why
trajectories lost, as text on the terminal and as one HTML page that opens anywhere.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from dataclasses import asdict
from pathlib import Path

import yaml

from streakline.errors import DataError, StreaklineError
from streakline.evaluation.config_digest import config_digest
from streakline.evaluation.reward_choice import STAGES, choose, rank, trajectory_files
from streakline.evaluation.reward_page import render_page
from streakline.evaluation.reward_reasons import reason
from streakline.evaluation.reward_report import Inspection, render_text
from streakline.evaluation.reward_rows import read_scored


def digest(run: Path) -> str:
    """SHA-256 of the configuration that a run was trained, or else tested, with; empty = the folder has none."""
    names = ("config.yaml", "config-test.yaml", "config-predict.yaml")
    path = next((run / name for name in names if (run / name).is_file()), None)
    if path is None:
        return ""
    try:
        return config_digest(dict(yaml.safe_load(path.read_text(encoding="utf-8"))))
    except (yaml.YAMLError, ValueError, TypeError) as error:
        fault = str(error).splitlines()[0]
        raise DataError(f"Expected {path} to be the configuration of a run, but got: {fault}") from error


def inspect(options: argparse.Namespace) -> Inspection:
    """Read, choose and rank."""
    paths = trajectory_files(options.run, stage=options.stage)
    read, faults = read_scored(paths)
    rows = choose(read, kind=options.kind, task=options.task, sort=options.sort)
    return Inspection(
        title=str(options.run),
        files=tuple(path.name for path in paths),
        config_digest=digest(options.run),
        rows=tuple(rows),
        ranking=rank(rows, sort=options.sort, top=options.top, bottom=options.bottom),
        sort=options.sort,
        faults=tuple(f"Skipped: {fault}" for fault in faults),
    )


def figures(shown: Inspection) -> str:
    """The summary, and of each trajectory that is shown its place and reason, as JSON."""
    summary = {
        question: {name: asdict(share) for name, share in shares.items()} for question, shares in shown.summary.items()
    }
    sections = {
        title: [
            {"where": row.where, "task_id": row.task_id, "reward": row.reward, "reason": reason(row, best=shown.best)}
            for row in rows
        ]
        for title, rows in shown.sections.items()
    }
    return json.dumps({"summary": summary, "shown": sections}, indent=2) + "\n"


def count(text: str) -> int:
    """A number of trajectories."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"Expected a number of trajectories, but got {text!r}")
    return int(text)


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run, or a file of trajectories")
    parser.add_argument("--top", type=count, default=5, metavar="N", help="how many of the highest")
    parser.add_argument("--bottom", type=count, default=5, metavar="N", help="how many of the lowest")
    parser.add_argument("--stage", choices=[*STAGES, "all"], help=f"default: the first there is of {', '.join(STAGES)}")
    parser.add_argument("--kind", help="of request")
    parser.add_argument("--task", help="id of a task")
    parser.add_argument("--sort", default="reward", metavar="TERM", help="reward term that decides what is high")
    parser.add_argument("--html", type=Path, metavar="FILE", help="the page; default: rewards.html in the run's folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="summary and reasons as JSON too")
    return parser


def main() -> None:
    """Inspect."""
    options = make_parser().parse_args()
    run: Path = options.run
    page: Path = options.html or (run.with_suffix(".rewards.html") if run.is_file() else run / "rewards.html")
    try:
        shown = inspect(options)
        if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may know fewer characters than a policy
            sys.stdout.reconfigure(errors="backslashreplace")
        page.write_text(render_page(shown), encoding="utf-8")
        if options.json:
            options.json.write_text(figures(shown), encoding="utf-8")
        print(f"{render_text(shown)}\nPage: {page}")
    except (StreaklineError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
