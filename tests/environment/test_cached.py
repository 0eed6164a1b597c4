import dataclasses
import json
import subprocess
import sys
import threading
import time

import pytest
from jsonargparse import ArgumentParser
from tests.fixtures.episodes import call
from tests.fixtures.worlds import world

from streakline.cache.lookup import CacheOptions
from streakline.cache.store import CacheStore, NewEntry
from streakline.environment import live
from streakline.environment.cached import CachedTools
from streakline.environment.live import LiveEnvironment
from streakline.environment.tool_traits import declare_tools, writing_tools
from streakline.errors import CacheError, ConfigError, DataError
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Tier, ToolCall


@pytest.fixture(scope="module")
def tasks():
    sets = [BFCLTaskSet("multi_turn_base", limit=4), BFCLTaskSet("multi_turn_miss_func", limit=2)]
    return [*(task for item in sets for task in item.tasks()), *ToolWorldTaskSet(17, split="test", user_turns=(1, 2))]


@pytest.fixture
def opened(tmp_path):
    """Makes `CachedTools` on one store, and closes them."""
    made = []

    def make(mode="frozen", **options):
        made.append(CachedTools(str(tmp_path / "cache.db"), mode, **options))
        return made[-1]

    yield make
    for tools in made:
        tools.close()


def gold(task):
    return [[item for calls in steps for item in calls] for steps in task.gold]


def play(environment, calls_by_user_turn):
    results = []
    for index, calls in enumerate(calls_by_user_turn):
        environment.begin_user_turn(index)
        results += [environment.execute(item) for item in calls]
    return results


def record(tools, task, *calls):
    return play(tools(task), [calls])


def tiers(results):
    return [str(result.tier) for result in results]


def contents(results):
    return [(result.name, result.content, result.is_error) for result in results]


def test_recorded_episodes_are_served_exactly_and_equal_to_live(tasks, opened, tmp_path):
    with CacheStore.open(tmp_path / "cache.db") as store:
        for task in tasks:
            declare_tools(store, task.simulators, writing=writing_tools(task))
    live = [play(LiveEnvironment(task), gold(task)) for task in tasks]
    recorder = opened("record")
    recorded = [play(recorder(task), gold(task)) for task in tasks]
    assert list(map(contents, recorded)) == list(map(contents, live))
    assert {str(result.tier) for results in recorded for result in results} <= {"live", "exact"}
    frozen = opened()
    served = [play(frozen(task), gold(task)) for task in tasks]
    assert list(map(contents, served)) == list(map(contents, live))
    assert {(str(result.tier), result.similarity) for results in served for result in results} == {("exact", 1.0)}
    assert all(result.entry_id.isdigit() for results in served for result in results)


def test_what_was_recorded_is_not_run_again(tasks, opened):
    task = next(task for task in tasks if sum(map(len, gold(task))) > 3)
    recorder = opened("record")
    for _ in range(2):  # the second time, what writes is known from the start
        play(recorder(task), gold(task))
    digest = recorder.digest
    assert set(tiers(play(recorder(task), gold(task)))) == {"exact"}
    assert recorder.digest == digest


LS, CD, TOUCH, CAT = call("ls"), call("cd", folder="archive"), call("touch", file_name="a"), call("cat", file_name="a")


def test_another_order_of_writes_is_not_exact(opened):
    task = world()
    record(opened("record"), task, CD, TOUCH, LS)
    frozen = opened()
    assert tiers(record(frozen, task, CD, TOUCH, LS)) == ["exact", "exact", "exact"]
    assert tiers(record(frozen, task, TOUCH, CD, LS)) == ["fuzzy", "fuzzy", "fuzzy"]
    assert tiers(record(frozen, dataclasses.replace(task, clock="2027-01-01T00:00:00"), CD)) == ["fuzzy"]


def test_reads_errors_and_other_simulators_leave_the_state_as_it_is(opened):
    task = world("GorillaFileSystem", "MathAPI", "TicketAPI")
    recorder = opened("record")
    login = call("ticket_login", username="u", password="p")
    record(recorder, task, CD, LS)
    record(recorder, task, CAT, login, call("mean", numbers=[1, 2]))
    mixed = [call("mean", numbers=[1.0, 2]), CAT, login, CD, LS]
    assert tiers(record(opened(), task, *mixed)) == ["exact"] * 5


