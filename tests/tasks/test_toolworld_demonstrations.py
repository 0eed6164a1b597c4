import random
from collections import Counter
from itertools import pairwise

import pytest

from streakline.environment.replay import gold_outcomes, replay
from streakline.errors import ConfigError
from streakline.tasks.toolworld import HABITS, KINDS, ToolWorldTaskSet, demonstrate
from streakline.types import Role


def calls_by_user_turn(messages):
    turns = []
    for message in messages:
        if message.role is Role.USER:
            turns.append([])
        turns[-1].extend(message.tool_calls)
    return turns


def succeeds(task, messages):
    """Whether each user turn leaves the world as gold does and has seen what gold reads, or calls nothing there."""
    seen = Counter()
    for outcome, gold in zip(replay(task, calls_by_user_turn(messages)), gold_outcomes(task), strict=True):
        seen.update(result.content for result in outcome.results)
        needed = Counter(result.content for result in gold.results)
        if not needed and outcome.results:
            return False
        if needed and (outcome.state != gold.state or not needed <= seen):
            return False
    return True


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_demonstration_without_habits_succeeds(split):
    for task in ToolWorldTaskSet(120, split=split, seed=5, user_turns=(1, 2, 3)):
        shown = demonstrate(task, habits={})
        assert shown.habit == ""
        assert succeeds(task, shown.messages), task.id


@pytest.mark.parametrize("kind", list(HABITS))
def test_a_demonstration_of_a_habit_fails_the_task(kind):
    for task in ToolWorldTaskSet(25, split="train", kinds=[kind], user_turns=(1, 2, 3), seed=6):
        shown = demonstrate(task, habits={kind: 1.0})
        assert shown.habit == HABITS[kind].name
        assert not succeeds(task, shown.messages), task.id
        assert len(calls_by_user_turn(shown.messages)) == len(task.requests)


def test_habits_make_calls_that_fit_the_schemas():
    """A mistake in judgement is shown, not a malformed call."""
    for task in ToolWorldTaskSet(200, split="train", seed=8):
        shown = demonstrate(task, habits=dict.fromkeys(HABITS, 1.0))
        results = [message.content for message in shown.messages if message.role is Role.TOOL]
        assert not [result for result in results if "Expected" in result or "Unknown tool" in result], task.id


def test_messages_alternate_as_in_an_episode():
    for task in ToolWorldTaskSet(100, split="train", user_turns=(1, 2, 3)):
        messages = demonstrate(task).messages
        assert messages[0] == task.requests[0][0]
        for message, following in pairwise(messages):
            if message.role is Role.ASSISTANT:
                expected = Role.TOOL if message.tool_calls else Role.USER
                assert following.role is expected
                assert bool(message.content) != bool(message.tool_calls)
            else:
                assert following.role in {message.role, Role.ASSISTANT}
        assert messages[-1].role is Role.ASSISTANT
        assert messages[-1].content


def test_default_shares_are_those_of_the_table():
    counts, wrong = Counter(), Counter()
    for task in ToolWorldTaskSet(60 * len(KINDS), split="train", seed=3):
        counts[task.kind] += 1
        wrong[task.kind] += bool(demonstrate(task).habit)
    for kind in KINDS:
        share = HABITS[kind].share if kind in HABITS else 0.0
        assert wrong[kind] / counts[kind] == pytest.approx(share, abs=0.2), kind


def test_a_demonstration_is_a_function_of_task_and_seed():
    task = ToolWorldTaskSet(1, split="train", kinds=["buy_at_market"])[0]
    assert demonstrate(task, seed=1) == demonstrate(task, seed=1)
    random.seed(0)
    shown = {demonstrate(task, habits={"buy_at_market": 0.5}, seed=seed).habit for seed in range(20)}
    assert shown == {"", "guesses_price"}


@pytest.mark.parametrize("habits", [{"no_such_kind": 0.5}, {"write_note": 1.5}])
def test_habits_that_can_not_be_are_refused(habits):
    task = ToolWorldTaskSet(1, split="train")[0]
    with pytest.raises(ConfigError, match="Expected `habits` to give kinds a probability, but got"):
        demonstrate(task, habits=habits)
