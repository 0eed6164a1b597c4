"""How `cache.py` takes times and memory."""

from __future__ import annotations

import ctypes
import gc
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from cache_data import Call, Corpus
from cache_rivals import THRESHOLD
from matplotlib.figure import Figure

from streakline.cache.index import FuzzyIndex, make_index, open_index
from streakline.cache.lookup import CacheOptions, ToolCache
from streakline.cache.store import CacheStore

_Answer = TypeVar("_Answer")


class Opened(NamedTuple):
    """A frozen cache, and what it took to get there."""

    cache: ToolCache
    fuzzy: FuzzyIndex
    steps: dict[str, float]
    """Rates, sizes and seconds by name."""


@contextmanager
def opened(corpus: Corpus) -> Iterator[Opened]:
    """Record a corpus, index and open it."""
    count = len(corpus.calls)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cache.sqlite"
        with CacheStore.open(path) as store:
            steps = {"store written, entries/s": count / seconds(lambda: corpus.write(store))}
            before = resident()
            steps["index built from the store, entries/s"] = count / seconds(lambda: make_index(store))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
            steps["memory at most while it is built, bytes an entry"] = peak / count
        steps["store on disk, bytes an entry"] = path.stat().st_size / count
        steps["store opened the first time, s"] = seconds(lambda: CacheStore.open(path, read_only=True).close())
        steps["store opened again, s"] = seconds(lambda: CacheStore.open(path, read_only=True).close())
        with CacheStore.open(path, read_only=True) as store:
            before = resident()
            started = time.perf_counter()
            index = open_index(store)
            steps["index read, s"] = time.perf_counter() - started
            steps["index, bytes an entry as resident memory grew"] = (resident() - before) / count
            steps["index, bytes an entry"] = index.num_bytes / count
            yield Opened(ToolCache(store, index=index, options=CacheOptions(threshold=THRESHOLD)), index, steps)


def resident() -> int:
    """Bytes of memory that the process holds, when it has given back all that it can."""
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


@contextmanager
def collecting() -> Iterator[None]:
    """Collect garbage as usual, but leave alone what is there: a user doesn't hold all calls beside the cache."""
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.disable()
        gc.unfreeze()


def seconds(act: Callable[[], object]) -> float:
    """Time one act."""
    with collecting():
        started = time.perf_counter()
        act()
        return time.perf_counter() - started


def timed(ask: Callable[[Call], _Answer], questions: Sequence[Call]) -> tuple[npt.NDArray[np.float64], list[_Answer]]:
    """Ask each question on its own; gives us for each, and the answers."""
    spent, answers = [], []
    with collecting():
        for question in questions:
            started = time.perf_counter_ns()
            answer = ask(question)
            spent.append(time.perf_counter_ns() - started)
            answers.append(answer)
    return np.array(spent) / 1e3, answers


def percentiles(spent: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Give median and 99th percentile."""
    return float(np.median(spent)), float(np.percentile(spent, 99))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table in Markdown."""
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(_cell(value) for value in row)} |", flush=True)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def draw(curves: Mapping[str, Mapping[int, float]], path: Path, *, bold: Sequence[str]) -> None:
    """Draw median us against entries, by way."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, points in sorted(curves.items()):
        sizes, medians = zip(*sorted(points.items()), strict=True)
        axes.loglog(sizes, medians, "o-", label=name, linewidth=2.5 if name in bold else 1)
    axes.set(xlabel="entries of the tool", ylabel="median time of a question, us")
    axes.grid(which="both", alpha=0.2)
    axes.legend()
    figure.savefig(path, dpi=150)
