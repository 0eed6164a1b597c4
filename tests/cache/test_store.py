"""What is recorded comes back equal, in a fixed order, from a store whose digest says what it holds."""

import json
import sqlite3
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streakline.cache.canonical import call_key, canonical_arguments, canonical_text, entry_key
from streakline.cache.state import ToolKind, ToolTraits
from streakline.cache.store import AddReport, CacheStore, Entry, NewEntry, ToolRecord
from streakline.errors import CacheError

ENTRY = NewEntry(tool="find", arguments={"name": "a"}, result='["x"]', recorded_at=10.0)
EMPTY_DIGEST = "0" * 64


@pytest.fixture
def store():
    with CacheStore.open("cache.sqlite") as opened:
        yield opened


def call_of(entry):
    return call_key(entry.tool, canonical_text(entry.arguments))


def key_of(entry):
    return entry_key(call_of(entry), entry.state)


def without_id(entry):
    fields = ("tool", "arguments", "result", "is_error", "state", "source", "recorded_at", "count")
    return NewEntry(**{name: getattr(entry, name) for name in fields})


def test_an_entry_comes_back_with_all_fields(store):
    entry = replace(ENTRY, is_error=True, state=b"s" * 32, source="episode 7", recorded_at=1.7e9 + 0.1, count=3)
    assert store.add([entry]) == AddReport(added=1, duplicates=0, conflicts=0)
    found = store.exact(key_of(entry))
    assert found == store.get(1) == Entry(id=1, **{name: getattr(entry, name) for name in NewEntry.__slots__})
    assert store.num_entries == store.last_id == 1
    assert store.sources() == {"episode 7"}


@pytest.mark.parametrize(
    "result",
    [
        "",
        "\0",
        "a\0b",
        "\ud800",
        "\udfff\ud800 lone",
        "\U0001f600 \u00e9 e\u0301",
        '"quoted" \\u0041',
        "x" * 10_000_000,
        "[" * 100 + "]" * 100,
        "null",
        " 1 ",
        "'; DROP TABLE entries; --",
    ],
    ids=lambda result: repr(result[:20]),
)
def test_any_result_comes_back_equal(store, result):
    entry = replace(ENTRY, result=result, tool=result[:50], source=result[:50])
    store.add([entry])
    found = store.exact(key_of(entry))
    assert found.result == result
    assert found.source == result[:50]
    store.verify()


def test_surrogates_that_form_a_pair_come_back_as_their_character(store):
    store.add([replace(ENTRY, result="\ud83d\ude00")])
    assert store.get(1).result == "\U0001f600"


def test_arguments_nested_a_hundred_deep_come_back_equal(store):
    nested = "\ud800\0"
    for depth in range(99):
        nested = [nested] if depth % 2 else {"key": nested}
    entry = replace(ENTRY, arguments=canonical_arguments({"a": nested}))
    store.add([entry])
    assert store.exact(key_of(entry)).arguments == {"a": nested}


@settings(deadline=None, max_examples=40)
@given(st.text(st.characters()), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.binary())
def test_rows_read_back_as_written(tmp_path_factory, text, recorded_at, is_error, state):
    entry = NewEntry(tool=text, arguments={}, result=text, recorded_at=recorded_at, is_error=is_error, state=state)
    with CacheStore.open(tmp_path_factory.mktemp("rows") / "cache") as opened:
        opened.add([entry])
        found = opened.get(1)
    assert json.dumps(found.result) == json.dumps(text)
    assert (found.recorded_at, found.is_error, found.state) == (recorded_at, is_error, state)


def test_the_same_result_again_is_counted(store):
    later = replace(ENTRY, recorded_at=20.0, source="later", count=4)
    assert store.add([ENTRY, later]) == AddReport(added=1, duplicates=1, conflicts=0)
    assert store.get(1) == Entry(id=1, **{name: getattr(replace(later, count=5), name) for name in NewEntry.__slots__})
    store.add([ENTRY])
    assert (store.get(1).count, store.get(1).recorded_at, store.get(1).source) == (6, 20.0, "later")


def test_another_result_is_a_conflict_and_both_are_kept(store):
    other = replace(ENTRY, result="other")
    failed = replace(ENTRY, is_error=True)
    assert store.add([ENTRY, other, failed]) == AddReport(added=3, duplicates=0, conflicts=2)
    assert store.exact(key_of(ENTRY)).id == 1
    store.add([failed])
    assert store.exact(key_of(ENTRY)).id == 3
    assert [entry.id for entry in store.same_call(call_of(ENTRY))] == [3, 1, 2]


