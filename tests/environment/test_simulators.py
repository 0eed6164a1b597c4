import importlib.util
import inspect
import json
import subprocess
import sys
import time

import pytest
from tests.fixtures.worlds import FILES

from streakline.environment.clock import frozen_clock, parse_clock
from streakline.environment.simulators import (
    SIMULATORS,
    bfcl_folder,
    create_simulator,
    read_tool_schemas,
    state_digest,
    state_snapshot,
    to_plain,
    tool_functions,
    tool_schemas,
)
from streakline.errors import ConfigError, DataError, MissingDependencyError


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_every_described_tool_exists_and_takes_the_described_arguments(simulator):
    functions = tool_functions(simulator)
    for schema in tool_schemas(simulator):
        parameters = list(inspect.signature(functions[schema.name]).parameters.values())[1:]
        assert {parameter.name for parameter in parameters} == set(schema.parameters["properties"]), schema.name
        needed = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
        assert needed <= set(schema.parameters["required"]), schema.name


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_schemas_use_json_schemas_types_only(simulator):
    text = json.dumps([schema.parameters for schema in tool_schemas(simulator)])
    assert not any(f'"type": "{name}"' in text for name in ("dict", "float", "tuple", "any"))


def test_the_brief_schema_leaves_out_the_application():
    full, brief = tool_schemas("GorillaFileSystem")[0], tool_schemas("GorillaFileSystem", brief=True)[0]
    assert full.description.endswith(brief.description)
    assert brief.description == (
        "Display the contents of a file of any extension from currrent directory."  # codespell:ignore currrent
    )
    assert full.parameters == brief.parameters


def test_private_methods_are_no_tools():
    assert not any(name.startswith("_") for simulator in SIMULATORS for name in tool_functions(simulator))


def test_instances_share_nothing_with_each_other_or_the_scenario():
    scenario = {"tweets": {}, "tweet_counter": 0, "username": "ann", "password": "x", "authenticated": True}
    before = json.dumps(scenario)
    first, second = (create_simulator("TwitterAPI", scenario=scenario) for _ in range(2))
    tool_functions("TwitterAPI")["post_tweet"](first, content="Hello")
    assert state_snapshot(second)["tweets"] == {}
    assert json.dumps(scenario) == before
    assert state_snapshot(create_simulator("TwitterAPI", scenario={})) != state_snapshot(first)


def test_the_padding_of_long_context_is_not_shared():
    def booked():
        travel = create_simulator("TravelAPI", scenario={"access_token": "1"}, long_context=True)
        card = vars(travel)["credit_card_list"]["1234567812345678"]
        card["balance"] -= 1000
        return card["balance"]

    assert booked() == booked() == 4000.0


def test_time_stamps_of_trades_do_not_depend_on_the_machines_time_zone(monkeypatch):
    def traded(zone):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        bot = create_simulator("TradingBot", scenario={"authenticated": True})
        tool_functions("TradingBot")["fund_account"](bot, amount=5.0)
        return state_snapshot(bot)["transaction_history"]

    try:
        assert traded("UTC") == traded("America/New_York") == traded("Pacific/Auckland") != []
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(("clock", "grown_up"), [("2020-01-01T00:00:00", False), ("2030-01-01T00:00:00", True)])
def test_ages_follow_the_frozen_clock(clock, grown_up):
    travel = create_simulator("TravelAPI", scenario={"user_first_name": "Ann", "user_last_name": "Lee"})
    with frozen_clock(parse_clock(clock)):
        result = tool_functions("TravelAPI")["verify_traveler_information"](
            travel, first_name="Ann", last_name="Lee", date_of_birth="2010-06-01", passport_number="US123456"
        )
    assert result["verification_status"] is grown_up


def test_a_file_is_stamped_with_the_frozen_clock():
    with frozen_clock(parse_clock("2001-02-03T04:05:06")):
        files = create_simulator("GorillaFileSystem", scenario=FILES["GorillaFileSystem"])
    node = vars(vars(files)["root"])["contents"]["notes.txt"]
    assert vars(node)["_last_modified"].isoformat() == "2001-02-03T04:05:06"


def test_a_snapshot_is_plain_json_with_the_file_tree_and_without_private_fields():
    files = create_simulator("GorillaFileSystem", scenario=FILES["GorillaFileSystem"])
    snapshot = state_snapshot(files)
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert snapshot == {
        "long_context": False,
        "root": {
            "type": "directory",
            "name": "workspace",
            "contents": {
                "notes.txt": {"type": "file", "name": "notes.txt", "content": "one\ntwo\nthree"},
                "archive": {"type": "directory", "name": "archive", "contents": {}},
            },
        },
    }


def test_snapshots_differ_exactly_where_upstream_sees_a_difference():
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import _compare_instances

    functions = tool_functions("GorillaFileSystem")
    histories = [
        [],
        [("ls", {})],
        [("cd", {"folder": "archive"})],
        [("touch", {"file_name": "a"})],
        [("touch", {"file_name": "a"}), ("rm", {"file_name": "a"})],
        [("echo", {"content": "new", "file_name": "notes.txt"})],
        [("mv", {"source": "notes.txt", "destination": "archive"})],
    ]
    worlds = []
    for history in histories:
        worlds.append(create_simulator("GorillaFileSystem", scenario=FILES["GorillaFileSystem"]))
        for name, arguments in history:
            functions[name](worlds[-1], **arguments)
    for one in worlds:
        for other in worlds:
            assert (state_snapshot(one) == state_snapshot(other)) == _compare_instances(one, other)[0]


def test_a_directory_copied_into_itself_has_a_snapshot():
    files = create_simulator("GorillaFileSystem", scenario=FILES["GorillaFileSystem"])
    tool_functions("GorillaFileSystem")["cp"](files, source="archive", destination="archive")
    assert '"cycle"' in json.dumps(state_snapshot(files))


def test_the_digest_ignores_key_order_and_integral_floats():
    assert state_digest({"a": 1, "b": [2.0]}) == state_digest({"b": [2], "a": 1.0})
    assert state_digest({"a": 1}) != state_digest({"a": 2})
    assert state_digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_values_without_a_json_form_become_text():
    assert to_plain({1: {2, 1}, "x": (1, None), "y": 3j}) == {"1": [1, 2], "x": [1, None], "y": "3j"}


def test_an_unknown_simulator_is_refused():
    with pytest.raises(ConfigError, match="Expected a simulator among GorillaFileSystem"):
        create_simulator("WebSearchAPI", scenario={})


def test_a_scenario_that_cannot_be_loaded_is_refused():
    with pytest.raises(DataError, match="scenario that GorillaFileSystem can load"):
        create_simulator("GorillaFileSystem", scenario={"root": {"x": {"contents": {"y": {}}}}})


def test_a_malformed_schema_file_is_named_with_its_line(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text('{"name": "a", "description": "b", "parameters": {"type": "dict"}}\n{"name": "c"}\n')
    with pytest.raises(DataError, match=r"tools\.json:2"):
        read_tool_schemas(path)
    with pytest.raises(DataError, match="tool schema file"):
        read_tool_schemas(tmp_path / "none.json")


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install --no-deps -r requirements/no-deps\.txt"):
        bfcl_folder()


def test_no_vendor_sdk_and_no_model_table_is_imported():
    program = (
        "import sys; from streakline.environment.simulators import SIMULATORS, tool_functions\n"
        "for name in SIMULATORS: tool_functions(name)\n"
        "sdks = {'openai', 'anthropic', 'torch', 'requests'}\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in sdks or 'model_' in m]\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
