"""The benchmark of the time to the same success."""

import json
import math

import pytest
from matplotlib.image import imread
from scipy import stats


@pytest.fixture
def curves(load_tool):
    return load_tool("bench/success_curves")


def test_a_curve_never_falls_and_is_read_between_measurements(curves):
    # .6 and .4 pool to .5; from 20 to 30 seconds it rises from .5 to .9.
    curve = curves.Curve(seconds=(0, 10, 20, 30), success=(0.3, 0.6, 0.4, 0.9))

    assert curve.monotone() == pytest.approx((0.3, 0.5, 0.5, 0.9))
    assert curve.seconds_to(0.4) == pytest.approx(5)
    assert curve.seconds_to(0.7) == pytest.approx(25)
    assert curve.seconds_to(0.3) == 0
    assert curve.seconds_to(0.95) == math.inf


def test_the_speed_up_is_to_a_share_of_what_plain_training_gained(curves):
    plain = curves.Curve(seconds=(0, 100, 200), success=(0.2, 0.4, 0.6))
    fast = curves.Curve(seconds=(0, 20, 40), success=(0.2, 0.5, 0.7))
    slow = curves.Curve(seconds=(0, 20, 40), success=(0.2, 0.3, 0.3))

    assert curves.target_of(plain, share=0.5) == pytest.approx(0.4)
    assert curves.speedup(plain, fast, share=0.5) == pytest.approx(100 / (20 * 2 / 3))
    assert curves.speedup(plain, slow, share=0.5) == 0
    assert math.isnan(curves.speedup(slow, slow, share=0.0))


def test_ratios_have_a_t_interval_on_logarithms(curves):
    middle, low, high = curves.ratio_interval([2.0, 4.0, 8.0])

    half = stats.t.ppf(0.975, df=2) * math.log(2) / math.sqrt(3)
    assert middle == 4
    assert (low, high) == pytest.approx((4 * math.exp(-half), 4 * math.exp(half)))


def test_there_is_no_interval_of_one_seed_or_where_one_never_arrived(curves):
    assert [math.isnan(value) for value in curves.ratio_interval([3.0])] == [False, True, True]
    assert [math.isnan(value) for value in curves.ratio_interval([3.0, 2.0, 0.0])] == [False, True, True]


def test_the_final_difference_is_over_seeds(curves):
    plain = [curves.Curve(seconds=(0, 1), success=(0, end)) for end in (0.5, 0.6)]
    other = [curves.Curve(seconds=(0, 1), success=(0, end)) for end in (0.6, 0.9)]

    assert curves.final_difference(plain, other).estimate == pytest.approx(0.2)
    assert curves.final_difference(plain[:1], other[:1]) is None


def test_it_trains_reads_and_goes_on(run_bench, tmp_path):
    options = (
        *("--model", "data/base", "--studies", "single", "--arms", "all", "--seeds", "0", "--steps", "2"),
        *("--folder", tmp_path / "runs", "--picture", tmp_path / "curves.png"),
        *("--data.init_args.train.init_args.size", "2", "--data.init_args.validation.init_args.size", "2"),
        *("--data.init_args.batch_size", "1", "--model.grpo.group_size", "4", "--down_sample.keep", "2"),
        *("--model.sampling.max_new_tokens", "12", "--model.held_out.num_samples", "1"),
    )

    figures, printed = run_bench("time_to_success", *options)
    again, second = run_bench("time_to_success", *options)

    assert "single-plain-seed0: done" in printed
    assert "done" not in second  # nothing is trained twice
    assert again == figures == {}  # a single-turn figure needs the arm `both`
    marker = tmp_path / "runs" / "single-start.json"
    assert 0 <= json.loads(marker.read_text(encoding="utf-8"))["success"] <= 1
    assert "| plain " in printed
    assert "| all " in printed
    assert imread(tmp_path / "curves.png").std() > 0
