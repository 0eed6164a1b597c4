"""Changes of single-turn answers that put an accepted value in a call, in one writing or another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TypeAlias

from streakline.evaluation.bfcl_parity_leaves import parameters_of
from streakline.evaluation.bfcl_parity_literals import NUM_FORMS, accepted_value, write_literal
from streakline.evaluation.bfcl_parity_values import otherwise
from streakline.tasks.bfcl_source import language
from streakline.types import JSON, Task, ToolCall

Steps: TypeAlias = list[list[list[ToolCall]]]
"""[user turns][assistant turns][calls]"""


def give_accepted(steps: Steps, task: Task, rng: Random) -> None:
    """Give a parameter, set or not, another of its accepted values, or one that stands for nothing."""

    def value(options: list[JSON]) -> JSON:
        chosen = rng.choice([*options, *options, "", [], None, {}])
        return accepted_value(chosen, rng)

    _set_parameter(steps, task, rng, value)


def write_otherwise(steps: Steps, task: Task, rng: Random) -> None:
    """Write an accepted value in a way that makes no difference."""
    _set_parameter(steps, task, rng, lambda options: otherwise(accepted_value(rng.choice(options), rng), rng))


def write_entries(steps: Steps, task: Task, rng: Random, *, emptied: bool) -> None:
    """Write a dictionary, or a list of them, with the entries that may be left out: with values or with nothing."""

    def value(options: list[JSON]) -> JSON:
        return accepted_value(rng.choice(options), rng, optional=1.0, emptied=emptied)

    _set_parameter(steps, task, rng, value, only_dicts=True)


def write_as_accepted(steps: Steps, task: Task, rng: Random) -> None:
    """Write a dictionary as the answer does, with a list of values for each key."""
    _set_parameter(steps, task, rng, rng.choice, only_dicts=True)


def _set_parameter(
    steps: Steps, task: Task, rng: Random, value: Callable[[list[JSON]], JSON], *, only_dicts: bool = False
) -> None:
    """Set a parameter of a call to what `value` makes of its accepted values, as a literal of the task's language."""
    if not task.answers:
        return
    place = rng.randrange(len(task.answers))
    call = steps[0][0][place]
    parameters = task.answers[place][call.name]
    accepted = parameters if isinstance(parameters, dict) else {}
    lists = {key: options for key, options in accepted.items() if isinstance(options, list) and options}
    keys = [key for key, options in lists.items() if not only_dicts or _has_dict(options)]
    if keys:
        key = rng.choice(keys)
        properties = parameters_of(task, call.name).get("properties")
        schema = properties.get(key) if isinstance(properties, dict) else None
        argument = write_literal(
            value(lists[key]),
            schema=schema if isinstance(schema, dict) else {},
            language=language(task.kind),
            form=rng.randrange(NUM_FORMS),
        )
        steps[0][0][place] = replace(call, arguments={**call.arguments, key: argument})


def _has_dict(value: JSON) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_dict, value)))
