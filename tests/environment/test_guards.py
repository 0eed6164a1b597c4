import pytest

from streakline.environment.guards import refusal


@pytest.mark.parametrize(
    ("tool", "arguments", "refused"),
    [
        ("power", {"base": 2, "exponent": 10}, False),
        ("power", {"base": 10**9, "exponent": 10**9}, True),
        ("power", {"base": -7, "exponent": 10**6}, True),
        ("power", {"base": 1, "exponent": 10**12}, False),
        ("power", {"base": 2, "exponent": -(10**12)}, False),
        ("power", {"base": 1e200, "exponent": 10**12}, False),
        ("square_root", {"number": 2, "precision": 50}, False),
        ("square_root", {"number": 2, "precision": 10**9}, True),
        ("logarithm", {"value": 2, "base": 3, "precision": 10**9}, True),
        ("round_number", {"number": 5, "decimal_places": -(10**9)}, True),
        ("logarithm", {"value": 10**9, "base": 10**9, "precision": 5}, False),
    ],
)
def test_only_calculations_without_end_are_refused(tool, arguments, refused):
    assert bool(refusal(tool, arguments)) == refused
