"""The simulation that checks the intervals."""

import sys

import pytest


def test_every_table_has_its_rows_and_the_same_seed_gives_the_same_numbers(load_tool, monkeypatch, capsys):
    tool = load_tool("statistics_coverage")
    monkeypatch.setattr(sys, "argv", ["statistics_coverage.py", "--runs", "2"])
    printed = []
    for _ in range(2):
        tool.main()
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].startswith("Coverage of 95% intervals over 2 runs a cell; standard error 0.1541.")
    assert printed[0].count("\n| ") == (1 + 10) + (1 + 8) + (1 + 8) + (1 + 6)


def test_no_runs_are_refused_in_one_line(load_tool, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["statistics_coverage.py", "--runs", "0"])
    with pytest.raises(SystemExit, match="error: Expected `runs` to be at least 1, but got 0"):
        load_tool("statistics_coverage").main()
