"""Requests about numbers (`MathAPI`), which change nothing: the right result must have been seen."""

from __future__ import annotations

from streakline.tasks.toolworld.kinds import Draft, Kind, call, in_turn
from streakline.tasks.toolworld.values import Values, owner


def owned_sum(values: Values) -> tuple[int, int, int]:
    """Two numbers and their sum, which becomes an argument and so has to belong to the split too."""
    while True:
        first, second = values.number(10, 999), values.number(10, 999)
        if owner(first + second) == values.split:
            return first, second, first + second


def _sum_then_scale(values: Values) -> Draft:
    first, second, total = owned_sum(values)
    factor = values.number(11, 99)
    steps = in_turn(call("add", a=first, b=second), call("multiply", a=total, b=factor))
    return Draft(values={"first": first, "second": second, "factor": factor}, gold=(steps,))


MATHS_KINDS = (Kind(name="sum_then_scale", simulators=("MathAPI",), draft=_sum_then_scale),)
