"""Look-ups in a tool cache, and other ways to make them, side by side: `python tools/bench/cache.py` (six minutes).

One thread. Calls are made up, but shaped as those of agents; BFCL's gold calls are among them. Questions are recorded
calls with one or two changes (a typing error, words in another order, an argument dropped or of another call), and one
in ten is new. None is recorded, and each is asked once, after others have warmed up what look-ups share.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from cache_data import LARGE, Call, Corpus, large_calls, make_corpus
from cache_measure import Opened, draw, opened, percentiles, resident, seconds, table, timed
from cache_rivals import RIVALS, THRESHOLD, Arrays, Entries, entries_of

from streakline.cache.index import FuzzyIndex
from streakline.cache.lookup import Served, ToolCache
from streakline.cache.tokens import call_tokens
from streakline.types import Tier

Times: TypeAlias = npt.NDArray[np.float64]
Figures: TypeAlias = dict[str, float]
Curves: TypeAlias = dict[str, dict[int, float]]
"""By way: median us by entries of the tool."""

OURS, INDEX, NUMPY = "ToolCache.lookup", "its index alone", "brute force, numpy"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured."""

    entries: int = 40_850
    tools: int = 1_185
    many: int = 1_000_000
    growth: Sequence[int] = (10_000, 100_000, 1_000_000)
    questions: int = 4_000
    batch: int = 256
    compared: int = 400
    """Questions at 41k that all ways are asked."""
    compared_many: int = 12
    """Questions at 1M that all ways are asked: of some, each takes seconds."""
    recalled: int = 200
    """Questions at 1M of which the nearest call is found by brute force too."""


SMALL = Scale(entries=1_400, tools=140, many=3_000, growth=(1_000, 2_000), questions=60, batch=16, compared=30)


def lookup(cache: ToolCache, call: Call) -> Served:
    """Ask the cache."""
    return cache.lookup(call.tool, call.arguments, state=call.state)


def nearest(index: FuzzyIndex, call: Call) -> int | None:
    """Ask the index alone, which gives the id of an entry."""
    found = index.nearest(call.tool, call_tokens(call.tool, call.arguments), min_similarity=THRESHOLD)
    return found[0].entry_id if found else None


def batched(cache: ToolCache, batches: Sequence[Sequence[Call]]) -> npt.NDArray[np.float64]:
    """Ask all calls of each batch at once; gives us a call."""

    def ask(calls: Sequence[Call]) -> None:
        for call in calls:
            lookup(cache, call)

    spent = [seconds(partial(ask, batch)) for batch in batches]
    return 1e6 * np.array(spent) / len(batches[0])


def rollout_step(corpus: Corpus, size: int, generator: Random) -> list[Call]:
    """Make the calls of a rollout step, in groups of eight: five make a recorded call, two another, one a third.

    So two members make the same call in 39% of cases; in groups of the quickstart's first policy they did in 41%.
    """
    groups = size // 8
    recorded, own = generator.choices(corpus.calls, k=groups), corpus.questions(2 * groups, generator)
    calls = [*recorded * 5, *own[:groups] * 2, *own[groups:]]
    return generator.sample(calls, k=len(calls))


