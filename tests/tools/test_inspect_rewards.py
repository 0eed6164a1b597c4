"""The command that shows what was rewarded most and least."""

import json
import sys
from pathlib import Path

import pytest
from tests.fixtures.html_page import Page
from tests.fixtures.reward_rows import TERMS, old_row, row, write

from streakline.cli import main as run_command

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    f"--config={ROOT}/configs/experiment/quickstart_grpo.yaml --config={ROOT}/configs/debug/grpo.yaml "
    f"--model.policy.name_or_path={ROOT}/data/base --model.grpo.group_size=2 --model.sampling.max_new_tokens=24 "
    "--data.train.init_args.size=2 --data.test.init_args.size=3 --data.batch_size=2 --model.held_out.num_samples=1 "
    "--trainer.logger=false --trainer.accelerator=cpu"
).split()


@pytest.fixture
def run(load_tool, monkeypatch, capsys):
    """Runs the command in this process and gives what it printed."""

    def main(*arguments):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["inspect_rewards.py", *map(str, arguments)])
        load_tool("inspect_rewards").main()
        return capsys.readouterr().out

    return main


def test_a_run_that_was_trained_and_tested_is_shown_from_end_to_end(run):
    assert run_command(["fit", *SMALL]) == 0
    assert run_command(["test", *SMALL, "--ckpt_path", "last"]) == 0
    folder = Path("mlruns/debug/grpo")
    shown = run(folder, "--json", "figures.json")

    assert shown.startswith("mlruns/debug/grpo\n  6 trajectories of 3 tasks in ")
    assert "\n  from test.jsonl\n  configuration " in shown
    assert "    terms   success " in shown
    assert shown.endswith("Page: mlruns/debug/grpo/rewards.html\n")
    figures = json.loads(Path("figures.json").read_text())
    assert sum(one["count"] for one in figures["summary"]["termination"].values()) == 6
    assert all(each["reason"] for rows in figures["shown"].values() for each in rows)
    read = Page((folder / "rewards.html").read_text())
    assert read.faults == []
    assert len(read.of("details", "episode")) == 6
    assert len(read.of("details", "tokens")) == 6
    assert all(int(one["text"].split(":")[1].split()[0]) > 0 for one in read.of("details", "tokens"))
    assert read.of("p", "missing") == []
    trained = run(folder, "--stage", "train", "--top", 1, "--bottom", 0)
    assert "from train-000000.jsonl\n" in trained


@pytest.fixture
def made(tmp_path):
    """A folder with rows of two stages, one of them of an earlier version, and two bad lines."""
    rows = [
        row(1.0),
        row(0.4, terms=TERMS | {"answer": 0.0, "names": 0.5}, kind="numbers", task_id="test/b"),
        "{",
        row(None, terms={"answer": None}, termination="tool_error", detail="no disk"),
        '{"task_id": "test/c", "messages": "none"}',
    ]
    write(tmp_path / "made/trajectories/test.jsonl", *rows)
    write(tmp_path / "made/trajectories/train-000000.jsonl", old_row(0.0, task_id="test/old"))
    return Path("made")


def test_bad_lines_are_named_and_the_others_are_shown(run, made):
    shown = run(made)

    assert "3 trajectories of 2 tasks in 2 kinds, 1 of them unscored" in shown
    assert "Skipped: Expected a JSON object in test.jsonl, line 3" in shown
    assert "Skipped: Expected `messages` to be a list in test.jsonl, line 5, but got str" in shown
    assert "no score from answer; ended by tool_error (no disk)" in shown
    assert "Skipped: Expected" in (made / "rewards.html").read_text()


def test_rows_of_an_earlier_version_are_shown_with_what_they_lack(run, made):
    shown = run(made, "--stage", "train", "--html", "old.html")

    assert "1 rows do not hold tiers, similarities and malformed calls: an earlier version wrote them" in shown
    assert 'calls   look_up(word="a")' in shown
    assert "Page: old.html" in shown
    assert "This row does not hold the tokens" in Path("old.html").read_text()


def test_the_options_choose_what_is_shown(run, made):
    assert "4 trajectories of 3 tasks" in run(made, "--stage", "all")
    assert "1 trajectories of 1 tasks" in run(made, "--kind", "numbers")
    assert "2 trajectories of 1 tasks" in run(made, "--task", "test/a")
    shown = run(made, "--sort", "names", "--top", 0, "--bottom", 1)
    assert "Highest" not in shown
    assert " 1. reward .40, names .50: test/b" in shown


def test_a_single_file_is_shown_with_its_page_beside_it(run, made):
    shown = run(made / "trajectories" / "test.jsonl")

    assert "Page: made/trajectories/test.rewards.html" in shown
    assert "configuration" not in shown
    assert (made / "trajectories" / "test.rewards.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none"], "Expected trajectories in none/trajectories, but got none: `python main.py test` writes them"),
        (["made", "--stage", "predict"], "Expected trajectories of `predict` in made/trajectories, but got those of"),
        (["made", "--kind", "x"], "Expected `kind` to be one of numbers, words, but got 'x'"),
        (["made", "--sort", "x"], "Expected `sort` to be one of answer, "),
        (["made", "--html", "no/such/folder.html"], "No such file or directory: 'no/such/folder.html'"),
        (["made/trajectories/bad.jsonl"], "Expected trajectories, but got none: Expected a JSON object in bad.jsonl"),
    ],
)
def test_bad_input_is_one_line(run, made, arguments, message):
    write(made / "trajectories" / "bad.jsonl", "[]")
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert str(stopped.value).startswith("error: ")
    assert message in str(stopped.value)
    assert "\n" not in str(stopped.value)


@pytest.mark.parametrize("config", ["{", "- a", "a", "", "a: \x00"])
def test_a_configuration_that_is_none_is_named(run, made, config):
    (made / "config.yaml").write_text(config)
    with pytest.raises(
        SystemExit, match=r"Expected made/config\.yaml to be the configuration of a run, but got: ."
    ) as stopped:
        run(made)
    assert "\n" not in str(stopped.value)


@pytest.mark.parametrize("number", ["-1", "two", "1.5"])
def test_a_number_that_is_none_is_refused(run, made, number, capsys):
    with pytest.raises(SystemExit):
        run(made, f"--top={number}")
    assert f"Expected a number of trajectories, but got '{number}'" in capsys.readouterr().err
