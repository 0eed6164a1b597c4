"""The quickstart's tables and figures."""

from __future__ import annotations

import json
import math

import pytest

from streakline.evaluation.comparison import compare_scores
from streakline.evaluation.quickstart_report import Corruption, QuickstartRun, figures, render_report, summary
from streakline.metrics.held_out import HeldOutScore


def _scores(success: dict[str, list[float]]) -> list[HeldOutScore]:
    return [
        HeldOutScore(task_id=f"{kind}/{index}", kind=kind, sampled=(value, value), greedy=value)
        for kind, values in success.items()
        for index, value in enumerate(values)
    ]


@pytest.fixture
def run() -> QuickstartRun:
    before = _scores({"close_ticket": [0.0] * 12 + [1.0] * 4, "move": [1.0] * 10, "trade": [1.0, 0.0] * 4})
    after = _scores({"close_ticket": [1.0] * 16, "move": [0.0] * 9 + [1.0], "trade": [1.0, 0.0] * 4})
    return QuickstartRun(
        seed=2,
        arm="habits",
        comparison=compare_scores(before, after),
        stage_seconds={"SFT: train": 60.4, "SFT: test": 20.0, "GRPO: train": 150.0, "GRPO: test": 19.6},
        grpo_seconds={"rollouts": 100.0, "updates": 40.0},
        zero_variance_first_epoch=0.45,
        corruptions={
            "close_ticket": Corruption(habit="guesses", description="names a ticket without looking it up", share=0.4),
            "move": Corruption(habit="never", description="is never wrong here", share=0.0),
        },
    )


def test_figures_have_the_agreed_names(run: QuickstartRun) -> None:
    values = figures(run)
    assert list(values) == [
        "success_sft",
        "success_grpo",
        "difference",
        "difference_low",
        "difference_high",
        "greedy_success_sft",
        "greedy_success_grpo",
        "greedy_difference",
        "greedy_difference_low",
        "greedy_difference_high",
        "kinds_fallen",
        "zero_variance_first_epoch",
        "wall_seconds",
        "seed",
    ]
    assert values["success_sft"] == pytest.approx(18 / 34)
    assert values["success_grpo"] == pytest.approx(21 / 34)
    assert values["difference"] == pytest.approx(3 / 34)
    assert values["kinds_fallen"] == 1
    assert values["wall_seconds"] == pytest.approx(250)
    assert values["seed"] == 2


def test_a_figure_that_was_not_measured_is_null(run: QuickstartRun) -> None:
    bare = QuickstartRun(seed=0, arm="clean", comparison=run.comparison, stage_seconds={})
    assert math.isnan(bare.zero_variance_first_epoch)
    assert figures(bare)["zero_variance_first_epoch"] is None


def test_the_summary_is_json_and_names_fallen_kinds(run: QuickstartRun) -> None:
    stored = json.loads(json.dumps(summary(run), allow_nan=False))
    assert stored["figures"] == figures(run)
    assert stored["kinds_fallen"] == ["move"]
    assert stored["num_tasks"] == 34
    assert {row["kind"]: row["fell"] for row in stored["kinds_greedy"]} == {
        "close_ticket": False,
        "move": True,
        "trade": False,
    }


def test_the_report_shows_success_kinds_corruption_and_time(run: QuickstartRun) -> None:
    report = render_report(run)
    assert report.isascii()
    assert "Success on 34 held-out tasks, with 95% intervals over tasks (seed 2, demonstrations: habits)" in report
    rows = {row.split("|")[1].strip(): row for row in report.splitlines() if row.startswith("|")}
    assert "0.529 [" in rows["sampled"]
    assert "+0.088 [" in rows["greedy"]
    assert "0.25 -> 1.00 *" in rows["close_ticket"]
    assert "40% guesses" in rows["close_ticket"]
    assert "1.00 -> 0.10 *" in rows["move"]
    assert rows["move"].rstrip(" |").endswith("none")
    assert "0.50 -> 0.50 " in rows["trade"]
    assert "150" in rows["GRPO: train"]
    assert "60%" in rows["GRPO: train"]
    assert "40%" in rows["of GRPO: rollouts"]
    assert "Kinds that fell significantly: move." in report
    assert "close_ticket: 40% show an agent that names a ticket without looking it up" in report
    assert "45% of the groups had equal rewards" in report


def test_the_report_of_clean_demonstrations_says_so(run: QuickstartRun) -> None:
    clean = QuickstartRun(seed=0, arm="clean", comparison=run.comparison, stage_seconds={"all": 1.0})
    report = render_report(clean)
    assert "All demonstrations were right." in report
    assert "equal rewards" not in report


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ([1.0] * 10, "Sampled success rose: the whole interval of the difference is above 0."),
        ([0.0] * 10, "Sampled success fell: the whole interval of the difference is below 0."),
        ([1.0, 0.0] * 5, "Sampled success: no change can be told from chance"),
    ],
)
def test_the_verdict_follows_the_interval(after: list[float], verdict: str) -> None:
    comparison = compare_scores(_scores({"move": [1.0, 0.0] * 4 + [0.0, 1.0]}), _scores({"move": after}))
    assert verdict in render_report(
        QuickstartRun(seed=0, arm="clean", comparison=comparison, stage_seconds={"all": 1.0})
    )
