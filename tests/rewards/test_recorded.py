import dataclasses
import random

import pytest
from tests.fixtures.episodes import call, episode
from tests.fixtures.worlds import world

from streakline.cache.store import CacheStore
from streakline.data.cache_build import BuildReport, record_gold
from streakline.environment.live import LiveEnvironment
from streakline.environment.tool_traits import declare_tools
from streakline.errors import CacheError, ConfigError
from streakline.rewards.recorded import RecordedSuccess
from streakline.rewards.success import StateSuccess
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Termination, Tier

MAKE, READ, TOUCH = call("mkdir", dir_name="new"), call("wc", file_name="notes.txt"), call("touch", file_name="x")
TASK = world(gold=((MAKE,), (READ,)), task_id="test/two-turns")
ASK = world(gold=((), (MAKE,)), task_id="test/ask-first")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "cache.sqlite"
    with CacheStore.open(path) as store:
        declare_tools(store, ["GorillaFileSystem"], writing=["mkdir", "touch", "rm", "cd"])
        list(record_gold(store, ToolWorldTaskSet(68, split="train", user_turns=(1, 2)).tasks(), report=BuildReport()))
    return str(path)


def played(task, *turns, termination=Termination.ANSWER):
    """An episode with the errors that the live tools answer."""
    trajectory = episode(task, [[[item] for item in turn] for turn in turns], termination=termination)
    environment, made, begun = LiveEnvironment(task, timeout_s=None), [], -1
    for turn in trajectory.turns:
        while begun < turn.user_turn:
            begun += 1
            environment.begin_user_turn(begun)
        made.append(
            dataclasses.replace(turn, results=tuple(environment.execute(item) for item in turn.message.tool_calls))
        )
    return dataclasses.replace(trajectory, turns=tuple(made))


@pytest.mark.parametrize(
    ("turns", "value"),
    [
        (([MAKE], [READ]), 1.0),
        (([MAKE, READ], [READ]), 1.0),
        (([call("mkdir", dir_name="archive"), MAKE], [READ]), 1.0),
        (([call("mkdri", dir_name="new"), MAKE], [READ]), 1.0),
        # The world is the same in the end, but other writes led there, or the read came in another state.
        (([call("cd", folder="archive"), call("cd", folder=".."), MAKE], [READ]), 0.0),
        (([READ, MAKE], []), 0.0),
        (([], [MAKE, READ]), 0.0),
        (([MAKE], []), 0.0),
        (([MAKE, TOUCH], [READ]), 0.0),
        (([MAKE],), 0.0),
    ],
)
def test_every_user_turn_has_to_make_the_writes_and_reads_of_the_gold_calls(cache, turns, value):
    assert RecordedSuccess(cache).score(TASK, played(TASK, *turns)) == value


@pytest.mark.parametrize(("turns", "value"), [(([], [MAKE]), 1.0), (([READ], [MAKE]), 0.0), (([], []), 0.0)])
def test_a_user_turn_without_gold_calls_wants_no_call(cache, turns, value):
    assert RecordedSuccess(cache).score(ASK, played(ASK, *turns)) == value


@pytest.mark.parametrize(("tier", "value"), [(Tier.EXACT, 1.0), (Tier.FUZZY, 0.0), (Tier.MISS, 1.0)])
def test_a_failed_write_counts_as_made_only_where_its_result_is_not_its_own(cache, tier, value):
    trajectory = played(TASK, [call("mkdir", dir_name="archive"), MAKE], [READ])
    first = trajectory.turns[0]
    failed = dataclasses.replace(first, results=(dataclasses.replace(first.results[0], tier=tier),))
    changed = dataclasses.replace(trajectory, turns=(failed, *trajectory.turns[1:]))
    assert first.results[0].is_error
    assert RecordedSuccess(cache).score(TASK, changed) == value


def test_it_is_never_right_where_the_live_measure_is_wrong_and_seldom_wrong_where_that_is_right(cache):
    rng, reward, pairs = random.Random(5), RecordedSuccess(cache), []
    for task in ToolWorldTaskSet(68, split="train", user_turns=(1, 2)):
        gold = [[item for calls in steps for item in calls] for steps in task.gold]
        strangers = [item for turn in gold for item in turn]
        for change in ("none", "drop", "repeat", "swap"):
            turns = [list(turn) for turn in gold]
            turn = rng.choice([turn for turn in turns if turn] or turns)
            if change == "drop" and turn:
                turn.pop(rng.randrange(len(turn)))
            elif change == "repeat" and strangers:
                turn.insert(rng.randint(0, len(turn)), rng.choice(strangers))
            elif change == "swap":
                rng.shuffle(turn)
            trajectory = played(task, *turns)
            pairs.append((reward.score(task, trajectory), StateSuccess().score(task, trajectory), change))
    assert all(live == 1.0 for recorded, live, _ in pairs if recorded == 1.0)
    assert all(recorded == 1.0 for recorded, _, change in pairs if change == "none")
    assert sum(live == 0.0 for _, live, _ in pairs) > 40
    missed = sum(recorded == 0.0 for recorded, live, _ in pairs if live == 1.0)
    assert missed < 0.2 * sum(live == 1.0 for _, live, _ in pairs)


def test_a_store_that_knows_nothing_of_the_tools_gives_no_reward(tmp_path):
    CacheStore.open(tmp_path / "other.sqlite").close()
    with pytest.raises(ConfigError, match=r"to know the tools of test/two-turns, but got no `(mkdir|wc)`"):
        RecordedSuccess(str(tmp_path / "other.sqlite")).score(TASK, played(TASK, [MAKE, TOUCH], [READ]))


@pytest.mark.parametrize("termination", [Termination.LENGTH, Termination.MAX_TURNS])
def test_an_episode_that_was_cut_off_is_wrong(cache, termination):
    assert RecordedSuccess(cache).score(TASK, played(TASK, [MAKE], [READ], termination=termination)) == 0.0


def test_an_episode_that_the_machinery_broke_is_unscored(cache):
    trajectory = played(TASK, [MAKE], [READ], termination=Termination.TOOL_ERROR)
    assert RecordedSuccess(cache).score(TASK, trajectory) is None


def test_a_task_without_gold_calls_and_a_missing_store_are_named(tmp_path):
    with pytest.raises(ConfigError, match="RecordedSuccess"):
        RecordedSuccess("nothing").score(world(), played(world(), []))
    with pytest.raises(CacheError, match="nothing"):
        RecordedSuccess(str(tmp_path / "nothing")).score(TASK, played(TASK, [MAKE], [READ]))
