"""The command that compares grades of BFCL."""

import json

import pytest


@pytest.fixture
def run(load_tool, monkeypatch):
    """Runs the command in this process."""

    def main(*arguments):
        monkeypatch.setattr("sys.argv", ["bfcl_parity.py", *map(str, arguments)])
        load_tool("bfcl_parity").main()

    return main


def test_it_prints_agreement_by_category_and_writes_the_figures(run, tmp_path, capsys):
    path = tmp_path / "parity.json"
    run("--categories", "simple_java", "multi_turn_base", "--limit", 3, "--mutants", 4, "--json", path)
    printed = capsys.readouterr().out
    assert "| simple_java " in printed
    assert "**literal arguments only**, met 3 times" in printed
    assert "agreement_min 1.000000" in printed
    figures = json.loads(path.read_text())["figures"]
    assert figures["agreement_min"] == 1.0
    assert figures["intended_differences"]["literal arguments only"] == 3
    assert figures["unexplained"] == 0


def test_the_same_seed_prints_the_same(run, capsys):
    for _ in range(2):
        run("--categories", "parallel", "--limit", 3, "--mutants", 5, "--seed", 7)
    first, second = capsys.readouterr().out.split("Answers by category")[1:]
    assert first == second


def test_a_disagreement_that_nothing_explains_is_an_error(run, monkeypatch, capsys):
    monkeypatch.setattr("streakline.evaluation.bfcl_parity.explain", lambda *_, **__: None)
    monkeypatch.setattr("streakline.rewards.bfcl.grade.assign_calls", lambda *_, **__: [])
    with pytest.raises(SystemExit) as stopped:
        run("--categories", "simple_python", "--limit", 3)
    assert str(stopped.value).startswith("error: Expected no disagreement that no rule explains, but got ")
    assert "that no rule explains: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mutants", "-1"], "Expected `mutants` to be at least 0, but got -1"),
        (["--limit", "0"], "Expected `limit` >= 1"),
    ],
)
def test_bad_input_is_one_line(run, options, message):
    with pytest.raises(SystemExit) as stopped:
        run("--categories", "simple_python", *options)
    assert str(stopped.value).startswith(f"error: {message}")
