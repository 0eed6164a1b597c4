import dataclasses
import decimal
import json
import os
import threading
import time

import pytest
from tests.fixtures.episodes import call
from tests.fixtures.worlds import world

from streakline.environment import live
from streakline.environment.live import LiveEnvironment, refusal
from streakline.environment.simulators import tool_schemas
from streakline.errors import ConfigError, DataError
from streakline.types import Message, Role, Task, ToolCall, ToolSchema


def error(result):
    assert result.is_error
    return json.loads(result.content)["error"]


def test_a_call_runs_and_changes_the_world():
    environment = LiveEnvironment(world())
    before = environment.state()
    result = environment.execute(ToolCall(name="touch", arguments={"file_name": "new.txt"}, id="7"))
    assert (result.name, result.is_error, result.call_id) == ("touch", False, "7")
    assert "new.txt" in environment.state()["GorillaFileSystem"]["root"]["contents"]
    assert environment.state() != before
    assert not environment.done


def test_a_structured_result_is_json_and_text_stays_text():
    result = LiveEnvironment(world()).execute(call("ls"))
    assert json.loads(result.content) == {"current_directory_content": ["notes.txt", "archive"]}


def test_non_ascii_text_is_kept():
    assert "na\u00efve" in LiveEnvironment(world()).execute(call("echo", content="na\u00efve")).content


def test_half_a_surrogate_pair_becomes_text_that_can_be_encoded():
    environment = LiveEnvironment(world())
    for name, arguments in (("echo", {"content": "a\ud800b"}), ("\ud800", {}), ("echo", {"\ud800": 1})):
        environment.execute(ToolCall(name=name, arguments=arguments)).content.encode("utf-8")


def test_an_error_of_the_tool_is_marked():
    assert error(LiveEnvironment(world()).execute(call("cat", file_name="gone"))).startswith("cat:")


def test_an_unknown_tool_is_answered_with_close_names_and_all_names():
    message = error(LiveEnvironment(world()).execute(call("toch", file_name="x")))
    assert message.startswith("Unknown tool `toch`. Did you mean `touch`")
    assert "Available: cat, cd" in message


@pytest.mark.parametrize("name", ["", "_load_scenario", "__init__", "root", "os.system", "x" * 10_000])
def test_nothing_outside_the_allow_list_runs(name):
    environment = LiveEnvironment(world())
    before = environment.state()
    message = error(environment.execute(ToolCall(name=name, arguments={"scenario": {}})))
    assert "Unknown tool" in message
    assert len(message) < 1000
    assert environment.state() == before


def test_a_tool_of_the_simulator_that_the_task_does_not_show_is_unknown():
    task = world()
    task = dataclasses.replace(task, tools=tuple(schema for schema in task.tools if schema.name != "rm"))
    assert "Unknown tool `rm`" in error(LiveEnvironment(task).execute(call("rm", file_name="notes.txt")))


def test_a_held_out_tool_appears_at_its_user_turn():
    full = world(gold=((), ()))
    held_out = tuple(schema for schema in full.tools if schema.name == "sort")
    shown = tuple(schema for schema in full.tools if schema.name != "sort")
    environment = LiveEnvironment(dataclasses.replace(full, tools=shown, revealed_tools={1: held_out}))
    environment.begin_user_turn(0)
    assert "Unknown tool" in error(environment.execute(call("sort", file_name="notes.txt")))
    environment.begin_user_turn(1)
    assert not environment.execute(call("sort", file_name="notes.txt")).is_error


def test_wrong_arguments_are_named_and_nothing_runs():
    environment = LiveEnvironment(world())
    before = environment.state()
    assert error(environment.execute(call("mkdir", dir_name=3))) == (
        "Expected `dir_name` to be of type string, but got 3"
    )
    assert "Expected `dir_name` to be given" in error(environment.execute(call("mkdir")))
    assert "`force`" in error(environment.execute(call("mkdir", dir_name="a", force=True)))
    assert environment.state() == before


def test_text_that_is_code_stays_text(monkeypatch):
    ran = []
    monkeypatch.setattr(os, "getpid", lambda: ran.append(1) or 1)
    environment = LiveEnvironment(world())
    text = "__import__('os').getpid()"
    assert "of type boolean" in error(environment.execute(call("ls", a=text)))
    environment.execute(call("touch", file_name="evil.txt"))
    environment.execute(call("echo", content=text, file_name="evil.txt"))
    assert json.loads(environment.execute(call("cat", file_name="evil.txt")).content) == {"file_content": text}
    assert not ran


def test_a_tool_that_raises_is_an_answer():
    environment = LiveEnvironment(world("TravelAPI", state={}))
    result = environment.execute(call("get_nearest_airport_by_city", location="Nowhere"))
    assert not environment.done
    environment = LiveEnvironment(world(state={"GorillaFileSystem": {}}))
    environment.execute(call("mkdir", dir_name="d"))
    environment.execute(call("cp", source="d", destination="d"))
    assert "RecursionError" in error(environment.execute(call("find", path=".", name="x")))
    assert result.content


def test_values_that_json_has_no_form_for_are_answered():
    environment = LiveEnvironment(world("MathAPI", state={}))
    assert json.loads(environment.execute(call("multiply", a=1e308, b=10.0)).content) == {"result": "inf"}
    assert json.loads(environment.execute(call("square_root", number=2, precision=5)).content) == {"result": "1.4142"}
    assert json.loads(environment.execute(call("logarithm", value=8, base=2, precision=10)).content) == {
        "result": "3.0"
    }


def test_a_calculation_without_end_is_refused_at_once():
    started = time.perf_counter()
    assert "larger power" in error(
        LiveEnvironment(world("MathAPI", state={})).execute(call("power", base=10**9, exponent=10**9))
    )
    assert time.perf_counter() - started < 2