def test_calls_in_record_mode_meet_the_writes_that_were_served_before_them(opened):
    task = world()
    recorder = opened("record")
    record(recorder, task, CD, TOUCH)
    results = record(recorder, task, CD, TOUCH, LS, CD, call("rm", file_name="a"), TOUCH, LS)
    assert tiers(results)[:4] == ["exact", "exact", "live", "live"]
    assert contents(results) == contents(
        record(LiveEnvironment, task, CD, TOUCH, LS, CD, call("rm", file_name="a"), TOUCH, LS)
    )
    # Served after the live world was made, and before a call that runs.
    results = record(recorder, task, LS, CD, TOUCH, call("wc", file_name="a"))
    assert contents(results) == contents(record(LiveEnvironment, task, LS, CD, TOUCH, call("wc", file_name="a")))


def test_a_write_that_is_served_inexactly_makes_later_results_inexact(opened):
    task = world()
    gone, there, notes = (call("rm", file_name=name) for name in ("gone", "archive", "notes.txt"))
    recorder = opened("record")
    record(recorder, task, gone, LS)
    record(recorder, dataclasses.replace(task, clock="2027-01-01T00:00:00"), notes)  # shows that `rm` writes
    frozen = opened(options=CacheOptions(best_effort="most_frequent"))
    assert tiers(record(frozen, task, gone, LS)) == ["exact", "exact"]
    results = record(frozen, task, there, LS)
    assert tiers(results) == ["best_effort", "fuzzy"]
    assert results[0].is_error  # and yet nobody knows what the call would have done


def test_a_miss_leaves_the_state_as_it_is(opened):
    task = world()
    record(opened("record"), task, CD, LS)
    results = record(opened(), task, CD, call("rm", file_name="notes.txt"), LS)
    assert tiers(results) == ["exact", "miss", "exact"]


def test_a_call_that_fails_and_yet_writes_never_leads_to_a_wrong_exact_result(opened):
    users = {"user_count": 1, "user_map": {"Ann": "USR002"}}
    task = world("MessageAPI", state={"MessageAPI": users})
    bob = call("add_contact", user_name="Bob")  # counts up even where it then finds the id taken
    live = record(LiveEnvironment, task, bob, bob)
    assert [result.is_error for result in live] == [True, False]
    recorder = opened("record")
    assert contents(record(recorder, task, bob, bob)) == contents(live)
    assert tiers(record(recorder, task, bob, bob)) == ["live", "exact"]
    first, second = record(opened(), task, bob, bob)
    assert first.tier is Tier.FUZZY
    assert (second.tier, second.content) == (Tier.EXACT, live[1].content)


WATCH = [call("add_to_watchlist", stock="NVDA"), call("get_watchlist"), call("add_to_watchlist", stock="ZETA")]


def test_a_tool_that_is_seen_late_to_write_leaves_no_wrong_exact_result(opened):
    task = world("TradingBot", state={"TradingBot": {"watch_list": ["NVDA"]}})
    live = contents(record(LiveEnvironment, task, *WATCH, WATCH[1]))
    recorder = opened("record")
    # The first call changes nothing: only the third shows that the tool writes.
    assert contents(record(recorder, task, *WATCH, WATCH[1])) == live
    served = record(opened(), task, *WATCH, WATCH[1])
    assert [item for item, tier in zip(contents(served), tiers(served), strict=True) if tier == "exact"] == live[:1]
    assert contents(record(recorder, task, *WATCH, WATCH[1])) == live
    served = record(opened(), task, *WATCH, WATCH[1])
    assert (contents(served), set(tiers(served))) == (live, {"exact"})


def test_a_process_learns_from_the_store_what_another_saw_to_write(opened):
    task = world()
    first, second = opened("record"), opened("record")
    first(task)
    second(task)  # both know the tools as reading
    record(first, task, TOUCH, LS)
    results = record(second, task, TOUCH, LS)
    assert tiers(results) == ["exact", "exact"]
    assert contents(results) == contents(record(LiveEnvironment, task, TOUCH, LS))


RECORD = """
import sys
from tests.environment.test_cached import gold, play
from streakline.environment.cached import CachedTools
from streakline.tasks.toolworld import ToolWorldTaskSet

tools = CachedTools("cache.db", "record")
tasks = ToolWorldTaskSet(12, split="test", user_turns=(1, 2)).tasks()
for _ in range(2):
    for task in tasks if sys.argv[1] == "0" else tasks[::-1]:
        play(tools(task), gold(task))
tools.close()
"""


