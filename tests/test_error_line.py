import argparse

import pytest
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from streakline.error_line import error_line
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


def test_a_tree_of_alternatives_becomes_the_branch_that_was_meant():
    assert error_line(argparse.ArgumentError(None, _TREE)) == (
        'Parser key "model": Problem with given class_path \'GRPOModule\': Parser key "grpo.clip_high": '
        "Expected a <class 'float'>. Got value: x"
    )


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
