import json

import pytest
from tests.fixtures.worlds import world

from streakline.cache.state import ToolKind, ToolTraits
from streakline.cache.store import CacheStore
from streakline.data.cache_build import BuildReport, ConversationRecorder, paired_results, record_gold
from streakline.environment.cached import CachedTools
from streakline.environment.live import LiveEnvironment
from streakline.errors import ConfigError, DataError
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Message, Role, Tier, ToolCall

FILES = {name: ToolTraits(kind=ToolKind.STATEFUL, state="files", writes=name == "touch") for name in ("ls", "touch")}


def call(name, arguments, call_id=""):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def row(*exchanges):
    """A conversation of calls with their results."""
    messages = [{"role": "user", "content": "Go."}]
    for name, arguments, result in exchanges:
        messages.append({"role": "assistant", "content": "", "tool_calls": [call(name, arguments)]})
        messages.append({"role": "tool", "content": result})
    return {"messages": messages}


def write(path, rows):
    path.write_text("".join(f"{item if isinstance(item, str) else json.dumps(item)}\n" for item in rows))
    return path


@pytest.fixture
def store(tmp_path):
    with CacheStore.open(tmp_path / "cache.sqlite") as opened:
        yield opened


def record(store, path, **options):
    recorder = ConversationRecorder(store, recorded_at=1.0, **options)
    assert list(recorder.record(path))
    return recorder.report


def test_calls_are_paired_with_results_by_id_whatever_their_order():
    calls = (ToolCall(name="a", id="1"), ToolCall(name="b", id="2"), ToolCall(name="c", id="3"))
    results = [Message(role=Role.TOOL, content=text, tool_call_id=text) for text in ("3", "1")]
    messages = [Message(role=Role.ASSISTANT, tool_calls=calls), *results, Message(role=Role.USER, content="2")]
    paired = [(made.name, answer and answer.content) for made, answer in paired_results(messages)]
    assert paired == [("a", "1"), ("b", None), ("c", "3")]


def test_calls_without_ids_are_paired_with_results_in_order():
    calls = (ToolCall(name="a"), ToolCall(name="b"), ToolCall(name="c"))
    results = [Message(role=Role.TOOL, content=text) for text in ("first", "second")]
    paired = paired_results([Message(role=Role.ASSISTANT, tool_calls=calls), *results])
    assert [(made.name, answer and answer.content) for made, answer in paired] == [
        ("a", "first"),
        ("b", "second"),
        ("c", None),
    ]


def test_malformed_lines_are_named_by_file_and_line_and_left_out(store, tmp_path):
    good = row(("add", {"a": 1, "b": 2}, "3"))
    rows = [good, '{"messages": [', '{"messages": 3}', "[]", row(("add", "[1, 2]", "3")), row(("add", {"a": 5}, "5"))]
    path = write(tmp_path / "rows.jsonl", rows)
    report = record(store, path)
    assert (report.added, report.calls) == (2, 2)
    assert [f"{path}, line {number}" in fault for number, fault in zip((2, 3, 4, 5), report.faults, strict=True)] == (
        [True] * 4
    )


@pytest.mark.parametrize("default", ["NaN", "1e999", "[" * 980 + "]" * 980], ids=["nan", "infinite", "deep"])
def test_a_schema_that_the_store_cannot_hold_leaves_out_its_line_alone(store, tmp_path, default):
    tool = {"function": {"name": "add", "parameters": {"properties": {"a": {"default": 0.5}}}}}
    bad = json.dumps({**row(("add", {"a": 1}, "1")), "tools": [tool]}).replace("0.5", default)
    report = record(store, write(tmp_path / "rows.jsonl", [bad, row(("add", {"a": 2}, "2"))]))
    assert report.added == 1
    assert len(report.faults) == 1
    assert f"{tmp_path}/rows.jsonl, line 1" in report.faults[0]


