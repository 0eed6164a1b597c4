"""What is said of options that are misspelt, empty or of a wrong type, on the command line and in files."""

import argparse
from dataclasses import dataclass

import pytest
from tests.fixtures.tiny_config import write_yaml

from streakline.errors import ConfigError
from streakline.strict_parser import StrictParser


@dataclass(frozen=True, kw_only=True)
class Sampling:
    temperature: float = 1.0
    top_k: int = 0


class Engine:
    def __init__(self, max_rows: int = 1) -> None: ...


class Module:
    def __init__(self, sampling: Sampling = Sampling(), engine: Engine | None = None) -> None: ...


class Trainer:
    def __init__(self, max_epochs: int = 1, max_steps: int = -1) -> None: ...


MODEL = {"class_path": f"{__name__}.Module"}
ENGINE = {"class_path": f"{__name__}.Engine"}


@pytest.fixture
def parse(request):
    parser = StrictParser()
    parser.add_argument("--config", action="config")
    parser.add_class_arguments(Trainer, "trainer")
    parser.add_subclass_arguments(Module, "model", required=False)
    return lambda *arguments: parser.parse_args([*arguments])


def nested(**init_args):
    return {"model": MODEL | {"init_args": init_args}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"modle": {"class_path": "x"}}, "got `modle`: did you mean `model`? (x.yaml, line 1)"),
        (
            {"trainer": {"max_epoch": 3}},
            "`trainer.max_epoch`: did you mean `max_epochs` or `max_steps`? (x.yaml, line 2)",
        ),
        ({"trainer": {"zzz": 3}}, "got `trainer.zzz`: there are `max_epochs` and `max_steps` (x.yaml, line 2)"),
        ({"model": {"init_arg": {"engine": "x"}}}, "`model.init_arg`: did you mean `init_args`? (x.yaml, line 2)"),
        (nested(samplin={"top_k": 3}), "got `model.samplin`: did you mean `sampling`? (x.yaml, line 4)"),
        (nested(samplin={}), "got `model.samplin`: did you mean `sampling`? (x.yaml, line 4)"),
        ({"trianer": {}}, "got `trianer`: did you mean `trainer`? (x.yaml, line 1)"),
        (
            nested(sampling={"temprature": 1}),
            "`model.sampling.temprature`: did you mean `temperature`? (x.yaml, line 5)",
        ),
        (
            nested(engine=ENGINE | {"init_args": {"max_row": 1}}),
            "got `model.engine.max_row`: did you mean `max_rows`? (x.yaml, line 7)",
        ),
        (
            nested(engine={"class_path": "nowhere.Engine"}),
            "`model.engine`, but got: No module named 'nowhere' (x.yaml, line",
        ),
        (nested(sampling={"top_k": "abc"}), "`model.sampling.top_k` to be of type int, but got 'abc' (x.yaml, line 5)"),
        ({"trainer": {"max_steps": "abc"}}, "`trainer.max_steps` to be of type int, but got 'abc' (x.yaml, line 2)"),
        (nested(sampling=None), "a usable `model.sampling`, but got: no options (x.yaml, line 4)"),
        ({"trainer": None, "model": MODEL}, "a usable `trainer`, but got: no options (x.yaml, line"),
        ({"model": MODEL | {"init_args": None}}, "a usable `model`, but got: no arguments (x.yaml, line 1)"),
        (
            nested(sampling="gone.yaml"),
            "`model.sampling` to name a file of options, but got 'gone.yaml' (x.yaml, line 4)",
        ),
        ({"model": "gone.yaml"}, "`model` to name a file of options, but got 'gone.yaml' (x.yaml, line 1)"),
    ],
)
def test_a_wrong_file_is_named_with_the_option_and_its_line(parse, content, said):
    with pytest.raises(ConfigError) as caught:
        parse("--config", write_yaml("x.yaml", content))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--modle", "x"), "Expected an option, but got `modle`: did you mean `model`?"),
        (("--trainer.max_epoch", "3"), "got `trainer.max_epoch`: did you mean `max_epochs`"),
        (("--trainer.max_epoch=3",), "got `trainer.max_epoch`: did you mean `max_epochs`"),
        (("--model", f"{__name__}.Module", "--model.sampling.top", "3"), "got `sampling.top`: did you mean `top_k`?"),
    ],
)
def test_an_unknown_option_on_the_command_line_comes_with_similar_names(parse, arguments, said):
    with pytest.raises(argparse.ArgumentError) as caught:
        parse(*arguments)
    assert said in str(caught.value)


def test_a_wrong_part_is_named_itself(parse):
    write_yaml("parts/engine.yaml", ENGINE | {"init_args": {"max_row": 1}})
    with pytest.raises(ConfigError, match=r"`max_rows`\? \(parts/engine\.yaml, line 3\)"):
        parse("--config", write_yaml("x.yaml", nested(engine="parts/engine.yaml")))


def test_what_is_right_is_taken_with_its_empty_values(parse):
    path = write_yaml("x.yaml", nested(sampling={}, engine=None) | {"trainer": {}})
    parsed = parse("--config", path, "--model.sampling.top_k", "3")
    assert (parsed.model.init_args.sampling.top_k, parsed.trainer.max_epochs) == (3, 1)
