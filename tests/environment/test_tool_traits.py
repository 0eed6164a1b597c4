import dataclasses
import random
from datetime import datetime

from tests.fixtures.episodes import call
from tests.fixtures.worlds import world

from streakline.cache.state import ToolKind, ToolTraits
from streakline.cache.store import CacheStore, ToolRecord
from streakline.environment.live import LiveEnvironment
from streakline.environment.simulators import SIMULATORS, create_simulator, tool_schemas
from streakline.environment.tool_traits import declare_tools, fingerprint, initial_state, writing_tools


class Box:
    def __init__(self, **attributes):
        vars(self).update(attributes)


def test_equal_instances_have_equal_fingerprints():
    for name in SIMULATORS:
        made = [fingerprint(create_simulator(name, scenario={}, long_context=True)) for _ in range(2)]
        assert made[0] == made[1]


def test_whatever_an_instance_holds_is_in_its_fingerprint():
    shared = [1]
    drawn = random.Random(0)
    drawn.random()
    boxes = [
        Box(),
        Box(a=1),
        Box(a=1.0),
        Box(a=True),
        Box(a="1"),
        Box(_a=1),
        Box(a=None),
        Box(a=[]),
        Box(a={}),
        Box(a=()),
        Box(a={"x": 1, "y": 2}),
        Box(a={"y": 2, "x": 1}),
        Box(a=[1, [2]]),
        Box(a=[[1], 2]),
        Box(a=[shared, shared]),
        Box(a=[shared, [1]]),
        Box(a=Box(b=1)),
        Box(a=Box(b=2)),
        Box(a=random.Random(0)),
        Box(a=drawn),
        Box(a=datetime(2026, 1, 1)),
        Box(a=datetime(2026, 1, 2)),
        Box(a={1, 2}),
    ]
    assert len({fingerprint(box) for box in boxes}) == len(boxes)
    assert fingerprint(Box(a={"x", "y", "z"})) == fingerprint(Box(a={"z", "y", "x"}))


def test_cycles_and_any_depth_have_a_fingerprint():
    loop = Box()
    loop.me = loop
    deep = []
    for _ in range(5_000):
        deep = [deep]
    assert fingerprint(loop) != fingerprint(Box(me=Box()))
    assert fingerprint(Box(a=deep)) != fingerprint(Box(a=[]))
    while deep:  # or freeing it would take a stack frame for each level
        deep = deep.pop()


def test_the_initial_state_is_all_that_a_simulator_is_made_of():
    base = world("GorillaFileSystem", "MathAPI")
    tasks = [
        base,
        dataclasses.replace(base, initial_state={}),
        dataclasses.replace(base, clock="2026-01-01T09:00:01"),
        dataclasses.replace(base, long_context=True),
    ]
    digests = {initial_state(task, name) for task in tasks for name in base.simulators}
    assert len(digests) == 7  # that of MathAPI has no scenario in either of the first two
    assert initial_state(base, "MathAPI") == initial_state(dataclasses.replace(base, id="other"), "MathAPI")


def test_writing_tools_are_those_that_change_something():
    calls = (call("ls"), call("cd", folder="archive"), call("touch", file_name="a"), call("mean", numbers=[1, 2]))
    failing = (call("cat", file_name="gone"), call("rm", file_name="gone"))
    task = world("GorillaFileSystem", "MathAPI", gold=(calls, failing))
    assert writing_tools(task) == {"cd", "touch"}


def test_a_private_change_is_a_write():
    task = world("TravelAPI", state={}, gold=((call("authenticate_travel", **LOGIN), call("list_all_airports")),))
    assert writing_tools(task) == {"authenticate_travel"}
    fare = {"travel_from": "SFO", "travel_to": "LAX", "travel_date": "2026-05-01", "travel_class": "economy"}
    assert writing_tools(world("TravelAPI", state={}, gold=((call("get_flight_cost", **fare),),))) == {
        "get_flight_cost"
    }


LOGIN = {
    "client_id": "a",
    "client_secret": "b",
    "refresh_token": "c",
    "grant_type": "read_write",
    "user_first_name": "d",
    "user_last_name": "e",
}


def test_tools_are_declared_by_whether_their_simulator_keeps_a_state(tmp_path):
    with CacheStore.open(tmp_path / "cache.db") as store:
        declare_tools(store, ["GorillaFileSystem", "MathAPI"], writing={"cd"})
        tools = store.tools()
        assert tools["mean"].traits == ToolTraits()
        assert tools["ls"].traits == ToolTraits(kind=ToolKind.STATEFUL, state="GorillaFileSystem")
        assert tools["cd"].traits == ToolTraits(kind=ToolKind.STATEFUL, state="GorillaFileSystem", writes=True)
        declare_tools(store, ["GorillaFileSystem", "MathAPI"])
        assert store.tools() == tools
        declare_tools(store, ["GorillaFileSystem"], writing={"rm"})
        assert {name for name, record in store.tools().items() if record.traits.writes} == {"cd", "rm"}


def test_a_tool_that_was_recorded_as_pure_becomes_stateful_and_a_volatile_one_stays(tmp_path):
    volatile = ToolRecord(traits=ToolTraits(kind=ToolKind.VOLATILE))
    with CacheStore.open(tmp_path / "cache.db") as store:
        store.set_tool("ls", ToolRecord())
        store.set_tool("cd", volatile)
        declare_tools(store, ["GorillaFileSystem"], writing={"cd"})
        assert store.tools()["ls"].traits.state == "GorillaFileSystem"
        assert store.tools()["cd"] == volatile


def test_only_defaults_that_the_tool_really_takes_are_left_out_of_calls(tmp_path):
    """BFCL's schemas give "None", a text, where the function takes None: `status="None"` finds no ticket."""
    (schema,) = [schema for schema in tool_schemas("TicketAPI") if schema.name == "get_user_tickets"]
    assert schema.parameters["properties"]["status"]["default"] == "None"
    with CacheStore.open(tmp_path / "cache.db") as store:
        declare_tools(store, ["TicketAPI", "GorillaFileSystem", "TwitterAPI"])
        tools = store.tools()
    assert "default" not in tools["get_user_tickets"].parameters["properties"]["status"]
    assert tools["ls"].parameters["properties"]["a"]["default"] is False
    # A tweet without mentions shares its list with the others of its world; one with mentions [] has its own.
    assert "default" not in tools["post_tweet"].parameters["properties"]["mentions"]
    login = call("ticket_login", username="u", password="p")
    new = call("create_ticket", title="t")
    task = world("TicketAPI", state={})
    contents = []
    for listing in (call("get_user_tickets"), call("get_user_tickets", status="None")):
        environment = LiveEnvironment(task)
        contents.append([environment.execute(item).content for item in (login, new, listing)][-1])
    assert contents[0] != contents[1]
