"""The tasks that the base checkpoint is trained on."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from base_tasks import BaseTaskSet
from tests.fixtures.toolworld_values import calls_of, owned_values

from streakline.environment.replay import gold_outcomes
from streakline.tasks.toolworld import KINDS, demonstrate
from streakline.tasks.toolworld.values import owner
from streakline.types import Role

TOOLS = Path(__file__).resolve().parents[2] / "tools"
PROGRAM = """
import hashlib
from base_tasks import BaseTaskSet
tasks = BaseTaskSet(150, seed=3, dictated_share=0.6, most_user_turns=3).tasks()
print(hashlib.sha256(repr(tasks).encode()).hexdigest())
"""


def test_tasks_are_the_same_whatever_the_order_of_sets_in_a_process():
    command = [sys.executable, "-c", PROGRAM]
    digests = {
        subprocess.check_output(command, env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(TOOLS)})
        for seed in (1, 2, 3)
    }
    assert len(digests) == 1


def test_gold_calls_succeed_and_are_what_is_demonstrated():
    for task in BaseTaskSet(200, seed=11, most_user_turns=3):
        assert not [result for outcome in gold_outcomes(task) for result in outcome.results if result.is_error], task.id
        shown = demonstrate(task, habits={})
        made = [call for message in shown.messages if message.role is Role.ASSISTANT for call in message.tool_calls]
        assert made == calls_of(task)
        assert shown.habit == ""


def test_tasks_depend_on_seed_index_and_options_alone():
    assert BaseTaskSet(20, seed=4).tasks() == BaseTaskSet(40, seed=4).tasks()[:20]
    sets = (
        BaseTaskSet(1),
        BaseTaskSet(1, seed=1),
        BaseTaskSet(1, dictated_share=0.3),
        BaseTaskSet(1, most_user_turns=3),
    )
    assert len({tasks[0].id for tasks in sets}) == len(sets)
    assert {len(task.requests) for task in BaseTaskSet(100, most_user_turns=3)} == {1, 2, 3}
    with pytest.raises(IndexError):
        BaseTaskSet(3)[3]


def test_requests_that_name_each_step_use_values_of_the_base_split_alone():
    tasks = BaseTaskSet(400, seed=2, dictated_share=0.0)
    assert {task.kind for task in tasks} == set(KINDS)
    # What a conversion returns follows from an amount that is owned, and so occurs in one split only as well.
    assert not {value for task in tasks for value in owned_values(task) if owner(value) != "base" and "." not in value}


def test_dictated_requests_use_values_of_the_base_split_alone():
    shared = Counter()
    for task in BaseTaskSet(400, seed=2, dictated_share=1.0):
        shared.update(value for value in owned_values(task) if owner(value) != "base" and "." not in value)
    # Modes, units and options of the tools; nothing that is drawn from a large range.
    assert {value for value in shared if value.isdigit()} <= {"10", "30", "45", "60", "75", "90"}
    assert len(shared) < 30, shared


def test_dictated_requests_cover_the_tools():
    tasks = BaseTaskSet(1000, dictated_share=1.0).tasks()
    assert {task.kind for task in tasks} == {"dictated"}
    assert len({call.name for task in tasks for call in calls_of(task)}) >= 75
