"""Check the intervals by simulation: `python tools/statistics_coverage.py` (some minutes on one core).

Prints how often intervals of nominally 95% hold the truth that was drawn from, and how often simulated experiments find
the difference that a design detects with a power of .8.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

import numpy as np

from streakline.evaluation.clustered import interval_given_seeds, method_difference, method_interval
from streakline.evaluation.design import Design, detectable_difference
from streakline.evaluation.intervals import Interval, interval_of_differences
from streakline.evaluation.score_table import FloatArray, ScoreTable
from streakline.evaluation.tables import markdown_table
from streakline.evaluation.variance_split import VarianceSplit

RATES = (0.05, 0.1, 0.3, 0.5, 0.8)
CORRELATIONS = (0.0, 0.3, 0.8)
CHANGES = {"5% rise": (0.05, 0.0), "3% rise, 3% fall": (0.03, 0.03), "20% rise, 10% fall": (0.2, 0.1)}
SEED_DEVIATIONS = (0.0, 0.15, 0.5)
TASK_DEVIATION, SEED_TASK_DEVIATION = 1.5, 0.5  # logits; half of the tasks are above .73 or below .27


def _means(runs: int, *, rng: np.random.Generator) -> str:
    rows = [
        (f"{tasks} x {episodes}", *(_given_seeds(tasks, episodes, rate, runs=runs, rng=rng) for rate in RATES))
        for tasks in (10, 20, 50, 100, 200)
        for episodes in (1, 5)
    ]
    return (
        "Interval given seeds, by true rate, for correlations of 0, .3 and .8 between two episodes of a task\n\n"
        + markdown_table(("tasks x episodes", *(f"{rate:g}" for rate in RATES)), rows)
    )


def _paired(runs: int, *, rng: np.random.Generator) -> str:
    rows = [
        (
            f"{tasks} x {episodes}",
            *(_differences(tasks, episodes, each, runs=runs, rng=rng) for each in CHANGES.values()),
        )
        for tasks in (20, 50, 100, 200)
        for episodes in (1, 5)
    ]
    return "Paired difference of two models, by the share of tasks that change\n\n" + markdown_table(
        ("tasks x episodes", *CHANGES), rows
    )


def _over_seeds(runs: int, *, rng: np.random.Generator) -> str:
    rows = [
        (f"{seeds} x {tasks}", *(_methods(seeds, tasks, each, runs=runs, rng=rng) for each in SEED_DEVIATIONS))
        for seeds in (2, 3, 5, 10)
        for tasks in (50, 200)
    ]
    return (
        "Methods, by the deviation between seeds in logits: one arm, difference of two, and one arm given its seeds\n\n"
        + markdown_table(("seeds x tasks", *(f"{deviation:g}" for deviation in SEED_DEVIATIONS)), rows)
    )


def _designs(runs: int, *, rng: np.random.Generator) -> str:
    rows = [
        (f"{seeds} x {tasks}", *_power(seeds, tasks, runs=runs, rng=rng)) for seeds in (3, 5, 10) for tasks in (50, 200)
    ]
    return "Share of experiments that find the detectable difference\n\n" + markdown_table(
        ("seeds x tasks", "difference", "found"), rows
    )


TABLES = {"means": _means, "paired": _paired, "methods": _over_seeds, "designs": _designs}


def _given_seeds(tasks: int, episodes: int, rate: float, *, runs: int, rng: np.random.Generator) -> str:
    shape, shown = (1, tasks, episodes), CORRELATIONS[: 3 if episodes > 1 else 1]  # one episode knows no correlation
    draws = [_beta_binomial(rate, correlation=each, shape=shape, rng=rng) for each in shown]
    return " ".join(_coverage(draw, truth=rate, runs=runs) for draw in draws)


def _beta_binomial(
    rate: float, *, correlation: float, shape: tuple[int, int, int], rng: np.random.Generator
) -> Callable[[], Interval]:
    scale = 1 / max(correlation, 1e-9) - 1

    def draw() -> Interval:
        answers = rng.random(shape) < rng.beta(rate * scale, (1 - rate) * scale, (1, shape[1], 1))
        return interval_given_seeds(_table(answers.astype(float)))

    return draw


def _differences(
    tasks: int, episodes: int, changes: tuple[float, float], *, runs: int, rng: np.random.Generator
) -> str:
    """Tasks that change go to a rate of 1 or 0; others keep theirs, and with one episode answer alike."""

    def draw() -> Interval:
        rates, change = rng.beta(0.5, 0.5, (tasks, 1)), rng.random((tasks, 1))
        before = rng.random((tasks, episodes)) < rates
        again = before if episodes == 1 else rng.random((tasks, episodes)) < rates
        after = np.where(change < changes[0], True, np.where(change < sum(changes), False, again))
        return interval_of_differences(after.mean(axis=1) - before.mean(axis=1), num_resamples=999)

    return _coverage(draw, truth=(changes[0] - changes[1]) / 2, runs=runs)


def _methods(seeds: int, tasks: int, deviation: float, *, runs: int, rng: np.random.Generator) -> str:
    covered = np.zeros(3)
    for _ in range(runs):
        logits = rng.normal(size=(1, tasks, 1)) * TASK_DEVIATION
        arms = [_table(_answers(logits, seeds=seeds, deviation=deviation, rng=rng)) for _ in range(2)]
        intervals = (method_interval(arms[0]), method_difference(arms[0], after=arms[1]), interval_given_seeds(arms[0]))
        covered += [each.low <= truth <= each.high for each, truth in zip(intervals, (0.5, 0.0, 0.5), strict=True)]
    return " ".join(f"{share:.3f}" for share in covered / runs)


def _answers(logits: FloatArray, *, seeds: int, deviation: float, rng: np.random.Generator) -> FloatArray:
    """[S, P, 2] episodes of one arm whose logits are symmetric about 0, so that its true rate is one half."""
    logits = logits + rng.normal(size=(seeds, 1, 1)) * deviation
    logits = logits + rng.normal(size=(seeds, logits.shape[1], 1)) * SEED_TASK_DEVIATION
    return (rng.random((seeds, logits.shape[1], 2)) < 1 / (1 + np.exp(-logits))).astype(float)


def _power(seeds: int, tasks: int, *, runs: int, rng: np.random.Generator) -> tuple[str, str]:
    variance = VarianceSplit(seed=0.0016, task=0.10, seed_task=0.02, episode=0.12)
    design = Design(num_seeds=seeds, num_tasks=tasks, num_episodes=2, variance=variance, arm_correlation=0.8)
    difference, found = detectable_difference(design), 0
    for _ in range(runs):
        shared, own = rng.normal(size=(1, tasks, 1)) * 0.08**0.5, rng.normal(size=(2, 1, tasks, 1)) * 0.02**0.5
        arms = []
        for arm in (0, 1):
            values = shared + own[arm] + arm * difference + rng.normal(size=(seeds, 1, 1)) * variance.seed**0.5
            values = values + rng.normal(size=(seeds, tasks, 1)) * variance.seed_task**0.5
            arms.append(_table(values + rng.normal(size=(seeds, tasks, 2)) * variance.episode**0.5))
        interval = method_difference(arms[0], after=arms[1])
        found += interval.low > 0 or interval.high < 0
    return f"{difference:.3f}", f"{found / runs:.3f}"


def _coverage(draw: Callable[[], Interval], *, truth: float, runs: int) -> str:
    intervals = [draw() for _ in range(runs)]
    return f"{np.mean([each.low - 1e-12 <= truth <= each.high + 1e-12 for each in intervals]):.3f}"


def _table(values: FloatArray) -> ScoreTable:
    return ScoreTable(values=values, tasks=tuple(str(task) for task in range(values.shape[1])))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), help="by default all")
    parser.add_argument("--runs", type=int, default=1_000, help="simulated experiments of each cell")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        sys.exit(f"error: Expected `runs` to be at least 1, but got {arguments.runs}")
    error, rng = math.sqrt(0.95 * 0.05 / arguments.runs), np.random.default_rng(arguments.seed)
    print(f"Coverage of 95% intervals over {arguments.runs} runs a cell; standard error {error:.4f}.", end="\n\n")
    for name in arguments.tables:
        print(TABLES[name](arguments.runs, rng=rng), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
