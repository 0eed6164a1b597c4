"""The audit of a tool cache as tables, as named figures, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from matplotlib.figure import Figure

from streakline.evaluation.cache_audit import CacheAudit, Figures
from streakline.evaluation.tables import markdown_table
from streakline.types import Tier

_TIERS = (Tier.EXACT, Tier.FUZZY, Tier.BEST_EFFORT, Tier.MISS)
_COLOURS = ("#1b7837", "#7fbf7b", "#fdb863", "#b35806")
_SHOWN = 20
"""Rows of tables that have one for each tool; the JSON has all."""


def metrics(found: Figures) -> dict[str, float]:
    """Shares by name: `fidelity/<tier>` where there is one, `calls/<tier>`, `rollouts/<worst tier>`."""
    named = {f"fidelity/{name}": interval.estimate for name, interval in found.fidelity.items()}
    for name, counts in (("calls", found.calls), ("rollouts", found.episodes)):
        named |= {f"{name}/{tier}": _share(counts, tier) for tier in _TIERS}
    return named


def render_audit(audit: CacheAudit) -> str:
    """The tables that a person reads: plain ASCII, in which the tables are valid Markdown."""
    sections = [
        _tier_table(audit.overall),
        f"By tool, the {_SHOWN} most called. Fidelity is the share of served results that equal the live ones.",
        _table("tool", dict(islice(audit.tools.items(), _SHOWN))),
        "By age of what was served",
        _table("age", {_age(low): each for low, each in audit.ages_s.items()}),
        "By threshold. The same call in another state serves at each; `other call` are the other fuzzy results.",
        _sweep_table(audit.sweep),
        _verdict(audit),
        _kinds(audit),
        _warning(audit),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def draw(audit: CacheAudit, path: Path) -> None:
    """Write the picture: fidelity and coverage against the threshold; the dotted line is the proposed one."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    fidelity, *coverage = figure.subplots(1, 3, sharex=True)
    for name, colour in (("fuzzy", _COLOURS[1]), ("other_call", "#2166ac"), ("served", "black")):
        known = {at: each.fidelity[name] for at, each in audit.sweep.items() if name in each.fidelity}
        estimates = [value.estimate for value in known.values()]
        fidelity.plot(list(known), estimates, color=colour, label=name.replace("_", " "), marker="o", markersize=3)
        lows, highs = [value.low for value in known.values()], [value.high for value in known.values()]
        fidelity.fill_between(list(known), lows, highs, color=colour, alpha=0.15, linewidth=0)
    fidelity.axhline(audit.min_fidelity, color="grey", linewidth=0.8, linestyle="--")
    fidelity.set(title="fidelity, 95% interval over tasks")
    fidelity.legend()
    parts = {"calls by tier": "calls", "rollouts by worst tier": "rollouts"}
    for axes, (title, name) in zip(coverage, parts.items(), strict=True):
        shares = [[metrics(each)[f"{name}/{tier}"] for each in audit.sweep.values()] for tier in _TIERS]
        axes.stackplot(list(audit.sweep), shares, labels=[tier.value for tier in _TIERS], colors=_COLOURS)
        axes.set(title=title)
    figure.legend(*coverage[0].get_legend_handles_labels(), loc="outside lower right", ncols=len(_TIERS))
    for axes in (fidelity, *coverage):
        axes.set(xlabel="threshold", ylim=(0, 1.02))
        if audit.proposed_threshold is not None:
            axes.axvline(audit.proposed_threshold, color="black", linestyle=":")
    figure.savefig(path, dpi=120)


def _tier_table(found: Figures) -> str:
    rows = [
        (tier.value, *_counted(found.calls, tier), *_counted(found.episodes, tier), _text(found, tier))
        for tier in _TIERS
    ]
    totals = [str(sum(counts.values())) for counts in (found.calls, found.episodes)]
    rows.append(("all", totals[0], "100%", totals[1], "100%", _text(found, "served")))
    rows.append(("all of a rollout", "", "", "", "", _text(found, "rollouts")))
    return markdown_table(("tier", "calls", "share", "rollouts by worst", "share", "fidelity, 95% interval"), rows)


def _table(title: str, rows: Mapping[str, Figures]) -> str:
    return markdown_table(
        (title, "calls", *(tier.value for tier in _TIERS), *(f"fidelity: {tier}" for tier in _TIERS[:-1])),
        [
            (
                name,
                str(sum(found.calls.values())),
                *(_counted(found.calls, tier)[1] for tier in _TIERS),
                *(_text(found, tier).partition(" ")[0] for tier in _TIERS[:-1]),
            )
            for name, found in rows.items()
        ],
    )


def _sweep_table(sweep: Mapping[float, Figures]) -> str:
    order = "/".join(_TIERS)
    return f"`calls` and `rollouts` in percent, {order}\n\n" + markdown_table(
        ("threshold", "fuzzy", "fidelity", "other call", "fidelity", "all served", "calls", "rollouts"),
        [
            (
                f"{threshold:.2f}",
                str(found.calls.get(Tier.FUZZY, 0)),
                _text(found, Tier.FUZZY),
                str(found.num_other_call),
                _text(found, "other_call"),
                _text(found, "served"),
                *("/".join(f"{100 * _share(of, tier):.0f}" for tier in _TIERS) for of in (found.calls, found.episodes)),
            )
            for threshold, found in sweep.items()
        ],
    )


def _verdict(audit: CacheAudit) -> str:
    wanted, proposed = f"a fidelity of at least {audit.min_fidelity:g}", audit.proposed_threshold
    if proposed is None:
        return f"No threshold gives fuzzy results {wanted}: serve exact results alone, or record more."
    found = audit.sweep[proposed]
    whose = "other calls" if found.num_other_call else "the same call in another state, but no other call,"
    interval = found.fidelity["other_call" if found.num_other_call else Tier.FUZZY]
    doubt = "" if interval.low >= audit.min_fidelity else ". The interval reaches below that: replay more"
    number = found.num_other_call or found.calls[Tier.FUZZY]
    return (
        f"Proposed threshold: {proposed:.2f}, which gives {whose} {wanted}: {interval} over {number} results in "
        f"{interval.count} tasks{doubt}."
    )


def _kinds(audit: CacheAudit) -> str:
    lines = [f"- `{name}`: {finding}" for name, finding in audit.kinds.items()]
    head = f"{len(lines) or 'No'} tools were seen to do what their declared kind leaves out."
    return "\n".join([head, *lines])


def _warning(audit: CacheAudit) -> str:
    if not audit.known_tasks:
        return ""
    return (
        f"Known to the cache: {len(audit.known_tasks)} tasks, such as {audit.known_tasks[0]}. "
        "It was recorded from them, or in the world in which they begin: held-out ones would get less."
    )


def _share(counts: Mapping[Tier, int], tier: Tier) -> float:
    return counts.get(tier, 0) / max(1, sum(counts.values()))


def _counted(counts: Mapping[Tier, int], tier: Tier) -> tuple[str, str]:
    return str(counts.get(tier, 0)), f"{_share(counts, tier):.0%}"


def _text(found: Figures, name: str) -> str:
    return str(found.fidelity.get(name, "-"))


def _age(seconds: float) -> str:
    units = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
    size, unit = next(((size, unit) for size, unit in units if seconds >= size), units[-1])
    return f"from {seconds / size:g} {unit}"
