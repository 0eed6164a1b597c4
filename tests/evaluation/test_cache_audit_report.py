"""What a reader of an audit sees."""

import dataclasses

import pytest
from matplotlib.image import imread

from streakline.evaluation.cache_audit import CacheAudit, Figures
from streakline.evaluation.cache_audit_report import draw, metrics, render_audit
from streakline.evaluation.intervals import Interval
from streakline.types import Tier


def interval(estimate, low=0.0):
    return Interval(estimate=estimate, low=low, high=1.0, count=7)


def found(num_fuzzy, **fidelity):
    return Figures(
        calls={Tier.EXACT: 3, Tier.FUZZY: num_fuzzy, Tier.MISS: 1},
        episodes={Tier.EXACT: 1, Tier.FUZZY: 3},
        fidelity={name: interval(*value) for name, value in fidelity.items()},
        num_other_call=4 if "other_call" in fidelity else 0,
    )


OVERALL = found(4, exact=(1.0, 0.8), fuzzy=(0.25,), other_call=(0.75, 0.3), served=(0.6,), rollouts=(0.5,))
AUDIT = CacheAudit(
    overall=OVERALL,
    tools={f"tool{n}": OVERALL for n in range(30)},
    ages_s={0.0: OVERALL, 3600.0: OVERALL, 2 * 86400.0: OVERALL},
    sweep={0.5: OVERALL, 1.0: found(2, exact=(1.0,), fuzzy=(0.9, 0.7))},
    min_fidelity=0.5,
    proposed_threshold=0.5,
    kinds={"ls": "declared pure, seems to write: 2 calls changed the live world"},
    known_tasks=("t/1", "t/2"),
)


def lines(audit):
    return [" ".join(line.split()) for line in render_audit(audit).splitlines()]


def test_the_tables_hold_counts_shares_and_intervals():
    shown = lines(AUDIT)
    assert "| exact | 3 | 38% | 1 | 25% | 1.000 [0.800, 1.000] |" in shown
    assert "| best_effort | 0 | 0% | 0 | 0% | - |" in shown
    assert "| all | 8 | 100% | 4 | 100% | 0.600 [0.000, 1.000] |" in shown
    assert "| tool19 | 8 | 38% | 50% | 0% | 12% | 1.000 | 0.250 | - |" in shown
    assert not any(line.startswith("| tool20") for line in shown)
    for age in ("from 0 s", "from 1 h", "from 2 d"):
        assert any(line.startswith(f"| {age} | 8 |") for line in shown)
    first, second = "0.250 [0.000, 1.000] | 4 | 0.750 [0.300, 1.000]", "0.900 [0.700, 1.000] | 0 | -"
    assert f"| 0.50 | 4 | {first} | 0.600 [0.000, 1.000] | 38/50/0/12 | 25/75/0/0 |" in shown
    assert f"| 1.00 | 2 | {second} | - | 50/33/0/17 | 25/75/0/0 |" in shown
    assert "- `ls`: declared pure, seems to write: 2 calls changed the live world" in shown
    assert any(line.startswith("Known to the cache: 2 tasks, such as t/1.") for line in shown)


@pytest.mark.parametrize(
    ("proposed", "words"),
    [
        (
            0.5,
            ["0.50, which gives other calls", "0.750 [0.300, 1.000] over 4 results in 7 tasks", "reaches below that"],
        ),
        (1.0, ["1.00, which gives the same call in another state, but no other call,", "over 2 results in 7 tasks."]),
        (None, ["No threshold gives fuzzy results a fidelity of at least 0.5"]),
    ],
)
def test_the_verdict_names_the_threshold_and_how_sure_it_is(proposed, words):
    text = render_audit(dataclasses.replace(AUDIT, proposed_threshold=proposed, kinds={}, known_tasks=()))
    assert all(part in text for part in words)
    assert "No tools were seen" in text
    assert "Known to the cache" not in text


def test_metrics_are_shares_by_name():
    named = metrics(OVERALL)
    assert named["fidelity/other_call"] == 0.75
    assert named["calls/fuzzy"] == 0.5
    assert [named[f"rollouts/{tier}"] for tier in ("exact", "fuzzy", "best_effort", "miss")] == [0.25, 0.75, 0.0, 0.0]
    assert "fidelity/best_effort" not in named


@pytest.mark.parametrize("sweep", [AUDIT.sweep, {}])
def test_the_picture_is_a_picture(tmp_path, sweep):
    draw(dataclasses.replace(AUDIT, sweep=sweep), tmp_path / "a.png")
    assert imread(tmp_path / "a.png").shape[:2] == (480, 1440)
    assert imread(tmp_path / "a.png").std() > 0
