"""Gradings of BFCL answers a second, ours beside upstream's: `python tools/bench/grading.py` (about a minute).

In seconds of CPU time, so of one core. All judges grade the same answers, the gold one of each task and changed ones,
and take turns category by category; a rate is the median of the repetitions. `single-turn` is over the categories with
answers to compare. Multi-turn answers run in a fresh world each time; the gold calls of a task run once, as in
training. No verdict is kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from streakline.evaluation.bfcl_parity import JUDGES, answer_episode
from streakline.evaluation.bfcl_parity_mutants import gold_steps, mutants
from streakline.evaluation.tables import markdown_table
from streakline.rewards.base import RewardTerm
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.bfcl_source import CATEGORIES, MULTI_TURN, WITHOUT_ANSWERS
from streakline.types import Task, Trajectory

Answers: TypeAlias = Sequence[tuple[Task, Trajectory]]
Seconds: TypeAlias = dict[str, list[float]]
"""Judge -> seconds of CPU time for all answers, by repetition."""


def make_answers(category: str, *, limit: int, count: int, seed: int) -> Answers:
    """Gold answer and changed ones of the first tasks of a category."""
    return [
        (task, answer_episode(task, steps))
        for task in BFCLTaskSet(category, limit=limit)
        for steps in (gold_steps(task), *(steps for _, steps in mutants(task, count=count, seed=seed)))
    ]


def measure(answers: Answers, *, repetitions: int) -> Seconds:
    """Let the judges take turns."""
    spent: Seconds = {name: [] for name in JUDGES}
    for _ in range(repetitions):
        for name, term in JUDGES.items():
            spent[name].append(_seconds(term, answers))
    return spent


def _seconds(term: RewardTerm, answers: Answers) -> float:
    started = time.process_time()
    for task, trajectory in answers:
        term.score(task, trajectory)
    return time.process_time() - started


def rates(spent: Mapping[str, Seconds], counts: Mapping[str, int]) -> dict[str, float]:
    """Judge -> gradings a second over some categories, median of the repetitions."""
    total = sum(counts[category] for category in spent)
    return {
        name: statistics.median(total / sum(each) for each in zip(*(one[name] for one in spent.values()), strict=True))
        for name in JUDGES
    }


def print_rates(found: Mapping[str, Mapping[str, float]]) -> None:
    """Print a table of gradings a second."""
    rows = [
        (name, *(f"{each[judge]:,.0f}" for judge in JUDGES), f"{each['lenient'] / each['upstream']:.1f}")
        for name, each in found.items()
    ]
    print(markdown_table(("gradings a second", *JUDGES, "lenient/upstream"), rows))


def main() -> None:
    """Measure, print, and write the figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few tasks, one repetition")
    parser.add_argument("--limit", type=int, default=200, help="tasks of each category")
    parser.add_argument("--mutants", type=int, default=3, help="changed answers of each task")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the changes")
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    arguments = parser.parse_args()
    limit, repetitions = (8, 1) if arguments.quick else (arguments.limit, arguments.repetitions)
    answers = {
        name: make_answers(name, limit=limit, count=arguments.mutants, seed=arguments.seed) for name in CATEGORIES
    }
    for each in answers.values():  # imports, and the reading of files
        measure(each[:1], repetitions=1)
    spent = {name: measure(each, repetitions=repetitions) for name, each in answers.items()}
    counts = {name: len(each) for name, each in answers.items()}
    parts = {
        "single-turn": [name for name in CATEGORIES if name not in MULTI_TURN | WITHOUT_ANSWERS],
        "multi-turn": [name for name in CATEGORIES if name in MULTI_TURN],
    }
    found = {part: rates({name: spent[name] for name in names}, counts) for part, names in parts.items()}
    print_rates({name: rates({name: spent[name]}, counts) for name in CATEGORIES} | found)
    print(f"\n{sum(counts.values())} answers, {repetitions} repetition(s), seconds of CPU time")
    if arguments.json:
        single, multi = found["single-turn"], found["multi-turn"]
        figures = {
            "single_turn_per_s": single["lenient"],
            "multi_turn_per_s": multi["lenient"],
            "single_turn_vs_upstream": single["lenient"] / single["upstream"],
            "multi_turn_vs_upstream": multi["lenient"] / multi["upstream"],
        }
        rounded = {name: float(f"{value:.4g}") for name, value in figures.items()}
        arguments.json.write_text(json.dumps({"figures": rounded}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
