"""Compare our lenient grade of BFCL with its own checkers: `python tools/bfcl_parity.py` (about a minute).

The gold answer of each task and changed ones, drawn from a seed, are graded by both. Prints agreement by category, the
disagreements that are meant, each proven by a rule of its own and shown with an example, and those that nothing
explains. Of these there should be none: if there are, the last line says how many, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from streakline.errors import StreaklineError
from streakline.evaluation.bfcl_parity import compare_category
from streakline.evaluation.bfcl_parity_report import figures, render_parity
from streakline.tasks.bfcl_source import CATEGORIES


def main() -> None:
    """Compare, print, and write the figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--categories", nargs="+", choices=CATEGORIES, default=CATEGORIES, metavar="CATEGORY")
    parser.add_argument("--mutants", type=int, default=8, help="changed answers of each task")
    parser.add_argument("--limit", type=int, default=None, help="tasks of each category; by default all")
    parser.add_argument("--seed", type=int, default=0, help="of the changes")
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    arguments = parser.parse_args()
    try:
        if arguments.mutants < 0:
            sys.exit(f"error: Expected `mutants` to be at least 0, but got {arguments.mutants}")
        found = [
            compare_category(name, count=arguments.mutants, seed=arguments.seed, limit=arguments.limit)
            for name in arguments.categories
        ]
    except StreaklineError as error:
        sys.exit(f"error: {error}")
    print(render_parity(found))
    summary = figures(found)
    if arguments.json:
        arguments.json.write_text(json.dumps({"figures": summary}, indent=2) + "\n", encoding="utf-8")
    print(f"agreement_min {summary['agreement_min']:.6f} over {summary['answers']} answers")
    if summary["unexplained"]:
        sys.exit(f"error: Expected no disagreement that no rule explains, but got {summary['unexplained']}")


if __name__ == "__main__":
    main()