def test_what_a_tool_does_to_its_own_default_does_not_leak():
    login = call("authenticate_twitter", username="john", password="john123")
    for _ in range(2):
        environment = LiveEnvironment(world("TwitterAPI", state={}))
        environment.execute(login)
        tweet = json.loads(environment.execute(call("post_tweet", content="Hello")).content)
        assert tweet["mentions"] == []
        environment.execute(call("mention", tweet_id=tweet["id"], mentioned_usernames=["@a"]))
        # Within a world it is as upstream: the second tweet shares the list of the first.
        assert json.loads(environment.execute(call("post_tweet", content="Bye")).content)["mentions"] == ["@a"]


def test_the_precision_of_a_calculation_does_not_leak():
    before = decimal.getcontext().prec
    LiveEnvironment(world("MathAPI", state={}), timeout_s=None).execute(call("square_root", number=2, precision=3))
    assert decimal.getcontext().prec == before


def test_a_tool_cannot_change_the_call_it_was_given():
    state = {
        "TwitterAPI": {"authenticated": True, "username": "ann", "password": "x", "tweets": {}, "tweet_counter": 0}
    }
    environment = LiveEnvironment(world("TwitterAPI", state=state))
    post = call("post_tweet", content="Hello", tags=["#a"], mentions=["@bob"])
    environment.execute(post)
    environment.execute(call("mention", tweet_id=0, mentioned_usernames=["@eve"]))
    assert post.arguments["mentions"] == ["@bob"]


def test_two_episodes_of_a_task_do_not_meet():
    task = world()
    first, second = LiveEnvironment(task), LiveEnvironment(task)
    first.execute(call("rm", file_name="notes.txt"))
    assert "notes.txt" in second.execute(call("ls")).content
    assert "notes.txt" in LiveEnvironment(task).execute(call("ls")).content


def test_a_tool_that_overruns_closes_the_episode(monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(live, "tool_functions", lambda name: {"ls": lambda self, **_: release.wait(30)})
    task = world()
    task = dataclasses.replace(task, tools=tuple(schema for schema in task.tools if schema.name == "ls"))
    environment = LiveEnvironment(task, timeout_s=0.05)
    started = time.perf_counter()
    assert "within 0.05 s" in error(environment.execute(call("ls")))
    assert time.perf_counter() - started < 5
    assert environment.done
    assert "closed" in error(environment.execute(call("ls")))
    release.set()


def test_calls_see_the_tasks_clock():
    state = {"TravelAPI": {"user_first_name": "Ann", "user_last_name": "Lee"}}
    arguments = {"first_name": "Ann", "last_name": "Lee", "date_of_birth": "2010-06-01", "passport_number": "US1"}
    verify = ToolCall(name="verify_traveler_information", arguments=arguments)
    for timeout_s in (None, 5.0):
        young, old = (
            LiveEnvironment(world("TravelAPI", state=state, clock=clock), timeout_s=timeout_s).execute(verify).content
            for clock in ("2020-01-01T00:00:00", "2030-01-01T00:00:00")
        )
        assert json.loads(young)["verification_status"] is False
        assert json.loads(old)["verification_status"] is True


def test_a_task_without_a_world_acknowledges_one_call_and_is_done():
    task = Task(
        id="test/single",
        source="test",
        kind="test",
        tools=tool_schemas("MathAPI"),
        requests=((Message(role=Role.USER, content="Add."),),),
    )
    environment = LiveEnvironment(task)
    assert "Unknown tool" in error(environment.execute(call("plus")))
    assert not environment.done
    assert not environment.execute(call("add", a=1, b=2)).is_error
    assert environment.done
    assert environment.state() == {}


def test_a_tool_that_no_simulator_has_is_refused_when_built():
    task = world()
    stray = ToolSchema(name="fly")
    with pytest.raises(DataError, match="Expected tool `fly` of task test/world to belong to GorillaFileSystem"):
        LiveEnvironment(dataclasses.replace(task, tools=(*task.tools, stray)))
    with pytest.raises(DataError, match="`fly`"):
        LiveEnvironment(dataclasses.replace(task, revealed_tools={0: (stray,)}))


def test_a_scenario_that_is_no_object_is_refused():
    with pytest.raises(DataError, match="to be an object"):
        LiveEnvironment(world(state={"GorillaFileSystem": [1]}))


@pytest.mark.parametrize("timeout_s", [0, -1.0])
def test_a_time_limit_that_is_not_positive_is_refused(timeout_s):
    with pytest.raises(ConfigError, match="`timeout_s`"):
        LiveEnvironment(world(), timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("tool", "arguments", "refused"),
    [
        ("power", {"base": 2, "exponent": 10}, False),
        ("power", {"base": 10**9, "exponent": 10**9}, True),
        ("power", {"base": -7, "exponent": 10**6}, True),
        ("power", {"base": 1, "exponent": 10**12}, False),
        ("power", {"base": 2, "exponent": -(10**12)}, False),
        ("power", {"base": 1e200, "exponent": 10**12}, False),
        ("square_root", {"number": 2, "precision": 50}, False),
        ("square_root", {"number": 2, "precision": 10**9}, True),
        ("logarithm", {"value": 2, "base": 3, "precision": 10**9}, True),
        ("round_number", {"number": 5, "decimal_places": -(10**9)}, True),
        ("logarithm", {"value": 10**9, "base": 10**9, "precision": 5}, False),
    ],
)
def test_only_calculations_without_end_are_refused(tool, arguments, refused):
    assert bool(refusal(tool, arguments)) == refused