def test_two_processes_record_at_once(opened, tmp_path, pytestconfig):
    environment = {"PYTHONPATH": f"{pytestconfig.rootpath / 'src'}:{pytestconfig.rootpath}", "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([sys.executable, "-c", RECORD, str(n)], cwd=tmp_path, env=environment) for n in range(2)
    ]
    assert [process.wait() for process in running] == [0, 0]
    with CacheStore.open(tmp_path / "cache.db") as store:
        store.verify()
    frozen = opened()
    for task in ToolWorldTaskSet(12, split="test", user_turns=(1, 2)):
        served = play(frozen(task), gold(task))
        assert set(tiers(served)) <= {"exact"}
        assert contents(served) == contents(play(LiveEnvironment(task), gold(task)))


def test_a_frozen_store_is_never_written(opened, tmp_path):
    task = world()
    recorder = opened("record")
    record(recorder, task, CD, LS)
    recorder.close()
    before = (tmp_path / "cache.db").read_bytes()
    frozen = opened()
    record(frozen, task, LS, CD, TOUCH, call("nonsense"), call("ls", a=3))
    frozen.close()
    assert (tmp_path / "cache.db").read_bytes() == before


def test_calls_are_refused_in_the_words_of_the_live_world(opened):
    full = world(gold=((), ()))
    sort = tuple(schema for schema in full.tools if schema.name == "sort")
    shown = tuple(schema for schema in full.tools if schema.name != "sort")
    task = dataclasses.replace(full, tools=shown, revealed_tools={1: sort})
    bad = [call("srt", file_name="a"), call("mkdir"), call("ls", a=3), ToolCall(name="\ud800", id="7"), call("sort")]
    live = play(LiveEnvironment(task), [bad, bad])
    record(opened("record"), task, LS)
    for mode in ("frozen", "record", "live"):
        assert play(opened(mode)(task), [bad, bad]) == live
    assert "Unknown tool `sort`" in live[4].content
    assert "Unknown tool" not in live[9].content


def test_a_tool_appears_at_its_user_turn_in_every_mode(opened):
    full = world(gold=((), ()))
    sort = tuple(schema for schema in full.tools if schema.name == "sort")
    task = dataclasses.replace(full, tools=full.tools[:3], revealed_tools={1: sort})
    calls = [[], [call("sort", file_name="notes.txt")]]
    for mode in ("live", "record", "frozen"):
        (result,) = play(opened(mode)(task), calls)
        assert not result.is_error


def test_a_miss_tells_the_model_of_close_tools(opened):
    task = world("TicketAPI", state={})
    record(opened("record"), task, call("ticket_login", username="u", password="p"))
    result = opened()(task).execute(ToolCall(name="get_ticket", arguments={"ticket_id": 1}, id="9"))
    assert (result.tier, result.similarity, result.entry_id, result.call_id) == (Tier.MISS, 0.0, "", "9")
    assert result.is_error
    assert json.loads(result.content)["error"].startswith(
        "No result of `get_ticket` is recorded. Did you mean `edit_ticket` or"
    )


def test_a_call_without_canonical_form_is_answered_and_not_run(opened):
    task = world("MathAPI", state={})
    odd = call("mean", numbers=[float("nan")])
    for mode in ("record", "frozen"):
        result = opened(mode)(task).execute(odd)
        assert (result.tier, result.is_error) == (Tier.MISS, True)
        assert "finite" in json.loads(result.content)["error"]


def test_a_recorded_result_that_no_tokenizer_takes_becomes_text(opened, tmp_path):
    task = world()
    record(opened("record"), task, CD)
    with CacheStore.open(tmp_path / "cache.db") as store:
        store.add([NewEntry(tool="ls", arguments={}, result="a\ud800b", recorded_at=0.0)])
    assert opened()(task).execute(LS).content == "a?b"


