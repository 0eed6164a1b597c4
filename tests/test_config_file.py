"""What is refused in a file before its values are looked at, and the lines that complaints point to."""

from pathlib import Path

import pytest
from tests.fixtures.tiny_config import write_yaml

from streakline.config_file import find_line, refuse_unreadable
from streakline.errors import ConfigError

EXPERIMENT = """\
model:
  class_path: some.Module
  init_args:
    sampling:
      temperature: 1.0
    reward: parts/reward.yaml
trainer:
  callbacks+:
  - class_path: some.Timer
    init_args:
      duration: 1
  max_epochs: 3
"""
REWARD = """\
terms:
  success:
    class_path: some.Success
    init_args: {partial: true}
"""


@pytest.fixture
def experiment():
    write_yaml("configs/parts/reward.yaml", REWARD)
    return Path(write_yaml("configs/experiment.yaml", EXPERIMENT))


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("model", "configs/experiment.yaml, line 1"),
        ("trainer.max_epochs", "configs/experiment.yaml, line 12"),
        ("model.sampling.temperature", "configs/experiment.yaml, line 5"),
        ("model.init_args.sampling.temperature", "configs/experiment.yaml, line 5"),
        ("trainer.callbacks.duration", "configs/experiment.yaml, line 11"),
        ("model.reward.partial", "configs/parts/reward.yaml, line 4"),
        # What is not said stands nearest to what it would belong to.
        ("model.sampling.top_p", "configs/experiment.yaml, line 4"),
        ("data", "configs/experiment.yaml"),
        ("", "configs/experiment.yaml"),
    ],
)
def test_an_option_is_found_where_it_stands(experiment, option, place):
    assert find_line(option, experiment) == place


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Expected x.yaml to hold `option: value` lines, but got nothing"),
        ("# all of it is a comment\n", "but got nothing"),
        ("hello\n", "but got a scalar"),
        ("- a\n- b\n", "but got a sequence"),
        ("run:\ntrainer:\n", "but got names without a value"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "Expected `c` once, but got it again (x.yaml, line 4)"),
        (
            "a: [1\nb: 2\n",
            "while parsing a flow sequence (line 1) got: expected ',' or ']', but got ':' (x.yaml, line 2)",
        ),
        ("a:\n\tb: 1\n", "Expected YAML, but got: found character '\\t' that cannot start any token (x.yaml, line 2)"),
        ("a: \0\n", "Expected x.yaml to hold text"),
    ],
)
def test_a_file_that_is_no_configuration_is_named_with_its_line(content, said):
    with pytest.raises(ConfigError) as caught:
        refuse_unreadable(Path(write_yaml("x.yaml", content)))
    assert said in " ".join(str(caught.value).split())


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: \xff\xfe")
    with pytest.raises(ConfigError, match=r"x\.yaml to hold text"):
        refuse_unreadable(path)


def test_a_part_is_checked_with_the_file_that_draws_it_in(experiment):
    refuse_unreadable(experiment)
    write_yaml("configs/parts/reward.yaml", REWARD + "terms: {}\n")
    with pytest.raises(ConfigError, match=r"`terms` once, but got it again \(configs/parts/reward\.yaml, line 5\)"):
        refuse_unreadable(experiment)
