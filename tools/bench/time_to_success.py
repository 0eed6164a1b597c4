"""Training time to the same held-out success, by efficiency technique: `python tools/bench/time_to_success.py`.

Tasks of ToolWorld whose prompts hold every tool of their simulators (1.4 to 1.8 thousand tokens), of one user turn
(`single`) or of two (`multi`), the same 24 in each epoch. A policy is made by SFT first; then each arm trains
it with each seed by an ordinary `python main.py fit`, its held-out success measured before and after each epoch:

    plain          padded rows, trained logits only, all groups and all trajectories in every update
    filter         + streak filter (k = 1)
    down-sampling  + 4 of 8 trajectories by largest variance, groups without contrast dropped
    both           + both
    all            + both, and updates along prefix trees

All take as many optimiser steps: fifteen, which are five epochs of plain training, and more where a filter makes epochs
short. The clock is the sum of the seconds that the steps log for rollouts, tools, rewards and updates: start-up and
held-out measurements are not in it. The target is 90% of what plain training with the same seed gained from start to
end; curves are made monotone, and read between measurements by straight lines. Intervals are t intervals over seeds of
the logarithm.

Runs that are done are not repeated, so an interrupted benchmark goes on; `--fresh` starts over. An hour and a half with
`--jobs 2`; `--quick` runs plain and all on `multi` with one seed (a quarter of an hour). Options that are not known
here are given to each training.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from success_curves import final_difference, ratio_interval, speedup, target_of
from success_runs import ARMS, ROOT, STUDIES, Bench, Run, make_policy

from streakline.errors import StreaklineError
from streakline.evaluation.tables import markdown_table

FIGURES = {
    "speedup_single_filter_downsample": ("single", "both"),
    "speedup_multi_filter_downsample": ("multi", "both"),
    "speedup_multi_all": ("multi", "all"),
}
SHARE = 0.9
TITLES = ("arm", "final success", "- plain", "s to target", "speed-up", "s rollout", "s update", "sampled", "trained")


def report(runs: Mapping[tuple[str, str], Sequence[Run]]) -> None:
    """Print a table of each study: what was reached when, and where the seconds went."""
    for study in dict.fromkeys(study for study, _ in runs):
        plain = runs[study, "plain"]
        correct = np.mean([run.all_correct_at_start for run in plain])
        print(f"\n{study}: success at the start {plain[0].curve.success[0]:.3f}, {correct:.2f} all right in epoch 0")
        rows = [_row(arm, plain, runs[study, arm]) for place, arm in runs if place == study]
        print(markdown_table(TITLES, rows), flush=True)


def _row(arm: str, plain: Sequence[Run], chosen: Sequence[Run]) -> list[str]:
    curves, plain_curves = [run.curve for run in chosen], [run.curve for run in plain]
    pairs = list(zip(plain_curves, curves, strict=True))
    seconds = [two.seconds_to(target_of(one, share=SHARE)) for one, two in pairs]
    middle, low, high = ratio_interval([speedup(one, two, share=SHARE) for one, two in pairs])
    change = final_difference(plain_curves, curves)
    return [
        arm,
        f"{np.mean([curve.success[-1] for curve in curves]):.3f}",
        "-" if change is None else f"{change.estimate:+.3f} [{change.low:+.3f}, {change.high:+.3f}]",
        " ".join(f"{value:.0f}" for value in seconds),
        f"{middle:.2f} [{low:.2f}, {high:.2f}]",
        f"{np.mean([run.seconds.get('rollouts', 0.0) for run in chosen]):.0f}",
        f"{np.mean([run.seconds.get('updates', 0.0) for run in chosen]):.0f}",
        f"{np.mean([run.generated_tokens for run in chosen]):.0f}",
        f"{np.mean([run.trained_tokens for run in chosen]):.0f}",
    ]


def figures_of(runs: Mapping[tuple[str, str], Sequence[Run]]) -> dict[str, float | None]:
    """What the JSON file holds; null where there are too few seeds, or an arm did not reach the target."""
    figures: dict[str, float | None] = {}
    for name, (study, arm) in FIGURES.items():
        if (study, arm) in runs:
            pairs = zip(runs[study, "plain"], runs[study, arm], strict=True)
            values = ratio_interval([speedup(one.curve, two.curve, share=SHARE) for one, two in pairs])
            for suffix, value in zip(("", "_low", "_high"), values, strict=True):
                figures[name + suffix] = float(f"{value:.4g}") if math.isfinite(value) else None
    return figures


def draw(runs: Mapping[tuple[str, str], Sequence[Run]], path: Path) -> None:
    """Held-out success over seconds of training, a panel for each study."""
    studies = list(dict.fromkeys(study for study, _ in runs))
    figure = Figure(figsize=(6 * len(studies), 4), layout="constrained")
    for axes, study in zip(np.atleast_1d(figure.subplots(1, len(studies))), studies, strict=True):
        for color, (_, arm) in enumerate(key for key in runs if key[0] == study):
            for seed, run in enumerate(runs[study, arm]):
                label = arm if seed == 0 else None
                axes.plot(run.curve.seconds, run.curve.success, color=f"C{color}", alpha=0.7, marker=".", label=label)
        axes.set(title=study, xlabel="seconds of training", ylabel="held-out success")
        axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Train what is missing, print, draw, and write the figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", nargs="+", choices=[*STUDIES], default=[*STUDIES])
    parser.add_argument("--arms", nargs="+", choices=[*ARMS], default=[*ARMS], help="plain is always among them")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=15, help="optimiser steps of each training; plain: three an epoch")
    parser.add_argument("--quick", action="store_true", help="plain and all on multi, seed 0")
    parser.add_argument("--model", default=None, help="policy to start from; default = made by SFT")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once, each on one core")
    parser.add_argument("--folder", type=Path, default=ROOT / "mlruns" / "bench" / "time_to_success")
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are done")
    parser.add_argument("--picture", type=Path, default=ROOT / "mlruns" / "bench" / "time_to_success.png")
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    arguments, options = parser.parse_known_args()
    for name in ("jobs", "steps"):
        if getattr(arguments, name) < 1:
            parser.error(f"Expected `--{name}` to be at least 1, but got {getattr(arguments, name)}")
    if arguments.quick:
        arguments.studies, arguments.arms, arguments.seeds = ["multi"], ["all"], [0]
    folder = arguments.folder.resolve()
    if arguments.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    bench = Bench(folder=folder, model=arguments.model or make_policy(folder), steps=arguments.steps, options=options)
    arms = list(dict.fromkeys(["plain", *arguments.arms]))
    # What the figures need comes first, seed by seed, so that what runs side by side is much the same for every arm.
    keys = [(study, arm, seed) for seed, study, arm in product(arguments.seeds, arguments.studies, arms)]
    keys.sort(key=lambda key: key[1] in {"filter", "down-sampling"})
    for study in arguments.studies:
        bench.start(study)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda key: bench.train(*key), keys))
    runs = {
        (study, arm): [bench.read(study, arm, seed) for seed in arguments.seeds]
        for study, arm in product(arguments.studies, arms)
    }
    report(runs)
    draw(runs, arguments.picture)
    print(f"picture in {arguments.picture}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"figures": figures_of(runs)}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except StreaklineError as error:
        sys.exit(f"error: {error}")
