import argparse

import pytest
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from streakline.error_line import error_line, read_parse_error
from streakline.errors import ConfigError, StreaklineError

_TREE = """Parser key "model":
  Does not validate against any of the Union subtypes
  Subtypes: [<class 'LightningModule'>, <class 'NoneType'>]
  Errors:
    - Problem with given class_path 'GRPOModule':
        Parser key "grpo.clip_high":
          Expected a <class 'float'>. Got value: x
    - Expected a <class 'NoneType'>
  Given value type: <class 'jsonargparse._util.NestedArg'>
  Given value: NestedArg(key='grpo.clip_high', val='x')"""


_FACTORY = """Parser key "model":

  - Expected a path but 4e-4x either not accessible or invalid
  - Does not validate against any of the Union subtypes
  Subtypes: [<class 'LightningModule'>, <class 'NoneType'>]
  Errors:
    - Problem with given class_path 'GRPOModule':
        Parser key "optimizer":
          Type typing.Callable[[Iterable], Optimizer] expects a function or a callable class: Parser key "lr":
            - Does not validate against any of the Union subtypes
            Subtypes: [<class 'float'>, <class 'torch.Tensor'>]
            Errors:
              - Expected a <class 'float'>
              - Expected a <class 'torch.Tensor'>
            Given value type: <class 'str'>
            Given value: 4e-4x. Got value: Namespace(class_path='torch.optim.AdamW', init_args=Namespace(lr='4e-4x'))
    - Expected a <class 'NoneType'>
  Given value type: <class 'dict'>
  Given value: {}"""

_LIST = """Parser key "trainer.callbacks":
  Does not validate against any of the Union subtypes
  Errors:
    - Not a valid subclass of Callback
      Subclass types expect one of:
      - a class path (str)
      - a dict with class_path entry
    - Problem with given class_path 'callbacks.Tmer':
        module 'callbacks' has no attribute 'Tmer'
    - Expected a <class 'NoneType'>
  Given value type: <class 'list'>
  Given value: [{'class_path': 'callbacks.Tmer'}]"""

_NO_CLASS = """Parser key "model":
  Errors:
    - Problem with given class_path 'lightning.LightningModule':
        Expected an option, but got `grpo.group_size`
    - Expected a <class 'NoneType'>"""


@pytest.mark.parametrize(
    ("tree", "option", "line"),
    [
        (_TREE, "model.grpo.clip_high", "Expected `model.grpo.clip_high` to be of type float, but got 'x'"),
        (
            _FACTORY,
            "model.optimizer.lr",
            "Expected `model.optimizer.lr` to be of type float or Tensor, but got '4e-4x'",
        ),
        (
            _LIST,
            "trainer.callbacks",
            "Expected a usable `trainer.callbacks`, but got: module 'callbacks' has no attribute 'Tmer'",
        ),
        (_NO_CLASS, "model", "Expected `model.class_path` before its arguments, here or in an earlier --config"),
        (
            "Parser key \"grpo.loss\":\n  Expected a typing.Literal['dapo', 'grpo']. Got value: dpao",
            "grpo.loss",
            "Expected `grpo.loss` to be of type Literal['dapo', 'grpo'], but got 'dpao'",
        ),
        (
            "Parser key \"config\": File does not exist: 'x.yaml'",
            "config",
            "Expected a usable `config`, but got: File does not exist: 'x.yaml'",
        ),
        (
            "the following arguments are required: fit.data, fit.model",
            "",
            "Expected `data` and `model` to be given, for instance by --config configs/experiment/<name>.yaml",
        ),
        ("argument --x: expected\n  one argument", "", "argument --x: expected one argument"),
    ],
)
def test_a_tree_of_alternatives_becomes_the_branch_that_was_meant(tree, option, line):
    assert read_parse_error(tree) == (option, line)
    assert error_line(argparse.ArgumentError(None, tree)) == line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigError("Expected `x` to be 1,\n  but got 2"), "Expected `x` to be 1, but got 2"),
        (StreaklineError("plain"), "plain"),
        (OSError(28, "No space left on device"), "Expected to read and write, but got: No space left on device"),
        (PermissionError(13, "Permission denied", "a.txt"), "Expected to use 'a.txt', but got: Permission denied"),
        (MisconfigurationException("No `training_step`"), "No `training_step`"),
    ],
)
def test_what_a_user_can_mend_is_one_line(error, line):
    assert error_line(error) == line


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), RuntimeError("x"), OSError("no code")])
def test_a_fault_of_the_program_keeps_its_traceback(error):
    assert error_line(error) is None


def raised(error, *, cause):
    """An error as it is after having been raised from another one."""
    error.__cause__ = cause
    return error


def test_an_error_of_ours_is_found_behind_the_one_that_wraps_it():
    ours = ConfigError("Expected `x` to be 1, but got 2")
    assert error_line(raised(ValueError("Does not validate"), cause=ours)) == "Expected `x` to be 1, but got 2"


def test_a_fault_while_one_of_ours_is_handled_keeps_its_traceback():
    assert error_line(raised(KeyError("a fault"), cause=ConfigError("Expected `x` to be 1, but got 2"))) is None
