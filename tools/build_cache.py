"""Fill a cache of tool results: `python tools/build_cache.py --config configs/cache/quickstart.yaml`.

Results come from conversations with tools in OpenAI's format (`--jsonl FILE`), and from gold calls that are run in the
simulators (`--tasks`). Stopped at any point, the same command goes on. Malformed lines are named and left out.
`--traits FILE` declares tools of conversations: `{"ls": {"kind": "stateful", "state": "files", "writes": false}}`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from jsonargparse import ArgumentParser
from tqdm import tqdm

from streakline.cache.index import make_index
from streakline.cache.state import ToolKind, ToolTraits
from streakline.cache.store import CacheStore
from streakline.data.cache_build import BuildReport, ConversationRecorder, record_gold
from streakline.errors import ConfigError, StreaklineError
from streakline.tasks.base import TaskSet

_SHOWN_FAULTS = 20


def read_traits(path: Path | None) -> dict[str, ToolTraits]:
    """Read what results depend on. See the head of this file."""
    if path is None:
        return {}
    try:
        declared = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: ToolTraits(
                kind=ToolKind(fields["kind"]), state=fields.get("state", ""), writes=fields.get("writes", False)
            )
            for name, fields in declared.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"Expected `traits` to be a JSON file of tool traits, but got {path}: {error}") from error


def build(
    store: CacheStore, *, jsonl: list[Path], tasks: list[TaskSet], traits: Mapping[str, ToolTraits]
) -> BuildReport:
    """Record all that is asked for, with progress bars."""
    recorder = ConversationRecorder(store, traits=traits, recorded_at=time.time())
    for path in jsonl:
        with tqdm(desc=path.name, unit=" lines") as bar:
            for done in recorder.record(path):
                bar.update(done - bar.n)
    for task_set in tasks:
        chosen = [task for task in task_set if task.simulators and task.gold]
        for _ in tqdm(record_gold(store, chosen, report=recorder.report), total=len(chosen), unit=" tasks"):
            pass
    return recorder.report


def print_summary(store: CacheStore, report: BuildReport) -> None:
    """Say what the store holds now and what was left out."""
    for fault in report.faults[:_SHOWN_FAULTS]:
        print(f"skipped: {fault}", file=sys.stderr)
    if len(report.faults) > _SHOWN_FAULTS:
        print(f"skipped: {len(report.faults) - _SHOWN_FAULTS} more", file=sys.stderr)
    tools = store.tools()
    kinds = {kind: sum(record.traits.kind is kind for record in tools.values()) for kind in ToolKind}
    differing = store.conflicts()
    print(f"{store.path}: {store.num_entries} entries of {len(tools)} tools, digest {store.digest()[:12]}")
    print("tools: " + ", ".join(f"{number} {kind.value}" for kind, number in kinds.items()))
    print(
        f"this build: {report.calls} calls, {report.added} new entries, {report.duplicates} duplicates, "
        f"{report.conflicts} conflicts, {report.unanswered} calls without a result, {len(report.faults)} skipped, "
        f"{report.known_lines} lines known"
    )
    if differing:
        names = ", ".join(sorted(differing, key=lambda name: (-differing[name], name))[:5])
        print(f"{len(differing)} tools gave different results for the same call, first {names}: volatile? See --traits")


def make_parser() -> ArgumentParser:
    """The options of the command, which a YAML file can give too."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--config", action="config", help="YAML file with these options")
    parser.add_argument("--out", type=Path, required=True, help="file of the cache; made, or added to")
    parser.add_argument("--jsonl", type=Path, nargs="+", default=[], help="files of conversations")
    parser.add_argument("--tasks", type=list[TaskSet], default=[], help="task sets whose gold calls are run")
    parser.add_argument("--traits", type=Path | None, default=None, help="JSON file that says what results depend on")
    return parser


def main() -> None:
    """Build."""
    parser = make_parser()
    parsed = parser.parse_args()
    try:
        arguments = parser.instantiate(parsed)
        with CacheStore.open(arguments.out) as store:
            traits = read_traits(arguments.traits)
            report = build(store, jsonl=arguments.jsonl, tasks=arguments.tasks, traits=traits)
            print_summary(store, report)
            make_index(store)
    except (StreaklineError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
