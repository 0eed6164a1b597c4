"""Compare a judge with people.

`python tools/calibrate_judge.py --labels data/judge_labels.jsonl --judge configs/judge/f1.yaml`

Labelled answers (`src/streakline/evaluation/judge_calibration.py` shows a line) go in; out come agreement with the
labels, and between the judges of a panel, and confusions. `--json FILE` keeps them and every score.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jsonargparse import ArgumentParser

from streakline.errors import StreaklineError
from streakline.evaluation.judge_calibration import calibration_json, judge_labels, read_labels, render_calibration
from streakline.rewards.judge.base import Judge


def make_parser() -> ArgumentParser:
    """Options of the command."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=Path, required=True, help="labelled answers, one a line")
    parser.add_argument("--judge", type=Judge, sub_configs=True, required=True, help="file of configs/judge/")
    parser.add_argument("--json", type=Path, help="where to keep the figures and every score")
    return parser


def main() -> int:
    """Print the tables."""
    parser = make_parser()
    options = parser.instantiate(parser.parse_args())
    try:
        ratings = judge_labels(options.judge, read_labels(options.labels))
        print(render_calibration(ratings), end="")
        if options.json is not None:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(calibration_json(ratings) + "\n", encoding="utf-8")
    except (StreaklineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
