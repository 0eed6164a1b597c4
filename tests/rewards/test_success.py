import dataclasses
import random

import pytest
from tests.fixtures.episodes import call, episode
from tests.fixtures.worlds import world

from streakline.errors import ConfigError
from streakline.rewards.bfcl.upstream import check_multi_turn
from streakline.rewards.success import StateSuccess
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.types import Termination

MAKE, READ, ENTER, BACK = (
    call("mkdir", dir_name="new"),
    call("wc", file_name="notes.txt"),
    call("cd", folder="archive"),
    call("cd", folder=".."),
)
TASK = world(gold=((MAKE,), (READ,)), task_id="test/two-turns")
ASK = world(gold=((), (MAKE,)), task_id="test/ask-first")


def score(task, *turns, termination=Termination.ANSWER):
    trajectory = episode(task, [[[item] for item in turn] for turn in turns], termination=termination)
    return StateSuccess().score(task, trajectory)


@pytest.mark.parametrize(
    ("turns", "value"),
    [
        (([MAKE], [READ]), 1.0),
        (([ENTER, BACK, MAKE], [READ]), 1.0),
        (([call("mkdir", dir_name="a/b"), MAKE], [READ]), 1.0),
        (([call("mkdri", dir_name="new"), MAKE], [READ]), 1.0),
        (([READ, MAKE], []), 1.0),
        (([], [MAKE, READ]), 0.0),
        (([MAKE], []), 0.0),
        (([MAKE], [call("wc", file_name="notes.txt", mode="w")]), 0.0),
        (([MAKE, call("touch", file_name="x")], [READ]), 0.0),
        (([MAKE, call("touch", file_name="x")], [call("rm", file_name="x"), READ]), 0.0),
        (([MAKE, call("rmdir", dir_name="new")], [READ]), 0.0),
        (([MAKE],), 0.0),
    ],
)
def test_every_user_turn_has_to_leave_the_right_world_and_the_right_reads(turns, value):
    assert score(TASK, *turns) == value


@pytest.mark.parametrize(
    ("turns", "value"),
    [
        (([], [MAKE]), 1.0),
        (([READ], [MAKE]), 0.0),
        (([call("unknown")], [MAKE]), 0.0),
        (([], []), 0.0),
    ],
)
def test_a_user_turn_without_gold_calls_wants_no_call(turns, value):
    assert score(ASK, *turns) == value


def test_reads_are_counted_and_their_order_does_not_matter():
    twice = world(gold=((READ, READ, MAKE),), task_id="test/twice")
    assert score(twice, [MAKE, READ, READ]) == 1.0
    assert score(twice, [MAKE, READ]) == 0.0


@pytest.mark.parametrize("termination", [Termination.LENGTH, Termination.MAX_TURNS, Termination.REPEATED_CALL])
def test_an_episode_that_was_cut_off_is_wrong(termination):
    assert score(TASK, [MAKE], [READ], termination=termination) == 0.0


@pytest.mark.parametrize("termination", [Termination.TOOL_ERROR, Termination.ENGINE_ERROR])
def test_an_episode_that_the_machinery_broke_is_unscored(termination):
    assert score(TASK, [MAKE], [READ], termination=termination) is None


def test_calls_that_never_ran_do_not_count():
    trajectory = episode(TASK, [[[MAKE]], [[READ]]], executed=False)
    assert StateSuccess().score(TASK, trajectory) == 0.0


def test_the_same_verdict_comes_out_after_a_wrong_answer():
    assert [score(TASK, *turns) for turns in (([], []), ([MAKE], [READ]), ([], []), ([MAKE], [READ]))] == [0, 1, 0, 1]


def test_held_out_tools_work_from_their_turn_on():
    full = world(gold=((), (MAKE,)), task_id="test/held-out")
    task = dataclasses.replace(
        full,
        tools=tuple(schema for schema in full.tools if schema.name != "mkdir"),
        revealed_tools={1: tuple(schema for schema in full.tools if schema.name == "mkdir")},
    )
    assert score(task, [], [MAKE]) == 1.0
    assert score(task, [MAKE], [MAKE]) == 0.0


def test_a_task_without_world_or_gold_is_refused():
    for task in (dataclasses.replace(TASK, simulators=()), dataclasses.replace(TASK, gold=())):
        with pytest.raises(ConfigError, match="simulators and gold calls"):
            score(task, [], [])


def mutated(gold, rng):
    """Gold with one change: a call dropped, doubled, moved to the next turn, swapped with its neighbour, or none."""
    steps = [[[item] for step in turn for item in step] for turn in gold]
    turn = rng.choice([index for index, calls in enumerate(steps) if calls])
    position = rng.randrange(len(steps[turn]))
    match rng.randrange(5):
        case 0:
            del steps[turn][position]
        case 1:
            steps[turn].insert(position, steps[turn][position])
        case 2 if turn + 1 < len(steps):
            steps[turn + 1].insert(0, steps[turn].pop(position))
        case 3:
            steps[turn][position - 1], steps[turn][position] = steps[turn][position], steps[turn][position - 1]
        case _:
            pass
    return steps


def test_the_verdict_is_upstreams_on_right_and_wrong_episodes():
    rng = random.Random(0)
    verdicts = []
    for task in BFCLTaskSet("multi_turn_base", limit=150):
        steps = mutated(task.gold, rng)
        if any(not calls for calls in steps):
            continue  # upstream calls a user turn without calls wrong whatever the world is
        verdicts.append((StateSuccess().score(task, episode(task, steps)) == 1.0, check_multi_turn(task, steps)))
    ours, theirs = zip(*verdicts, strict=True)
    assert ours == theirs
    assert 20 < sum(ours) < len(ours) - 20
