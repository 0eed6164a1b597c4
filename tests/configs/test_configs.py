"""Every file in configs/ parses and builds what it names, without reading a weight or a tokenizer."""

import os
import re
import runpy
import shlex
from pathlib import Path

import pytest
import yaml
from jsonargparse import ArgumentParser

from streakline.cli import StreaklineCLI
from streakline.modules.agent import AgentModule, EngineFactory
from streakline.modules.grpo_config import GRPOConfig
from streakline.policy.config import PolicyConfig
from streakline.rewards.base import Reward
from streakline.rewards.judge.base import Judge

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
SNAPSHOTS = Path(__file__).parent / "snapshots"
PART_TYPES = {"model": PolicyConfig, "algorithm": GRPOConfig, "engine": EngineFactory, "reward": Reward, "judge": Judge}


def files(folder):
    return sorted((CONFIGS / folder).glob("*.yaml"))


def name(path):
    return path.relative_to(CONFIGS).with_suffix("").as_posix()


def command(path):
    """Arguments of the command on the first line of a file."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# python main.py "), f"Expected {name(path)} to begin with its command, but got {first!r}"
    return shlex.split(first.removeprefix("# python main.py "))


def without_news(composed, expected, *, is_ours=True):
    """Leave out options that a newer Lightning or torch added to its own classes."""
    if not isinstance(composed, dict) or not isinstance(expected, dict):
        return composed
    return {
        key: without_news(value, expected.get(key), is_ours=is_ours and key not in THIRD_PARTY)
        for key, value in composed.items()
        if is_ours or key in expected
    }


THIRD_PARTY = {"trainer", "checkpoint", "optimizer", "lr_scheduler"}
ARMS = sorted((CONFIGS / "ablation").glob("*/*.yaml"))
RUNNABLE = [*files("experiment"), *files("debug"), *ARMS]


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch, _own_folder):
    """Paths in commands are relative to the root of the repository; nothing is written when things are only built."""
    monkeypatch.chdir(ROOT)


def build(path):
    arguments = command(path)[1:]
    if "--ckpt_path" in arguments:
        del arguments[arguments.index("--ckpt_path") :][:2]
    return StreaklineCLI(arguments, run=False)


@pytest.mark.parametrize("path", RUNNABLE, ids=name)
def test_the_command_on_the_first_line_names_the_file_and_files_that_are_there(path):
    arguments = command(path)
    named = [arguments[index + 1] for index, word in enumerate(arguments) if word == "--config"]
    assert path.relative_to(ROOT).as_posix() in named
    assert all((ROOT / file).is_file() for file in named)
    assert arguments[0] in {"fit", "validate", "test", "predict"}


@pytest.mark.parametrize("path", RUNNABLE, ids=name)
def test_an_experiment_builds_and_composes_to_what_it_did(path):
    cli = build(path)
    assert isinstance(cli.model, AgentModule)
    assert cli.model.model is None
    text = re.sub(r"\A#.*\n", "", cli.parser.dump(cli.config, skip_none=False))
    composed = yaml.safe_load(text)
    composed.pop("config", None)
    snapshot = SNAPSHOTS / f"{path.parent.name}-{path.name}"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(yaml.safe_dump(composed, sort_keys=True), encoding="utf-8")
    expected = yaml.safe_load(snapshot.read_text(encoding="utf-8"))
    assert without_news(composed, expected) == expected, (
        "If the change is meant: UPDATE_SNAPSHOTS=1 python -m pytest tests/configs"
    )


@pytest.mark.parametrize("study", sorted({path.parent for path in ARMS}), ids=name)
def test_the_arms_of_a_study_differ_in_what_their_files_say(study):
    named, composed = [], []
    for arm in sorted(study.glob("*.yaml")):
        named += leaves(yaml.safe_load(arm.read_text(encoding="utf-8")))
        composed.append(leaves(yaml.safe_load((SNAPSHOTS / f"{study.name}-{arm.name}").read_text(encoding="utf-8"))))
    differing = {key for one in composed for key in one if any(one[key] != other.get(key) for other in composed)}
    assert differing
    assert all(key.startswith(tuple(named)) for key in differing)


def leaves(value, *, prefix=""):
    """Values by dotted key; a list, and a file that is drawn in, is one value."""
    if not isinstance(value, dict):
        return {prefix: value}
    return {
        key: leaf
        for name, inner in value.items()
        for key, leaf in leaves(inner, prefix=f"{prefix}.{name}" if prefix else name).items()
    }


def test_there_is_no_snapshot_of_a_file_that_is_gone():
    assert {path.name for path in SNAPSHOTS.iterdir()} == {f"{path.parent.name}-{path.name}" for path in RUNNABLE}


@pytest.mark.parametrize(
    ("path", "kind"), [(path, kind) for folder, kind in PART_TYPES.items() for path in files(folder)], ids=str
)
def test_a_part_alone_is_what_its_folder_says(path, kind):
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--part", type=kind, enable_path=True)
    assert parser.instantiate_classes(parser.parse_args([f"--part={path}"])).part is not None


@pytest.mark.parametrize(
    ("tool", "path"),
    [(tool, path) for tool, folder in (("build", "cache"), ("audit", "audit")) for path in files(folder)],
    ids=str,
)
def test_a_build_or_audit_of_a_cache_names_its_command_and_task_sets(tool, path):
    command = f"# python tools/{tool}_cache.py --config {path.relative_to(ROOT)}\n"
    assert path.read_text(encoding="utf-8").startswith(command)
    parser = runpy.run_path(str(ROOT / "tools" / f"{tool}_cache.py"))["make_parser"]()
    assert parser.instantiate(parser.parse_args([f"--config={path}"])).tasks


def test_the_audited_part_of_bfcl_is_what_its_cache_leaves_out():
    cache, audit = (
        yaml.safe_load((CONFIGS / path).read_text()) for path in ("cache/bfcl_part.yaml", "audit/bfcl.yaml")
    )
    windows = [[each["init_args"] for each in config["tasks"]] for config in (cache, audit)]
    kept, held_out = ({i for at in part for i in range(at["offset"], at["offset"] + at["limit"])} for part in windows)
    assert audit["cache"] == cache["out"]
    assert kept.isdisjoint(held_out)
    assert kept | held_out == set(range(199))


def test_the_judge_of_the_reward_is_the_one_that_can_be_calibrated():
    reward, judge = (
        yaml.safe_load((CONFIGS / path).read_text()) for path in ("reward/judged.yaml", "judge/openai.yaml")
    )
    assert reward["init_args"]["answer"]["init_args"]["judge"] == judge


@pytest.mark.parametrize("path", files("data"), ids=name)
def test_each_data_part_is_drawn_in_by_an_experiment(path):
    assert any(f"../data/{path.name}" in other.read_text(encoding="utf-8") for other in files("experiment"))


def test_every_file_lies_in_a_folder_that_a_test_looks_into():
    known = {"base.yaml", *PART_TYPES, "experiment", "debug", "ablation", "data", "cache", "audit"}
    assert {path.relative_to(CONFIGS).parts[0] for path in CONFIGS.rglob("*.yaml")} <= known


@pytest.mark.parametrize("path", RUNNABLE, ids=name)
def test_a_class_in_an_experiment_comes_with_arguments_that_leave_nothing_of_an_earlier_one(path):
    """jsonargparse keeps the old class's arguments that the new class takes too, unless the file says its own."""

    def optimizers(value):
        if isinstance(value, dict):
            if re.fullmatch(r"torch\.optim\.\w+", str(value.get("class_path", ""))):
                yield value
            for inner in value.values():
                yield from optimizers(inner)

    for optimizer in optimizers(yaml.safe_load(path.read_text(encoding="utf-8"))):
        assert {"lr", "weight_decay"} <= optimizer["init_args"].keys()


def test_any_knob_follows_on_the_command_line():
    path = CONFIGS / "experiment" / "quickstart_grpo.yaml"
    arguments = ["--config", str(path), "--model.grpo.clip_high", "0.3", "--model.policy.name_or_path", "elsewhere"]
    model = StreaklineCLI(arguments, run=False).model
    assert (model.grpo.clip_high, model.grpo.clip_low) == (0.3, 0.2)
    assert model.policy_config.name_or_path == "elsewhere"


def test_the_clean_arm_differs_from_the_quickstart_in_the_demonstrations_only():
    snapshots = [
        yaml.safe_load((SNAPSHOTS / f"experiment-quickstart_sft{arm}.yaml").read_text(encoding="utf-8"))
        for arm in ("", "_clean")
    ]
    for snapshot in snapshots:
        snapshot["data"]["init_args"]["train"]["init_args"].pop("habits")
        snapshot["run"].pop("name")
    assert snapshots[0] == snapshots[1]
