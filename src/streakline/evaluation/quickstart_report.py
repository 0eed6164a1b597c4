"""The quickstart's closing tables, and the same figures for machines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from streakline.evaluation.by_kind import KindChange
from streakline.evaluation.comparison import Change, ScoreComparison
from streakline.evaluation.intervals import Interval
from streakline.evaluation.tables import markdown_table
from streakline.types import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption:
    """A mistake that demonstrations of one kind show on purpose."""

    habit: str
    """Short name of the mistake."""
    description: str
    """What is done wrong, in a sentence."""
    share: float
    """Share of the kind's demonstrations that show it, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickstartRun:
    """All that the report is made of."""

    seed: int
    """Seed of both trainings and of their evaluation."""
    arm: str
    """Name of the demonstrations used, such as `habits` or `clean`."""
    comparison: ScoreComparison
    """Held-out success after SFT (before) and after GRPO (after)."""
    stage_seconds: Mapping[str, float]
    """Stage -> wall seconds, process start included, in the order in which they ran."""
    grpo_seconds: Mapping[str, float] = field(default_factory=dict)
    """Part of the GRPO training -> seconds; empty = not measured."""
    zero_variance_first_epoch: float = math.nan
    """Share of groups in the first GRPO epoch whose rewards were all equal; nan = not measured."""
    corruptions: Mapping[str, Corruption] = field(default_factory=dict)
    """Kind -> what its demonstrations get wrong; kinds that are missing have right demonstrations only."""


def figures(run: QuickstartRun) -> dict[str, float | None]:
    """The run as named numbers; None where one was not measured. `kinds_fallen` is a count."""
    named: dict[str, float] = {}
    for prefix, change in (("", run.comparison.sampled), ("greedy_", run.comparison.greedy)):
        named[f"{prefix}success_sft"] = change.before.estimate
        named[f"{prefix}success_grpo"] = change.after.estimate
        named[f"{prefix}difference"] = change.difference.estimate
        named[f"{prefix}difference_low"] = change.difference.low
        named[f"{prefix}difference_high"] = change.difference.high
    named["kinds_fallen"] = len(run.comparison.kinds_fallen)
    named["zero_variance_first_epoch"] = run.zero_variance_first_epoch
    named["wall_seconds"] = sum(run.stage_seconds.values())
    named["seed"] = run.seed
    return {name: None if math.isnan(value) else value for name, value in named.items()}


def summary(run: QuickstartRun) -> dict[str, JSON]:
    """The whole result as JSON: the figures and what stands behind them."""
    return {
        "figures": {**figures(run)},
        "arm": run.arm,
        "num_tasks": run.comparison.sampled.difference.count,
        "kinds_fallen": list(run.comparison.kinds_fallen),
        "kinds_sampled": [_kind_row(change) for change in run.comparison.sampled.kinds],
        "kinds_greedy": [_kind_row(change) for change in run.comparison.greedy.kinds],
        "corrupted_share": {kind: corruption.share for kind, corruption in run.corruptions.items()},
        "stage_seconds": {**run.stage_seconds},
        "grpo_seconds": {**run.grpo_seconds},
    }


def render_report(run: QuickstartRun) -> str:
    """The tables that a person reads: plain ASCII, in which the tables are valid Markdown."""
    sections = [
        f"Success on {run.comparison.sampled.difference.count} held-out tasks, with 95% intervals over tasks "
        f"(seed {run.seed}, demonstrations: {run.arm})",
        _success_table(run.comparison),
        _verdict(run.comparison),
        "By kind of request. `*`: changed significantly (sign-flip test, 5% after Holm's correction).",
        _kind_table(run),
        _describe_corruptions(run.corruptions),
        "Time, process starts included",
        _time_table(run),
        _zero_variance(run.zero_variance_first_epoch),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _kind_row(change: KindChange) -> JSON:
    row = asdict(change) | {"fell": change.fell, "rose": change.rose}
    del row["is_significant"]
    return row


def _success_table(comparison: ScoreComparison) -> str:
    changes = {"sampled": comparison.sampled, "greedy": comparison.greedy}
    return markdown_table(
        ("decoding", "after SFT", "after GRPO", "difference, same tasks"),
        [
            (label, str(change.before), str(change.after), _signed(change.difference))
            for label, change in changes.items()
        ],
    )


def _verdict(comparison: ScoreComparison) -> str:
    lines = [_verdict_on("Sampled", comparison.sampled), _verdict_on("Greedy", comparison.greedy)]
    fallen = comparison.kinds_fallen
    lines.append(
        f"Kinds that fell significantly: {', '.join(fallen)}." if fallen else "No kind of request fell significantly."
    )
    return "\n".join(lines)


def _verdict_on(label: str, change: Change) -> str:
    if change.difference.is_above_zero:
        return f"{label} success rose: the whole interval of the difference is above 0."
    if change.difference.high < 0:
        return f"{label} success fell: the whole interval of the difference is below 0."
    return f"{label} success: no change can be told from chance, the interval of the difference holds 0."


def _kind_table(run: QuickstartRun) -> str:
    rows = []
    greedy = {change.kind: change for change in run.comparison.greedy.kinds}
    for change in run.comparison.sampled.kinds:
        corruption = run.corruptions.get(change.kind)
        rows.append(
            (
                change.kind,
                str(change.num_tasks),
                _arrow(change),
                _arrow(greedy[change.kind]) if change.kind in greedy else "-",
                f"{corruption.share:.0%} {corruption.habit}" if corruption and corruption.share else "none",
            )
        )
    return markdown_table(("kind", "tasks", "sampled", "greedy", "wrong demonstrations"), rows)


def _describe_corruptions(corruptions: Mapping[str, Corruption]) -> str:
    shown = {kind: corruption for kind, corruption in corruptions.items() if corruption.share}
    if not shown:
        return "All demonstrations were right."
    lines = [
        "Some demonstrations are wrong on purpose, so that GRPO meets decisions which imitation gets wrong. By kind:"
    ]
    lines += [
        f"  {kind}: {corruption.share:.0%} show an agent that {corruption.description}"
        for kind, corruption in shown.items()
    ]
    return "\n".join(lines)


def _time_table(run: QuickstartRun) -> str:
    total = sum(run.stage_seconds.values())
    parts = {f"of GRPO: {part}": seconds for part, seconds in run.grpo_seconds.items() if round(seconds)}
    shown = {**run.stage_seconds, "all": total, **parts}
    rows = [(name, f"{value:.0f}", f"{value / total:.0%}" if total else "-") for name, value in shown.items()]
    return markdown_table(("stage", "seconds", "share"), rows)


def _zero_variance(share: float) -> str:
    if math.isnan(share):
        return ""
    return (
        f"In the first GRPO epoch {share:.0%} of the groups had equal rewards (all right or all wrong), "
        "so they taught nothing."
    )


def _arrow(change: KindChange) -> str:
    return f"{change.before:.2f} -> {change.after:.2f}{' *' if change.is_significant else ''}"


def _signed(interval: Interval) -> str:
    return f"{interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