def test_a_call_that_overruns_its_time_is_not_recorded(opened, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(live, "tool_functions", lambda name: {"ls": lambda self, **_: release.wait(30)})
    task = world()
    task = dataclasses.replace(task, tools=tuple(schema for schema in task.tools if schema.name == "ls"))
    recorder = opened("record", timeout_s=0.05)
    environment = recorder(task)
    first, second = play(environment, [[LS, LS]])
    release.set()
    assert "within 0.05 s" in first.content
    assert "closed" in second.content
    assert environment.done
    assert recorder.open().store.num_entries == 0


def test_the_calls_of_a_task_whose_outcome_they_are_are_acknowledged(opened, tmp_path):
    task = BFCLTaskSet("simple_python", limit=1).tasks()[0]
    (schema,) = task.tools
    valid = ToolCall(name=schema.name, arguments={"base": 10, "height": 5})
    with CacheStore.open(tmp_path / "cache.db") as store:
        store.add([NewEntry(tool=schema.name, arguments={}, result="25", recorded_at=0.0)])
    for mode in ("record", "frozen", "live"):
        environment = opened(mode)(task)
        assert play(environment, [[valid, valid]]) == play(LiveEnvironment(task), [[valid, valid]])
        assert environment.done


def test_recorded_tools_serve_a_task_without_simulators(opened, tmp_path):
    task = dataclasses.replace(world(), simulators=(), initial_state={})
    with CacheStore.open(tmp_path / "cache.db") as store:
        store.add([NewEntry(tool="ls", arguments={}, result="here", recorded_at=0.0)])
    environment = opened()(task)
    assert [result.content for result in play(environment, [[LS, LS]])] == ["here", "here"]
    assert not environment.done


def test_the_state_is_told_by_digests_that_writes_move_on(opened):
    task = world("GorillaFileSystem", "MathAPI")
    record(opened("record"), task, CD)
    environment, other = opened()(task), opened()(task)
    assert environment.state() == other.state()
    assert set(environment.state()) == {"GorillaFileSystem", "MathAPI"}
    environment.execute(CD)
    assert environment.state()["GorillaFileSystem"] != other.state()["GorillaFileSystem"]
    assert environment.state()["MathAPI"] == other.state()["MathAPI"]
    assert opened("live")(task).state() == LiveEnvironment(task).state()


def test_live_mode_opens_no_store_and_can_be_slow(tmp_path):
    tools = CachedTools(str(tmp_path / "none" / "cache.db"), "live", latency_s=0.1)
    task = world()
    started = time.perf_counter()
    assert tiers(record(tools, task, LS)) == ["live"]
    between = time.perf_counter()
    assert record(tools, task, call("nonsense"))[0].is_error
    assert between - started >= 0.1
    assert tools.digest == ""
    assert not (tmp_path / "none").exists()


def test_seeds_draw_independently_only_where_asked_to(opened):
    task = world()
    recorder = opened("record")
    for name in ("a", "b", "c"):
        record(recorder, task, call("touch", file_name=name), LS)
    asked = [call("mkdir", dir_name="x"), LS]
    mkdir = call("mkdir", dir_name="y")
    record(recorder, task, mkdir)

    def listings(tools):
        found = []
        for seed in range(20):
            environment = tools(task)
            environment.seed_draws(seed)
            found.append(play(environment, [asked])[1].content)
        return found

    assert len(set(listings(opened()))) == 1
    drawn = opened(options=CacheOptions(draw="independent"))
    assert len(set(listings(drawn))) == 3
    assert listings(drawn) == listings(drawn)


def test_a_run_is_not_continued_on_another_frozen_cache(opened, tmp_path):
    recorder = opened("record")
    record(recorder, world(), CD)
    saved = opened().state_dict()
    assert saved == {"digest": recorder.digest, "schema_version": 1}
    opened().load_state_dict(saved)
    record(recorder, world(), LS)
    with pytest.raises(DataError, match="of the checkpoint") as caught:
        opened().load_state_dict(saved)
    assert "\n" not in str(caught.value)
    recorder.load_state_dict(saved)


def test_a_missing_frozen_store_is_said_in_one_line(opened):
    with pytest.raises(CacheError, match="build_cache") as caught:
        opened()(world())
    assert "\n" not in str(caught.value)


def test_a_negative_latency_is_refused():
    with pytest.raises(ConfigError, match="latency_s"):
        CachedTools("x", latency_s=-1)


def test_without_a_store_there_is_nothing_to_say_of_one(tmp_path):
    assert CachedTools(str(tmp_path / "none.sqlite"), mode="live").statistics() == {"mode": "live"}


def test_a_config_can_build_it():
    def run(*, tools: CachedTools) -> CachedTools:
        return tools

    parser = ArgumentParser(exit_on_error=False)
    parser.add_function_arguments(run)
    config = parser.parse_args(["--tools.path=x.db", "--tools.mode=record", "--tools.options.threshold=0.7"])
    assert parser.dump(parser.parse_string(parser.dump(config))) == parser.dump(config)
    assert isinstance(parser.instantiate(config).tools, CachedTools)
