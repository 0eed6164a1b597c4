"""Errors are caught as ours and as the standard ones, and cross process borders."""

import pickle

import pytest

import streakline.errors as module
from streakline.errors import StreaklineError

ERRORS = [error for error in vars(module).values() if isinstance(error, type) and error is not StreaklineError]


@pytest.mark.parametrize("error", ERRORS)
def test_each_error_is_ours_and_a_standard_one(error: type[Exception]) -> None:
    assert issubclass(error, StreaklineError)
    assert any(base.__module__ == "builtins" and base is not Exception for base in error.__mro__[1:-3])


@pytest.mark.parametrize("error", ERRORS)
def test_errors_are_picklable(error: type[Exception]) -> None:
    assert str(pickle.loads(pickle.dumps(error("Expected `x`")))) == "Expected `x`"  # noqa: S301
