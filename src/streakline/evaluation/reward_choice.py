"""Which trajectories of a run are looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streakline.errors import ConfigError, DataError
from streakline.evaluation.reward_rows import ScoredRow

STAGES: Final = ("test", "predict", "validate", "train")
"""Commands that leave trajectories. The first that a run has is shown: those of others may have another reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The ends of a run; no row stands in two of them."""

    highest: tuple[ScoredRow, ...]
    """Best first."""
    lowest: tuple[ScoredRow, ...]
    """Worst first."""
    unscored: tuple[ScoredRow, ...]
    """All that have no value, in the order of the files."""


def trajectory_files(run: Path, *, stage: str | None = None) -> tuple[Path, ...]:
    """Files of a run's folder by stage: None = the first of `STAGES` that it has, `all` = every one.

    A file is taken as it is.

    Raises:
        DataError: If there is none.
    """
    if run.is_file():
        return (run,)
    folder = run / "trajectories"
    found = {name: tuple(sorted(folder.glob(f"{name}*.jsonl"))) for name in STAGES}
    stages = [name for name in STAGES if found[name]]
    wanted = stages if stage == "all" else stages[:1] if stage is None else [stage]
    files = tuple(path for name in wanted for path in found[name])
    if not files:
        what = "trajectories" if stage in (None, "all") else f"trajectories of `{stage}`"
        got = f"those of {', '.join(stages)}" if stages else "none: `python main.py test` writes them"
        raise DataError(f"Expected {what} in {folder}, but got {got}")
    return files


def choose(
    rows: Sequence[ScoredRow], *, kind: str | None = None, task: str | None = None, sort: str = "reward"
) -> list[ScoredRow]:
    """Rows of a kind and of a task (None = all), of which `sort` is known to be the reward or a term.

    Raises:
        ConfigError: If none is left, or none has a term of that name.
    """
    for name, wanted, known in (
        ("kind", kind, {row.kind for row in rows}),
        ("task", task, {row.task_id for row in rows}),
        ("sort", sort, {"reward"}.union(*(row.terms for row in rows))),
    ):
        if wanted is not None and wanted not in known:
            some = ", ".join(sorted(known)[:20]) + (", ..." if len(known) > 20 else "")
            raise ConfigError(f"Expected `{name}` to be one of {some}, but got {wanted!r}")
    chosen = [row for row in rows if kind in (None, row.kind) and task in (None, row.task_id)]
    if not chosen:
        raise ConfigError(f"Expected trajectories of task {task!r} and kind {kind!r}, but got none")
    return chosen


def rank(rows: Sequence[ScoredRow], *, sort: str = "reward", top: int = 5, bottom: int = 5) -> Ranking:
    """The rows of the highest and of the lowest value; of equal ones, one of each kind comes before a second one.

    Where there are fewer rows than asked for, both ends get their part of them.
    """
    scored = [(value, row) for row in rows if (value := row.value(sort)) is not None]

    def ordered(sign: int) -> list[ScoredRow]:
        seen: Counter[tuple[float, str]] = Counter()
        keyed = []
        for place, (value, row) in enumerate(scored):
            keyed.append((sign * value, seen[value, row.kind], place))
            seen[value, row.kind] += 1
        return [scored[place][1] for _, _, place in sorted(keyed)]

    wanted = max(top + bottom, 1)
    highest = ordered(-1)[: min(top, -(-len(scored) * top // wanted))]
    shown = set(map(id, highest))
    lowest = [row for row in ordered(1) if id(row) not in shown][:bottom]
    unscored = tuple(row for row in rows if row.value(sort) is None)
    return Ranking(highest=tuple(highest), lowest=tuple(lowest), unscored=unscored)