def test_a_state_is_part_of_the_exact_key_but_not_of_the_call(store):
    first, second = replace(ENTRY, state=b"1" * 32), replace(ENTRY, state=b"2" * 32, result="other")
    assert store.add([first, second]).conflicts == 0
    assert store.exact(key_of(first)).id == 1
    assert store.exact(key_of(second)).id == 2
    assert store.exact(key_of(ENTRY)) is None
    assert [entry.id for entry in store.same_call(call_of(ENTRY))] == [1, 2]


def test_entries_are_found_by_tool(store):
    store.add([replace(ENTRY, tool=tool, arguments={"n": n}) for n in range(3) for tool in ("a", "x\u00e9")])
    store.add([replace(ENTRY, tool="a", arguments={"n": 2})])
    assert [entry.id for entry in store.iterate()] == [1, 2, 3, 4, 5, 6]
    assert [entry.id for entry in store.iterate("xe\u0301")] == [2, 4, 6]
    assert [entry.id for entry in store.iterate("a")] == [1, 3, 5]
    assert store.most_frequent("a").id == 5
    assert store.most_frequent("xe\u0301").id == 2
    assert store.most_frequent("b") is None
    assert list(store.iterate("b")) == []


def test_all_pages_are_gone_through(store, monkeypatch):
    monkeypatch.setattr("streakline.cache.store._PAGE", 2)
    for number in range(5):
        store.add([replace(ENTRY, arguments={"n": number})])
        assert [entry.id for entry in store.iterate()] == list(range(1, number + 2))


def test_entries_added_while_iterating_do_no_harm(store):
    store.add([ENTRY, replace(ENTRY, arguments={"n": 1})])
    for entry in store.iterate():
        store.add([without_id(entry)])
    assert [entry.count for entry in store.iterate()][:2] == [2, 2]


def test_tools_are_known_by_their_entries_or_their_records(store):
    record = ToolRecord(
        traits=ToolTraits(kind=ToolKind.STATEFUL, state="files", writes=True), parameters={"properties": {"a": {}}}
    )
    store.set_tool("move", record)
    store.add([ENTRY, replace(ENTRY, tool="move")])
    assert store.tools() == {"find": ToolRecord(), "move": record}
    store.set_tool("find", record)
    store.set_tool("move", ToolRecord())
    assert store.tools() == {"find": record, "move": ToolRecord()}
    store.update_tools(lambda known: {"copy": known["find"], "find": known["move"]})
    assert store.tools() == {"copy": record, "find": ToolRecord(), "move": ToolRecord()}
    store.verify()


