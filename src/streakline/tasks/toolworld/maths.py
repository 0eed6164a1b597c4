"""Requests about numbers (`MathAPI`), which change nothing: the right result must have been seen."""

from __future__ import annotations

from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, call, keep_first_call
from streakline.tasks.toolworld.values import Split, Values, owner

__all__ = ["MATHS_KINDS"]


def _sum_then_scale(values: Values, split: Split) -> Draft:
    # The sum becomes an argument, so it has to belong to the split too.
    while True:
        first, second = values.number(10, 999), values.number(10, 999)
        if owner(first + second) == split:
            break
    factor = values.number(11, 99)
    steps = ((call("add", a=first, b=second),), (call("multiply", a=first + second, b=factor),))
    return Draft(values={"first": first, "second": second, "factor": factor}, gold=(steps,))


MATHS_KINDS = (
    Kind(
        name="sum_then_scale",
        simulators=("MathAPI",),
        draft=_sum_then_scale,
        habit=Habit(
            name="stops_early",
            description="stops after the sum",
            share=0.05,
            apply=lambda task, _: keep_first_call(task),
        ),
        phrases={
            "base": (
                "First add {first} and {second}, then multiply the result by {factor}.",
                "Use add on {first} and {second} and after that multiply with {factor}.",
                "Add {first} to {second}. Then multiply that by {factor}.",
            ),
            "train": (
                "What is the sum of {first} and {second} times {factor}?",
                "Sum {first} and {second}, all times {factor}.",
                "I need {first} plus {second}, all times {factor}.",
                "Take {first} plus {second} and then times {factor}.",
            ),
            "validation": (
                "I need the sum of {first} and {second} times {factor}.",
                "What is {first} plus {second}, all times {factor}?",
            ),
            "test": (
                "Take the sum of {first} and {second} times {factor}.",
                "What is {first} plus {second} and then times {factor}?",
                "I need the sum of {first} and {second}, then times {factor}.",
            ),
        },
    ),
)