def test_a_known_line_is_told_by_its_content(store, tmp_path):
    paths = [tmp_path / folder / "rows.jsonl" for folder in ("one", "two")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        report = record(store, write(path, [row(("ls", {}, str(number)))]), traits=FILES)
        assert (report.added, report.known_lines) == (1, 0)
    write(paths[0], [row(("ls", {}, "0")), row(("ls", {}, "0"))])
    report = record(store, paths[0], traits=FILES)
    assert (report.added, report.known_lines) == (1, 1)
    assert len({entry.state for entry in store.iterate()}) == 3


def test_a_known_tool_can_be_declared_volatile_but_gets_no_other_state(store, tmp_path):
    path = write(tmp_path / "rows.jsonl", [row(("now", {}, "1")), row(("now", {}, "2"))])
    record(store, path)
    record(store, path, traits={"now": ToolTraits(kind=ToolKind.VOLATILE)})
    assert store.tools()["now"].traits.kind is ToolKind.VOLATILE
    with pytest.raises(ConfigError, match=r"Expected traits of `now` as its results were recorded with"):
        record(store, path, traits={"now": FILES["ls"]})


def test_a_missing_file_is_named(store, tmp_path):
    with pytest.raises(DataError, match=r"nothing\.jsonl"):
        list(ConversationRecorder(store, recorded_at=0.0).record(tmp_path / "nothing.jsonl"))


def test_the_same_result_is_a_duplicate_and_another_a_conflict(store, tmp_path):
    rows = [row(("now", {}, "1")), row(("now", {}, "1")), row(("now", {}, "2")), row(("add", {"a": 1.0}, "1"))]
    report = record(store, write(tmp_path / "rows.jsonl", rows))
    assert (report.added, report.duplicates, report.conflicts) == (3, 1, 1)
    assert store.conflicts() == {"now": 1}


def test_errors_are_recorded_as_such(store, tmp_path):
    record(store, write(tmp_path / "rows.jsonl", [row(("ls", {}, '{"error": "none"}'), ("ls", {"a": 1}, "error"))]))
    assert [entry.is_error for entry in store.iterate()] == [True, False]


def test_a_declared_state_moves_with_successful_writes_and_differs_between_conversations(store, tmp_path):
    story = [("ls", {}, "[]"), ("touch", {"f": "a"}, "{}"), ("ls", {}, '["a"]'), ("touch", {"f": ""}, '{"error": "?"}')]
    record(store, write(tmp_path / "rows.jsonl", [row(*story, ("ls", {}, '["a"]')), row(*story[:1])]), traits=FILES)
    first, _, second, _, other = [entry.state for entry in store.iterate()]
    entries = list(store.iterate("ls"))
    assert len({first, second, other}) == 3
    assert [entry.count for entry in entries] == [1, 2, 1]


def test_a_build_that_was_stopped_goes_on_to_the_same_store(tmp_path):
    rows = [row(("add", {"a": number % 120}, str(number % 120))) for number in range(250)]
    path = write(tmp_path / "rows.jsonl", rows)
    digests = []
    for name, stops in (("whole", 0), ("stopped", 2)):
        with CacheStore.open(tmp_path / name) as store:
            for _ in range(stops):
                next(ConversationRecorder(store, recorded_at=1.0).record(path))
            report = record(store, path)
            digests.append(store.digest())
            assert report.known_lines == (100 if stops else 0)
    assert digests[0] == digests[1]


def test_gold_calls_are_exact_later_and_answer_as_the_live_tools_do(store):
    tasks = [*ToolWorldTaskSet(12, split="train", user_turns=(1, 2)), *BFCLTaskSet("multi_turn_base", limit=3)]
    report = BuildReport()
    assert len(list(record_gold(store, tasks, report=report))) == len(tasks)
    frozen = CachedTools(str(store.path))
    for task in tasks:
        cached, live = frozen(task), LiveEnvironment(task, timeout_s=None)
        for index, steps in enumerate(task.gold):
            for environment in (cached, live):
                environment.begin_user_turn(index)
            for made in (made for calls in steps for made in calls):
                served = cached.execute(made)
                assert served.tier is Tier.EXACT
                assert served.content == live.execute(made).content
    frozen.close()
    assert report.added == store.num_entries > 0
    assert report.duplicates == report.calls - report.added


def test_gold_that_is_recorded_twice_changes_nothing(store):
    tasks = [*ToolWorldTaskSet(6, split="train"), world()]
    list(record_gold(store, tasks, report=BuildReport()))
    digest, again = store.digest(), BuildReport()
    list(record_gold(store, tasks, report=again))
    assert store.digest() == digest
    assert (again.added, again.duplicates) == (0, again.calls)