def test_the_newest_result_gives_the_time(store):
    assert store.newest == 0.0
    store.add([replace(ENTRY, recorded_at=2.5), replace(ENTRY, result="other", recorded_at=1.5)])
    assert store.newest == 2.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 0}, "`count` >= 1"),
        ({"recorded_at": float("nan")}, "finite `recorded_at`"),
        ({"arguments": {"a": float("inf")}}, "to be canonical"),
        ({"arguments": {"a": {1}}}, "to be canonical"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused_with_all_others(store, change, message):
    with pytest.raises(CacheError, match=message):
        store.add([ENTRY, replace(ENTRY, **change)])
    assert store.num_entries == 0
    assert store.digest() == EMPTY_DIGEST


def test_a_schema_that_is_no_json_is_refused(store):
    with pytest.raises(CacheError, match="to be a JSON Schema"):
        store.set_tool("find", ToolRecord(parameters={"default": float("nan")}))
    assert store.tools() == {}


def test_an_error_while_adding_leaves_nothing_behind(store):
    def entries():
        yield ENTRY
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add(entries())
    assert store.num_entries == 0
    assert store.add([ENTRY]).added == 1


ANY_ENTRY = st.builds(
    NewEntry,
    tool=st.sampled_from(["a", "b"]),
    arguments=st.dictionaries(st.sampled_from("xy"), st.integers(0, 1), max_size=1),
    result=st.sampled_from(["1", "2"]),
    is_error=st.booleans(),
    state=st.sampled_from([b"", b"s"]),
    source=st.sampled_from(["", "e1", "e2"]),
    recorded_at=st.sampled_from([-1.0, 0.0, 1.5]),
    count=st.integers(1, 3),
)
ADDS = st.lists(st.lists(ANY_ENTRY, max_size=4), max_size=4)
TOOL_RECORDS = st.dictionaries(
    st.sampled_from(["a", "c"]), st.builds(ToolRecord, parameters=st.none() | st.just({"a": 1})), max_size=2
)


def digests_after(path, adds, records):
    with CacheStore.open(path) as opened:
        for entries in adds:
            opened.add(entries)
        for name, record in records.items():
            opened.set_tool(name, record)
        opened.verify()
        return opened.digest(), sorted(map(repr, map(without_id, opened.iterate())))


@settings(deadline=None, max_examples=40)
@given(ADDS, TOOL_RECORDS, st.randoms(use_true_random=False))
def test_the_digest_is_that_of_the_contents_in_any_order(tmp_path_factory, adds, records, random):
    folder = tmp_path_factory.mktemp("digest")
    first = digests_after(folder / "first", adds, records)
    entries = [entry for batch in adds for entry in batch]
    random.shuffle(entries)
    assert digests_after(folder / "second", [entries[:3], entries[3:]], dict(reversed(records.items()))) == first


@pytest.mark.parametrize(
    "change",
    [
        {"tool": "other"},
        {"arguments": {"name": "b"}},
        {"result": "other"},
        {"is_error": True},
        {"state": b"s"},
        {"source": "episode"},
        {"recorded_at": 11.0},
        {"count": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_digest_differs_when_anything_differs(change):
    tools = {"find": ToolRecord(), "other": ToolRecord()}
    first, second = (
        digests_after("first", [[ENTRY]], tools),
        digests_after("second", [[replace(ENTRY, **change)]], tools),
    )
    assert first[0] != second[0]


def test_the_digest_differs_when_a_tool_differs():
    records = [
        {},
        {"a": ToolRecord()},
        {"b": ToolRecord()},
        {"a": ToolRecord(parameters={})},
        {"a": ToolRecord(traits=ToolTraits(kind=ToolKind.VOLATILE))},
    ]
    digests = {digests_after(f"store{number}", [], record)[0] for number, record in enumerate(records)}
    assert len(digests) == len(records)


def test_a_read_only_store_serves_and_refuses_to_be_written(store):
    store.add([ENTRY])
    with CacheStore.open("cache.sqlite", read_only=True) as frozen:
        assert frozen.exact(key_of(ENTRY)) == frozen.exact(key_of(ENTRY)) == store.get(1)
        for write in (lambda: frozen.add([ENTRY]), lambda: frozen.set_tool("find", ToolRecord())):
            with pytest.raises(CacheError, match="to be open for writing"):
                write()


def test_a_read_only_store_does_not_see_later_writes(store):
    store.add([ENTRY])
    with CacheStore.open("cache.sqlite", read_only=True) as frozen:
        digest = frozen.digest()
        store.add([replace(ENTRY, result="other", count=9)])
        assert frozen.exact(key_of(ENTRY)).result == ENTRY.result
        assert frozen.num_entries == 1
        frozen.verify()
        assert frozen.digest() == digest != store.digest()


def test_a_store_sees_what_another_writes(store):
    with CacheStore.open("cache.sqlite") as other:
        other.add([ENTRY])
        assert store.exact(key_of(ENTRY)).count == 1
        other.add([ENTRY])
        assert store.exact(key_of(ENTRY)).count == 2


def test_a_store_in_a_folder_that_cannot_be_written_is_served(store, tmp_path, monkeypatch):
    store.add([ENTRY])
    store.close()
    monkeypatch.setattr("os.access", lambda *_: False)
    with CacheStore.open("cache.sqlite", read_only=True) as frozen:
        assert frozen.exact(key_of(ENTRY)).id == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cache.sqlite"]


def test_folders_are_made_for_a_new_store(tmp_path):
    with CacheStore.open(tmp_path / "a" / "b%20 #?.sqlite") as opened:
        opened.add([ENTRY])
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b%20 #?.sqlite"]


def test_values_are_json_that_any_sqlite_reads(store):
    store.add([replace(ENTRY, result="x\u00e9\0")])
    with sqlite3.connect("cache.sqlite") as connection:
        row = connection.execute("SELECT tool, arguments, result, source FROM entries").fetchone()
    connection.close()
    assert [json.loads(text) for text in row] == ["find", {"name": "a"}, "x\u00e9\0", ""]


def test_to_enter_a_tool_no_other_is_read(tmp_path, monkeypatch):
    """Else a file of conversations with many tools would take the square of their number."""
    with CacheStore.open(tmp_path / "c.db") as store:
        store.set_tool("a", ToolRecord())
        monkeypatch.setattr(CacheStore, "tools", None)
        store.set_tool("b", ToolRecord())
        store.set_tool("a", ToolRecord(parameters={"type": "object"}))
        monkeypatch.undo()
        assert store.tools()["a"].parameters == {"type": "object"}
        store.verify()
