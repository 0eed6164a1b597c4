"""The benchmark of updates along trees."""

import json
import math

import pytest
import torch
from matplotlib.image import imread

from streakline.policy.tree_forward import enable_trees


@pytest.fixture
def bench(load_tool):
    return load_tool("bench/update_only")


@pytest.fixture
def model(bench):
    return bench.make_model(hidden=64, layers=1, vocabulary=300)


def test_the_floor_has_as_many_tokens_as_the_tree_and_as_many_trained_ones(bench):
    case = bench.group_case(100, 4, vocabulary=300)

    row = bench.floor_row(case)

    written = [one.sample.token_ids[100:] for one in case.rows]
    distinct = sum(map(len, written)) - 5  # the second member begins as the first
    assert written[1][:5] == written[0][:5]
    assert len(row.sample.token_ids) == 100 + distinct
    assert row.num_trained_tokens == distinct


def test_every_way_is_timed_and_tree_and_padded_rows_agree(bench, model):
    case = bench.group_case(150, 5, vocabulary=300)

    result = bench.measure(case, model=model, cost=enable_trees(model), repetitions=2, limit=60.0)

    assert {way: len(seconds) for way, seconds in result.seconds.items()} == {
        "padded": 2, "tree": 2, "tree, m=4": 2, "floor": 2,
    }  # fmt: skip
    assert result.gap_logprobs < 1e-5
    assert result.gap_gradient < 1e-4
    assert 0.2 < result.share < 0.6


def test_an_update_gives_each_row_its_log_probabilities_in_order(bench, model):
    case = bench.group_case(80, 6, vocabulary=300)
    logprobs, _ = bench.update(model, case.rows, enable_trees(model))

    for row, found in zip(case.rows, logprobs, strict=True):
        ids = torch.tensor([row.sample.token_ids])
        with torch.no_grad():
            scores = model(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        torch.testing.assert_close(found[80:], scores[79:], atol=1e-5, rtol=0)


def test_padded_rows_that_would_take_too_long_are_left_out(bench, model):
    result = bench.measure(
        bench.group_case(150, 4, vocabulary=300), model=model, cost=enable_trees(model), repetitions=1, limit=0.0
    )

    assert "padded" not in result.seconds
    assert math.isnan(result.ratio("padded", "tree"))
    assert math.isnan(result.gap_logprobs)


def test_figures_are_the_worst_ratios_of_neighbours(bench, tmp_path, capsys):
    def result(name, tree, padded):
        seconds = {"tree": tree, "floor": [1.0, 2.0, 1.0], "padded": padded, "tree, m=4": tree}
        return bench.Result(name=name, seconds=seconds, share=0.5, gap_logprobs=1e-6, gap_gradient=1e-7)

    grid = {(64, 4): result("a", [1.2, 2.4, 9.0], [2.4, 2.4, 9.0]), (512, 4): result("b", [1.1] * 3, [4.4] * 3)}
    figures = bench.figures_of(grid, result("c", [1.0] * 3, [3.0] * 3))
    bench.print_table(list(grid.values()))
    bench.draw(grid, tmp_path / "a.png")

    assert figures["update_over_floor"] == pytest.approx(1.2)
    assert figures["update_over_padded"] == pytest.approx(1.0)
    assert figures["update_quickstart_speedup"] == pytest.approx(3.0)
    assert json.dumps(figures)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["case", "a", "b"]
    assert imread(tmp_path / "a.png").std() > 0
