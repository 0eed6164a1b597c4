"""The quickstart's stages: what is run, skipped, resumed and refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

# Writes its arguments to a log, fails while a file `fail` lies there, and otherwise makes the file that it is told.
PROGRAM = """
import pathlib, sys
with open("{log}", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if pathlib.Path("{folder}/fail").exists():
    sys.exit(3)
pathlib.Path(sys.argv[2]).write_text("done")
"""


class World:
    """A runner over a program that only writes files."""

    def __init__(self, tool, folder: Path) -> None:
        self.tool, self.folder, self.log = tool, folder, folder / "log"
        self.log.touch()
        self.source = folder / "source.py"
        self.source.write_text("1")
        self.script = folder / "program.py"
        self.script.write_text(PROGRAM.format(log=self.log, folder=folder))

    def stage(self, name: str, *, resumable: bool = False, options: tuple[str, ...] = ()):
        output = self.folder / f"{name}.out"
        return self.tool.Stage(
            name=name, command=("fit", str(output), *options), outputs=(output,), resumable=resumable
        )

    def run(self, *stages) -> list[str]:
        """Run stages as a new process would; give the commands that this took, by output and option."""
        before = len(self.log.read_text().splitlines())
        runner = self.tool.StageRunner(
            self.folder / "markers", program=(sys.executable, str(self.script)), sources=[self.source]
        )
        try:
            for stage in stages:
                runner.run(stage)
        finally:
            self.seconds = runner.seconds
        return [
            " ".join([Path(line.split()[1]).stem, *line.split()[2:]])
            for line in self.log.read_text().splitlines()[before:]
        ]


@pytest.fixture
def world(load_tool, tmp_path: Path) -> World:
    return World(load_tool("quickstart"), tmp_path)


def test_finished_stages_are_not_run_again_and_keep_their_time(world: World) -> None:
    stages = (world.stage("a"), world.stage("b"))
    assert world.run(*stages) == ["a", "b"]
    first = world.seconds
    assert world.run(*stages) == []
    assert world.seconds == first
    assert all(seconds > 0 for seconds in first.values())


def test_a_stage_whose_output_is_gone_runs_again(world: World) -> None:
    stages = (world.stage("a"), world.stage("b"))
    world.run(*stages)
    (world.folder / "b.out").unlink()
    assert world.run(*stages) == ["b"]


def test_another_command_runs_again_and_so_does_all_that_follows(world: World) -> None:
    world.run(world.stage("a"), world.stage("b"), world.stage("c"))
    changed = world.stage("b", options=("--steps", "2"))
    assert world.run(world.stage("a"), changed, world.stage("c")) == ["b --steps 2", "c"]


def test_other_code_or_configs_run_everything_again(world: World) -> None:
    world.run(world.stage("a"))
    world.source.write_text("2")
    assert world.run(world.stage("a")) == ["a"]


def test_a_failed_stage_is_resumed_where_it_can_be(world: World) -> None:
    stages = (world.stage("a"), world.stage("b", resumable=True))
    world.run(world.stage("a"))
    (world.folder / "fail").touch()
    with pytest.raises(world.tool.StageError, match="Expected b to end well, but its command ended with status 3"):
        world.run(*stages)
    spent = json.loads((world.folder / "markers" / "b.json").read_text())["seconds"]
    (world.folder / "fail").unlink()
    assert world.run(*stages) == ["b --ckpt_path last"]
    assert world.seconds["b"] > spent
    assert world.run(*stages) == []


def test_an_interrupted_stage_of_another_configuration_starts_anew(world: World) -> None:
    (world.folder / "fail").touch()
    with pytest.raises(world.tool.StageError):
        world.run(world.stage("a", resumable=True))
    (world.folder / "fail").unlink()
    assert world.run(world.stage("a", resumable=True, options=("--seed", "1"))) == ["a --seed 1"]


def test_a_failed_stage_that_cannot_be_resumed_starts_anew(world: World) -> None:
    (world.folder / "fail").touch()
    with pytest.raises(world.tool.StageError):
        world.run(world.stage("a"))
    (world.folder / "fail").unlink()
    assert world.run(world.stage("a")) == ["a"]


def test_a_command_that_leaves_nothing_is_a_failure(world: World) -> None:
    stage = world.tool.Stage(name="a", command=("fit", str(world.folder / "a.out")), outputs=(world.folder / "absent",))
    with pytest.raises(world.tool.StageError, match=r"Expected a to leave .*absent, but there is none"):
        world.run(stage)


def test_a_broken_marker_counts_as_none(world: World) -> None:
    world.run(world.stage("a"))
    (world.folder / "markers" / "a.json").write_text("{")
    assert world.run(world.stage("a")) == ["a"]


def test_two_quickstarts_in_one_folder_are_refused_even_where_only_a_child_is_left(world: World) -> None:
    code = "import sys, time; print('ready', flush=True); time.sleep(60)"
    with world.tool.only_one(world.folder / "runs"):
        child = subprocess.Popen([sys.executable, "-c", code], close_fds=False, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
    try:
        with (
            pytest.raises(world.tool.ConfigError, match="Expected no other quickstart in"),
            world.tool.only_one(world.folder / "runs"),
        ):
            pass
    finally:
        child.kill()
        child.stdout.close()
        child.wait()
    with world.tool.only_one(world.folder / "runs"):
        pass


def _commands(tool, **options: object) -> dict[str, tuple[str, ...]]:
    places = {"sft": Path("mlruns/quickstart/sft-seed3"), "grpo": Path("mlruns/quickstart/grpo-seed3")}
    return {
        stage.name: stage.command
        for stage in tool.plan(**({"seed": 3, "arm": "habits", "scale": 1} | places | options))
    }


def _value(command: tuple[str, ...], option: str) -> str:
    return command[command.index(option) + 1]


def test_grpo_starts_from_what_sft_exported_and_each_run_is_measured_by_its_own_export(world: World) -> None:
    commands = _commands(world.tool)
    assert list(commands)[:4] == ["SFT: train", "SFT: test", "GRPO: train", "GRPO: test"]
    exported = {name: _value(command, "--model.policy.name_or_path") for name, command in list(commands.items())[1:4]}
    assert exported == {
        "SFT: test": "mlruns/quickstart/sft-seed3/export",
        "GRPO: train": "mlruns/quickstart/sft-seed3/export",
        "GRPO: test": "mlruns/quickstart/grpo-seed3/export",
    }
    assert all(_value(command, "--run.seed") == "3" for command in commands.values())


def test_both_runs_are_measured_on_the_same_tasks_in_the_same_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streakline.cli import StreaklineCLI

    monkeypatch.chdir(world.tool.REPOSITORY)
    commands = _commands(world.tool, scale=0.1)
    measured = []
    for name in ("SFT: test", "GRPO: test"):
        options = list(commands[name][1:])
        verbose = options.index("--verbose")  # an option of the command, not of what it builds
        del options[verbose : verbose + 2]
        cli = StreaklineCLI(options, run=False)
        composed = yaml.safe_load(cli.parser.dump(cli.config, skip_none=False))
        model, data = composed["model"]["init_args"], composed["data"]["init_args"]
        measured.append(
            {
                **{key: model[key] for key in ("rendering", "sampling", "episode", "engine", "reward", "held_out")},
                **{key: data[key] for key in ("test", "limit", "eval_batch_size")},
            }
        )
    assert measured[0] == measured[1]
    assert measured[0]["limit"] == 32


def test_arms_differ_in_the_demonstrations_alone(world: World) -> None:
    habits, clean = (list(_commands(world.tool, arm=arm)["SFT: train"]) for arm in ("habits", "clean"))
    assert [part for part in clean if part not in habits] == ["configs/experiment/quickstart_sft_clean.yaml"]


def test_a_smaller_scale_is_smaller_everywhere(world: World) -> None:
    whole, small = _commands(world.tool), _commands(world.tool, scale=0.05)
    assert all(len(small[name]) > len(whole[name]) for name in whole)


def test_another_root_is_passed_on(world: World, tmp_path: Path) -> None:
    sft, grpo = tmp_path / "mlruns/quickstart/sft", tmp_path / "mlruns/quickstart/grpo"
    for stage in world.tool.plan(sft=sft, grpo=grpo, seed=0, arm="habits", scale=1):
        assert stage.command[stage.command.index("--run.root") + 1] == str(tmp_path / "mlruns")


@pytest.mark.parametrize("arguments", [["--scale", "0"], ["--scale", "2"], ["--seed", "-1"], ["--arm", "other"]])
def test_impossible_options_are_refused(world: World, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        world.tool.main(arguments)
    assert capsys.readouterr().err.strip()


def test_the_digest_tells_parts_apart(world: World) -> None:
    assert world.tool.digest_of("ab", "c") != world.tool.digest_of("a", "bc")
    assert world.tool.digest_of("ab") == world.tool.digest_of(b"ab")
