"""Audits of stores made by hand, against what a reader can work out of them."""

import dataclasses

import pytest
from tests.fixtures.episodes import call
from tests.fixtures.worlds import world

from streakline.cache.lookup import CacheOptions
from streakline.cache.state import ToolKind, ToolTraits
from streakline.cache.store import CacheStore, NewEntry, ToolRecord
from streakline.environment import live
from streakline.environment.cached import CachedTools
from streakline.environment.tool_traits import declare_tools, initial_state
from streakline.errors import ConfigError
from streakline.evaluation.cache_audit import CacheAuditor, propose, summarise
from streakline.evaluation.held_out_calls import HeldOutCalls
from streakline.types import Tier

MATHS = world("MathAPI", task_id="test/maths", state={})
OTHER = world("MathAPI", task_id="test/other", state={})
NOW, HOUR = 1e6, 3600.0
THRESHOLDS = (0.5, 0.7, 0.8)
EXACT, FUZZY, BEST_EFFORT, MISS = Tier.EXACT, Tier.FUZZY, Tier.BEST_EFFORT, Tier.MISS


def mean(*numbers):
    return call("mean", numbers=list(numbers))


# Recorded: the mean of 1, 2, 3. The tokens of a list of numbers are its distinct numbers.
RIGHT_BUT_OTHER = mean(1, 3)  # Jaccard 2/3; its mean is 2 as well
WRONG_AND_NEAR = mean(1, 2, 3, 4)  # 3/4; 2.5
FAR = mean(7, 8)  # 0; 7.5


@pytest.fixture
def store(tmp_path):
    with CacheStore.open(tmp_path / "cache.db") as opened:
        declare_tools(opened, ["MathAPI", "GorillaFileSystem"], writing=["touch", "cd"])
        record(opened, "mean", {"numbers": [1, 2, 3]}, '{"result": 2}', age_s=2 * HOUR)
        record(opened, "add", {"a": 1, "b": 2}, '{"result": 3.0}')
        yield opened


def record(store, tool, arguments, result, *, age_s=0.0, state=b"", source="else"):
    entry = NewEntry(tool=tool, arguments=arguments, result=result, state=state, source=source, recorded_at=NOW - age_s)
    store.add([entry])


def audit(store, *episodes, min_fidelity=0.5, thresholds=THRESHOLDS, ages_s=(HOUR,), **options):
    auditor = CacheAuditor(store, options=CacheOptions(**{"threshold": 0.6, **options}), thresholds=thresholds)
    made = [HeldOutCalls(task=task, calls=tuple(turns)) for task, *turns in episodes]
    calls = [item for number, each in enumerate(made) for item in auditor.replay(each, number=number)]
    tasks = {task.id: task for task, *_ in episodes}.values()
    return auditor, calls, summarise(store, calls, tasks=tasks, min_fidelity=min_fidelity, ages_s=ages_s)


def answers(calls):
    return [(item.answer.tier, item.answer.is_live) for item in calls]


def fidelity(figures):
    return {name: interval.estimate for name, interval in figures.fidelity.items()}


def test_coverage_and_fidelity_are_those_counted_by_hand(store):
    first = (MATHS, [mean(1, 2, 3), WRONG_AND_NEAR, FAR], [call("multiply", a=2, b=3)])
    second = (MATHS, [mean(3, 2, 1), RIGHT_BUT_OTHER])
    third = (OTHER, [call("add", a=1.0, b=2)])
    _, calls, found = audit(store, first, second, third, threshold=0.6)
    expected = [(EXACT, True), (FUZZY, False), (BEST_EFFORT, False), (MISS, False), (FUZZY, True), (FUZZY, True)]
    assert answers(calls) == [*expected, (EXACT, True)]
    assert found.overall.calls == {EXACT: 2, FUZZY: 3, BEST_EFFORT: 1, MISS: 1}
    assert found.overall.episodes == {MISS: 1, FUZZY: 1, EXACT: 1}
    shares = {"exact": 1.0, "fuzzy": 2 / 3, "best_effort": 0.0, "other_call": 1 / 2, "served": 4 / 6, "rollouts": 2 / 3}
    assert fidelity(found.overall) == pytest.approx(shares)
    assert found.overall.fidelity["exact"].count == 2  # tasks
    assert list(found.tools) == ["mean", "add", "multiply"]
    assert found.tools["mean"].calls == {EXACT: 1, FUZZY: 3, BEST_EFFORT: 1}
    assert "exact" not in found.tools["multiply"].fidelity


def test_the_sweep_gives_what_each_threshold_alone_would_give(store):
    episodes = [(MATHS, [RIGHT_BUT_OTHER, WRONG_AND_NEAR, FAR]), (OTHER, [mean(1, 2, 3)])]
    _, _, swept = audit(store, *episodes)
    for threshold in THRESHOLDS:
        alone = audit(store, *episodes, threshold=threshold)[2].overall
        assert swept.sweep[threshold] == alone
    counts = [[swept.sweep[at].calls.get(tier, 0) for tier in (EXACT, FUZZY, BEST_EFFORT)] for at in THRESHOLDS]
    assert counts == [[1, 2, 1], [1, 1, 2], [1, 0, 3]]
    others = [fidelity(swept.sweep[at]).get("other_call") for at in THRESHOLDS]
    assert others == [0.5, 0.0, None]


@pytest.mark.parametrize(("min_fidelity", "expected"), [(0.4, 0.5), (0.5, 0.5), (0.6, None)])
def test_the_lowest_threshold_is_proposed_at_which_other_calls_are_right_often_enough(store, min_fidelity, expected):
    _, _, found = audit(store, (MATHS, [RIGHT_BUT_OTHER, WRONG_AND_NEAR]), min_fidelity=min_fidelity)
    assert found.proposed_threshold == expected


