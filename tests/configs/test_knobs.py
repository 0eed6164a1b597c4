"""Whatever an experiment can be, it can be from the command line or from a file laid over another."""

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from tests.fixtures.tiny_config import write_yaml

from streakline.cli import StreaklineCLI
from streakline.policy.config import LoraConfig
from streakline.tasks.bfcl import BFCLTaskSet

ROOT = Path(__file__).resolve().parents[2]
GRPO = "configs/experiment/quickstart_grpo.yaml"


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch, _own_folder):
    """Files name others relative to the root of the repository; nothing is written when things are only built."""
    monkeypatch.chdir(ROOT)


def build(*arguments):
    return StreaklineCLI(list(arguments), run=False)


def test_lora_is_one_option_on_the_command_line():
    policy = build("--config", GRPO, "--model.policy.lora.r", "16").model.policy_config
    assert policy.lora == LoraConfig(r=16)
    assert policy.name_or_path == "data/base"


def test_without_that_option_all_weights_are_trained():
    assert build("--config", GRPO).model.policy_config.lora is None


@pytest.mark.parametrize(
    ("knob", "text", "value"),
    [
        ("clip_high", "0.3", 0.3),
        ("group_size", "4", 4),
        ("loss", "dr_grpo", "dr_grpo"),
        ("kl_coef", "0.01", 0.01),
        ("drop_zero_variance_groups", "false", False),
        ("max_grad_norm", "0.5", 0.5),
    ],
)
def test_a_knob_of_grpo_changes_itself_alone(knob, text, value):
    plain = asdict(build("--config", GRPO).model.grpo)
    changed = asdict(build("--config", GRPO, f"--model.grpo.{knob}", text).model.grpo)
    assert plain[knob] != value
    assert changed == plain | {knob: value}


def test_files_compose_in_order_and_the_command_line_comes_last(tmp_path):
    dapo = (ROOT / "configs" / "algorithm" / "dapo.yaml").read_text(encoding="utf-8")
    first = write_yaml(tmp_path / "dapo.yaml", {"model": {"init_args": {"grpo": yaml.safe_load(dapo)}}})
    parts = {"policy": {"lora": {"r": 8}}, "grpo": {"clip_high": 0.25}, "episode": {"max_turns": 3}}
    second = write_yaml(tmp_path / "lora.yaml", {"model": {"init_args": parts}})
    files = [word for path in (GRPO, "configs/debug/grpo.yaml", first, second) for word in ("--config", path)]
    cli = build(*files, "--model.policy.lora.alpha", "64")
    model = cli.model
    assert (model.grpo.loss, model.grpo.advantage_scale) == ("dapo", "std")
    assert (model.grpo.group_size, model.grpo.clip_high) == (4, 0.25)
    assert (model.policy_config.lora.r, model.policy_config.lora.alpha) == (8, 64)
    assert (model.episode.max_turns, model.sampling.max_new_tokens) == (3, 64)
    assert cli.config["run"]["experiment"] == "debug"


def test_an_algorithm_is_drawn_in_by_its_file():
    path = str(ROOT / "configs" / "algorithm" / "dr_grpo.yaml")
    expected = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    grpo = build("--config", GRPO, "--model.grpo", path).model.grpo
    assert asdict(grpo) | expected == asdict(grpo)


def test_a_task_set_is_swapped_from_the_command_line():
    arguments = ["--data.test", "streakline.tasks.bfcl.BFCLTaskSet", "--data.test.category", "simple_python"]
    data = build("--config", GRPO, *arguments, "--data.test.limit", "2").datamodule
    data.setup("test")
    assert [task.id for task in next(iter(data.test_dataloader()))] == [
        task.id for task in BFCLTaskSet("simple_python", limit=2)
    ]
