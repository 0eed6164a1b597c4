import dataclasses

import pytest
from tests.fixtures.episodes import call
from tests.fixtures.worlds import world

from streakline.rewards.bfcl.multi_turn import follows_gold
from streakline.rewards.bfcl.upstream import check_multi_turn, check_sources, rebuilt_source
from streakline.tasks.bfcl import BFCLTaskSet

MAKE, READ, ENTER, BACK = (
    call("mkdir", dir_name="new"),
    call("wc", file_name="notes.txt"),
    call("cd", folder="archive"),
    call("cd", folder=".."),
)
TASK = world(gold=((MAKE,), (READ,)), task_id="test/two-turns-graded")
ASK = world(gold=((), (MAKE,)), task_id="test/ask-first-graded")


def verdicts(task, *turns):
    steps = [[[item] for item in turn] for turn in turns]
    return tuple(follows_gold(task, steps, mode=mode) for mode in ("lenient", "strict"))


@pytest.mark.parametrize(
    ("turns", "lenient", "strict"),
    [
        (([MAKE], [READ]), True, True),
        (([ENTER, BACK, MAKE], [READ, READ]), True, True),
        (([call("mkdir", dir_name="a/b"), MAKE], [READ]), True, True),
        (([call("mkdri", dir_name="new"), MAKE], [READ]), True, False),
        (([call("mkdir", dir_name=3), MAKE], [READ]), True, False),
        (([MAKE, READ], [ENTER, BACK]), True, True),
        (([MAKE, READ], []), False, False),
        (([READ], [MAKE]), False, False),
        (([MAKE], [ENTER]), False, False),
        (([MAKE, call("touch", file_name="x")], [call("rm", file_name="x"), READ]), False, False),
    ],
)
def test_each_user_turn_leaves_the_right_state_and_has_the_right_results(turns, lenient, strict):
    assert verdicts(TASK, *turns) == (lenient, strict)


@pytest.mark.parametrize(
    ("turns", "lenient", "strict"),
    [(([], [MAKE]), True, True), (([READ], [MAKE]), True, False), (([MAKE], []), False, False)],
)
def test_only_strict_minds_a_call_where_nothing_is_to_be_called(turns, lenient, strict):
    assert verdicts(ASK, *turns) == (lenient, strict)


def test_results_are_counted_and_errors_are_results_of_nothing():
    twice = world(gold=((READ, READ),), task_id="test/twice-graded")
    assert verdicts(twice, [READ, READ]) == (True, True)
    assert verdicts(twice, [READ]) == (False, False)
    failing = world(gold=((call("cd", folder="nowhere"),),), task_id="test/failing-graded")
    assert verdicts(failing, [call("cd", folder="nowhere")]) == (False, False)


def test_held_out_tools_work_from_their_turn_on():
    full = world(gold=((READ,), (MAKE,)), task_id="test/held-out-graded")
    task = dataclasses.replace(
        full,
        tools=tuple(schema for schema in full.tools if schema.name != "mkdir"),
        revealed_tools={1: tuple(schema for schema in full.tools if schema.name == "mkdir")},
    )
    assert verdicts(task, [READ], [MAKE]) == (True, True)
    assert verdicts(task, [READ, MAKE], [MAKE]) == (True, False)


def test_a_right_answer_is_right_after_a_wrong_one_which_upstream_denies():
    task = BFCLTaskSet("multi_turn_base", limit=1)[0]
    right = [[list(step) for step in turn] for turn in task.gold]
    wrong = [[[call("rm", file_name="document")]], *right[1:]]
    assert [follows_gold(task, steps, mode="strict") for steps in (wrong, right, wrong, right)] == [False, True] * 2
    assert [check_multi_turn(task, steps) for steps in (wrong, right)] == [False, True]
    assert check_sources(task, [rebuilt_source(task, steps) for steps in (wrong, right)]) == [False, False]


def test_arguments_are_text_where_upstream_evaluates_them():
    task = BFCLTaskSet("multi_turn_base", limit=1)[0]
    gold = [[list(step) for step in turn] for turn in task.gold]
    assert gold[0][0] == [call("cd", folder="document")]
    as_text = [[[call("cd", folder="'docu' + 'ment'")], *gold[0][1:]], *gold[1:]]
    assert not follows_gold(task, as_text, mode="lenient")
    source = rebuilt_source(task, gold)
    source[0][0] = ["cd(folder='docu' + 'ment')"]
    assert check_sources(task, [source]) == [True]