def test_the_same_call_in_another_state_speaks_for_the_highest_threshold_alone(store):
    _, _, found = audit(store, (MATHS, [WRONG_AND_NEAR, mean(3, 2, 1)]))
    assert found.proposed_threshold == 0.8
    assert fidelity(found.sweep[0.5])["fuzzy"] == 0.5  # which would have let the wrong one in
    assert propose({}, min_fidelity=0.5) is None


def test_an_interval_rests_on_tasks_and_not_on_their_episodes(store):
    episode = (MATHS, [RIGHT_BUT_OTHER])
    _, _, found = audit(store, *[episode] * 30)
    assert found.overall.fidelity["fuzzy"].low == pytest.approx(0.2065, abs=1e-3)  # Wilson's, of 1 of 1
    assert found.overall.episodes == {FUZZY: 30}


LS, TOUCH, MKDIR = call("ls"), call("touch", file_name="b"), call("mkdir", dir_name="c")


@pytest.fixture
def files(store, tmp_path):
    """The task with whose first `ls` and `touch` the store begins."""
    task = world()
    tools = CachedTools(str(tmp_path / "cache.db"), "record")
    environment = tools(task)
    environment.begin_user_turn(0)
    for item in (LS, TOUCH):
        environment.execute(item)
    tools.close()
    return task


def test_states_are_followed_as_in_training(store, files):
    moved = dataclasses.replace(files, id="test/moved", clock="2027-01-01T00:00:00")
    _, calls, found = audit(store, (files, [LS, TOUCH, LS]), (moved, [TOUCH, LS]))
    assert answers(calls) == [(EXACT, True), (EXACT, True), (FUZZY, False), (FUZZY, True), (FUZZY, False)]
    assert [item.wrote for item in calls] == [False, True, False, True, False]
    assert not any(item.diverged for item in calls)
    assert found.overall.num_other_call == 0
    assert found.kinds == {}


def test_what_a_missed_write_leads_to_is_no_fault_of_the_tools_that_read(store, files):
    _, calls, found = audit(store, (files, [MKDIR], [LS]))
    assert answers(calls) == [(MISS, False), (EXACT, False)]  # the agent was told that there is no new folder
    assert [item.diverged for item in calls] == [False, True]
    assert list(found.kinds) == ["mkdir"]
    assert "seems to write: 1 calls" in found.kinds["mkdir"]


def test_kinds_are_inferred_from_differing_results_in_the_store_and_from_those_unlike_live(store, files):
    state = initial_state(files, "GorillaFileSystem")
    for result in ("{}", '{"matches": []}'):
        record(store, "find", {}, result, state=state)
    record(store, "add", {"a": 5, "b": 5}, '{"result": 11}')
    _, _, found = audit(store, (MATHS, [call("add", a=5, b=5)]), (files, [LS]))
    assert set(found.kinds) == {"find", "add"}
    assert found.kinds["find"].startswith("declared stateful, seems volatile: 1 recorded")
    assert found.kinds["add"].startswith("declared pure, seems stateful or volatile: 0 recorded")
    assert found.kinds["add"].endswith("1 exact results differ from the live ones")
    records = store.tools()
    for name in found.kinds:
        store.set_tool(name, ToolRecord(traits=ToolTraits(kind=ToolKind.VOLATILE), parameters=records[name].parameters))
    _, calls, found = audit(store, (MATHS, [call("add", a=5, b=5)]))
    assert (answers(calls), found.kinds) == ([(MISS, False)], {})


def test_ages_are_those_of_what_was_served(store):
    episode = (MATHS, [mean(1, 2, 3), WRONG_AND_NEAR, call("add", a=1, b=2), call("multiply", a=2, b=3)])
    _, calls, found = audit(store, episode)
    assert [item.age_s for item in calls] == [2 * HOUR, 2 * HOUR, 0.0, None]
    assert {low: each.calls for low, each in found.ages_s.items()} == {0.0: {EXACT: 1}, HOUR: {EXACT: 1, FUZZY: 1}}
    assert fidelity(found.ages_s[HOUR])["served"] == 0.5
    _, calls, _ = audit(store, episode, max_age_s=HOUR)
    assert answers(calls)[0] == (FUZZY, True)


def test_tasks_and_worlds_that_the_cache_was_recorded_from_are_pointed_out(store, files):
    record(store, "mean", {"numbers": [9]}, "9", source="record:test/maths")
    tasks = (
        MATHS,
        OTHER,
        files,
        dataclasses.replace(files, id="test/same world"),
        world(task_id="test/new", clock="2027-01-01"),
    )
    _, _, found = audit(store, *[(task, [LS]) for task in tasks])
    assert found.known_tasks == ["test/maths", "test/world", "test/same world"]


def test_malformed_calls_and_what_follows_a_time_out_are_left_out(store, monkeypatch):
    refused = (MATHS, [call("mean", numbers="many"), call("no_such_tool"), mean(1, 2, 3)])
    auditor, calls, _ = audit(store, refused)
    assert (auditor.num_refused, auditor.num_cut, answers(calls)) == (2, 0, [(EXACT, True)])

    def overrun(*arguments, **options):
        raise TimeoutError

    monkeypatch.setattr(live, "run_with_timeout", overrun)
    auditor, calls, _ = audit(store, (MATHS, [mean(1, 2, 3), mean(1, 2, 3)]))
    assert (auditor.num_cut, calls) == (1, [])


def test_a_threshold_outside_its_range_is_refused(store):
    with pytest.raises(ConfigError, match="`threshold`"):
        audit(store, thresholds=(0.0,))