def measure_41k(scale: Scale, curves: Curves) -> Figures:
    """Look-ups in a cache of the paper's size."""
    corpus = make_corpus(scale.entries, scale.tools)
    recorded = Random(1).sample(corpus.calls, min(scale.questions, len(corpus.calls)))
    questions = corpus.questions(scale.questions, Random(2))
    steps = [rollout_step(corpus, scale.batch, Random(seed)) for seed in range(10, 20)]
    batches = [corpus.questions(scale.batch, Random(seed)) for seed in range(20, 30)]
    with opened(corpus) as at:
        warm_up(at, corpus, corpus.questions(scale.questions // 4, Random(3)))
        ask_cache = partial(lookup, at.cache)
        spent = {
            "exact, for the first time": timed(ask_cache, recorded)[0],
            "exact, again": timed(ask_cache, recorded)[0],
            "fuzzy": (fuzzy := timed(ask_cache, questions))[0],
            f"{scale.batch} at once: a rollout step": batched(at.cache, steps),
            f"{scale.batch} at once: as the fuzzy ones": batched(at.cache, batches),
        }
        title = f"{scale.entries:,} entries of {scale.tools:,} tools"
        print_lookups(f"{title}, us a call", spent, fuzzy[1], at)
        compared = corpus.questions(scale.compared, Random(4))
        entries = entries_of(corpus.by_tool)
        title = f"The nearest call, {title}: us a question"
        ratios, _ = compare(at, corpus, compared, entries=entries, truth=Arrays(entries), title=title)
    exact, _, _, step, _ = spent.values()
    p50, p99 = percentiles(fuzzy[0])
    return {
        "exact_p50_us_41k": float(np.median(exact)),
        "fuzzy_p50_us_41k": p50,
        "fuzzy_p99_us_41k": p99,
        "batched_us_41k": float(np.median(step)),
        **ratios,
    }


def measure_1m(scale: Scale, curves: Curves) -> Figures:
    """Look-ups among very many entries, half of them of one tool."""
    corpus = make_corpus(scale.many, scale.tools, share_large=0.5)
    questions = corpus.questions(scale.questions, Random(2))
    with opened(corpus) as at:
        warm_up(at, corpus, corpus.questions(scale.questions // 4, Random(3)))
        spent, answers = timed(partial(lookup, at.cache), questions)
        of_large = np.array([call.tool == LARGE.name for call in questions])
        size = len(corpus.by_tool[LARGE.name])
        print_lookups(
            f"{scale.many:,} entries of {scale.tools:,} tools, {size:,} of one; us a call",
            {"fuzzy": spent, "of them of the large tool": spent[of_large], "of the others": spent[~of_large]},
            answers,
            at,
        )
        entries = entries_of({LARGE.name: corpus.by_tool[LARGE.name]})
        truth = Arrays(entries)
        recall = recall_at_1(at, corpus, questions[: scale.recalled], of_large=truth)
        compared = corpus.questions(scale.compared_many, Random(4), tool=LARGE.name)
        title = f"The nearest call, among {size:,} of one tool: us a question"
        ratios, curve = compare(at, corpus, compared, entries=entries, truth=truth, title=title)
        for name, median in curve.items():
            curves.setdefault(name, {})[size] = median
    return {
        "fuzzy_p99_ms_1m": percentiles(spent)[1] / 1e3,
        "recall_at_1_1m": recall,
        "build_entries_per_s": at.steps["index built from the store, entries/s"],
        "bytes_per_entry_1m": at.steps["index, bytes an entry"],
        "_entries_1m": float(scale.many),
        "_fuzzy_p50_us_large": percentiles(spent[of_large])[0],
        "_peak_bytes_per_entry": at.steps["memory at most while it is built, bytes an entry"],
        "_store_bytes_per_entry": at.steps["store on disk, bytes an entry"],
        "_written_per_s": at.steps["store written, entries/s"],
        **ratios,
    }


def measure_growth(scale: Scale, curves: Curves) -> Figures:
    """The index alone, for one tool that has more and more entries."""
    rows = []
    for size in scale.growth:
        corpus = Corpus(large_calls(max(scale.growth))[:size], {}, {LARGE.name: LARGE})
        index = FuzzyIndex.build((entry_id, *call[:2]) for entry_id, call in enumerate(corpus.calls, 1))
        questions = corpus.questions(scale.questions // 4, Random(2))
        timed(partial(nearest, index), corpus.questions(scale.questions // 8, Random(3)))
        spent, _ = timed(partial(nearest, index), questions)
        curves.setdefault(INDEX, {})[size] = percentiles(spent)[0]
        rows.append((f"{size:,}", *percentiles(spent), index.num_bytes / size))
        if size < max(scale.growth):
            entries = entries_of(corpus.by_tool)
            for name, rival in {NUMPY: Arrays, **RIVALS}.items():
                asked, _ = timed(rival(entries).nearest, questions[: scale.compared_many])
                curves.setdefault(name, {})[size] = percentiles(asked)[0]
    table("One tool that grows, the index alone: us a question", ("entries", "p50", "p99", "bytes an entry"), rows)
    sizes, medians = zip(*((size, curves[INDEX][size]) for size in scale.growth), strict=True)
    return {"fuzzy_latency_slope": float(np.polyfit(np.log(sizes), np.log(medians), 1)[0])}


def warm_up(at: Opened, corpus: Corpus, questions: Sequence[Call]) -> None:
    """Fill what look-ups share: hashes of words, pages of SQLite, the medoid of each tool."""
    for call in questions:
        lookup(at.cache, call)
    spent = seconds(lambda: [at.fuzzy.medoid(tool) for tool in corpus.tools])
    at.steps["medoid of a tool found, us"] = 1e6 * spent / len(corpus.tools)


def print_lookups(title: str, spent: Mapping[str, Times], answers: Sequence[Served], at: Opened) -> None:
    """Print how long look-ups took, what the fuzzy ones were served, and how the cache came about."""
    rows = [(name, len(times), *percentiles(times)) for name, times in spent.items()]
    table(title, ("look-up", "measured", "p50", "p99"), rows)
    tiers = Counter(answer.tier.value for answer in answers)
    print("\nserved: " + ", ".join(f"{count / len(answers):.0%} {tier}" for tier, count in tiers.most_common()))
    table("How it came about", ("", "value"), list(at.steps.items()))


def recall_at_1(at: Opened, corpus: Corpus, questions: Sequence[Call], *, of_large: Arrays | None = None) -> float:
    """Share of the questions whose nearest call reaches the threshold for which the index gives just that entry."""
    hits = []
    for tool in {call.tool for call in questions}:
        truth = of_large if of_large and tool == LARGE.name else Arrays(entries_of({tool: corpus.by_tool[tool]}))
        for call in (call for call in questions if call.tool == tool):
            place = truth.nearest(call)
            if place is not None:
                hits.append(nearest(at.fuzzy, call) == corpus.ids_by_tool[tool][place])
    print(f"\nrecall@1: {np.mean(hits):.4f} of {len(hits)} questions whose nearest call reaches {THRESHOLD}")
    return float(np.mean(hits))


def compare(
    at: Opened, corpus: Corpus, questions: Sequence[Call], *, entries: Mapping[str, Entries], truth: Arrays, title: str
) -> tuple[Figures, dict[str, float]]:
    """Ask all ways the same questions and print a table; gives median times over that of the index, and these times."""
    count = sum(len(some.calls) for some in entries.values())
    similarities = [truth.similarities(call) for call in questions]
    place_of = {entry_id: place for ids in corpus.ids_by_tool.values() for place, entry_id in enumerate(ids)}
    rows: list[tuple[object, ...]] = []
    medians: dict[str, float] = {}

    others = corpus.questions(200, Random(5), tool=questions[0].tool if len(entries) == 1 else None)

    def judge(name: str, way: Callable[[Call], int | None], *, num_bytes: float) -> None:
        warm_up_way(way, others)
        spent, places = timed(way, questions)
        hits = [
            place is not None and found[place] == found.max()
            for place, found in zip(places, similarities, strict=True)
            if found.max() >= THRESHOLD
        ]
        medians[name] = percentiles(spent)[0]
        rows.append((name, *percentiles(spent), float(np.mean(hits)), num_bytes))

    own = at.steps["index, bytes an entry"]
    judge(INDEX, lambda call: place_of.get(nearest(at.fuzzy, call) or 0), num_bytes=own)
    judge(OURS, lambda call: place_of.get(served_id(lookup(at.cache, call))), num_bytes=own)
    judge(NUMPY, truth.nearest, num_bytes=truth.num_bytes / count)
    for name, rival in RIVALS.items():
        before = resident()
        one = rival(entries)
        judge(name, one.nearest, num_bytes=(resident() - before) / count)
        del one
    table(title, ("way", "p50", "p99", "recall@1", "bytes an entry"), rows)
    reached = sum(found.max() >= THRESHOLD for found in similarities)
    print(f"\n{len(questions)} questions for all; recall on the {reached} whose nearest call reaches {THRESHOLD}")
    ratio = {name: median / medians[INDEX] for name, median in medians.items()}
    return {
        "vs_rapidfuzz": ratio["rapidfuzz extractOne"],
        "vs_datasketch": ratio["datasketch MinHashLSH"],
        "vs_bruteforce": min(ratio[NUMPY], ratio["brute force, Python sets"]),
    }, medians


def warm_up_way(way: Callable[[Call], object], questions: Sequence[Call]) -> None:
    """Ask other questions for a second, so that no way starts with cold memory."""
    started = time.perf_counter()
    for question in questions:
        way(question)
        if time.perf_counter() - started > 1:
            return


def served_id(served: Served) -> int:
    """Give the id of a similar entry; 0 = none was served."""
    return served.entry.id if served.entry is not None and served.tier is Tier.FUZZY else 0


def print_outlook(figures: Figures) -> None:
    """Say what a hundred million entries would take."""
    times = 1e8 / figures["_entries_1m"]
    index, peak = (figures[name] * 1e8 / 1e9 for name in ("bytes_per_entry_1m", "_peak_bytes_per_entry"))
    hours = 1e8 / 3600 / figures["build_entries_per_s"], 1e8 / 3600 / figures["_written_per_s"]
    latency = figures["_fuzzy_p50_us_large"] * times ** figures["fuzzy_latency_slope"] / 1e3
    disk, server = figures["_store_bytes_per_entry"] * 1e8 / 1e9, 2 ** math.ceil(math.log2(peak))
    print(
        f"\n100,000,000 entries, extrapolated and not measured: the index {index:,.0f} GB in memory and on disk, and "
        f"{peak:,.0f} GB of memory while it is built; the store {disk:,.0f} GB on disk; with one thread "
        f"{hours[0]:,.1f} h for the index and {hours[1]:,.1f} h or more for the store; by the slope {latency:.1f} ms "
        f"for a fuzzy look-up. That is a server of {server:,} GB of memory with a local SSD, without a GPU."
    )


def main() -> None:
    """Measure, print, and write figures and picture where asked to."""
    parts = {"41k": measure_41k, "1m": measure_1m, "growth": measure_growth}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts), help="parts to measure")
    parser.add_argument("--small", action="store_true", help="try everything on few entries")
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    parser.add_argument("--picture", type=Path, default=None, help="file to draw latency against entries in")
    arguments = parser.parse_args()
    gc.disable()  # It would go through a million calls again and again; what is timed is timed with it.
    figures: Figures = {}
    curves: Curves = {}
    for name in arguments.only:
        measured = parts[name](SMALL if arguments.small else Scale(), curves)
        figures |= {key: min(value, figures.get(key, value)) for key, value in measured.items()}
    if len(arguments.only) == len(parts):
        print_outlook(figures)
    shown = {name: value for name, value in figures.items() if not name.startswith("_")}
    table("Figures", ("name", "value"), list(shown.items()))
    if arguments.json:
        rounded = {name: float(f"{value:.4g}") for name, value in shown.items()}
        arguments.json.write_text(json.dumps({"figures": rounded}, indent=2) + "\n", encoding="utf-8")
    if arguments.picture:
        draw(curves, arguments.picture, bold=(INDEX, OURS))


if __name__ == "__main__":
    main()
