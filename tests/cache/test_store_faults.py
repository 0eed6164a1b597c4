"""Kills, full disks, damage and several writers: what was committed is there, and no wrong result is ever served."""

import json
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from streakline.cache import database
from streakline.cache.canonical import call_key, canonical_text, entry_key
from streakline.cache.state import ToolKind, ToolTraits
from streakline.cache.store import CacheStore, NewEntry, ToolRecord
from streakline.errors import CacheError

_ENTRY_OF = """
import json, os, random, resource, signal, sys, time
from streakline.cache.canonical import call_key, canonical_text
from streakline.cache.store import CacheStore, NewEntry
from streakline.errors import CacheError

def entry(writer, number, size=20):
    return NewEntry(tool="t", arguments={"w": writer, "n": number}, result=f"{number} " * size, recorded_at=number)

def key(writer, number):
    return call_key("t", canonical_text({"w": writer, "n": number}))
"""


def run(script):
    """Run a script in a process of its own, which may fork: it has one thread. Gives what it printed as JSON."""
    done = subprocess.run([sys.executable, "-c", _ENTRY_OF + script], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_writer_killed_at_fifty_points_loses_nothing_that_it_had_announced():
    report = run("""
random.seed(0)
present, announced = 0, 0
for turn in range(50):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        store = CacheStore.open("cache.sqlite")
        for number in range(10**6):
            store.add([entry(turn, 2 * number, size=random.choice([1, 5000])), entry(turn, 2 * number + 1)])
            os.write(writer, b".")
    os.close(writer)
    wanted = random.randrange(6)
    pieces = [os.read(reader, 1) for _ in range(wanted)]
    time.sleep(random.random() * 0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pieces.extend(iter(lambda: os.read(reader, 4096), b""))
    os.close(reader)
    committed = sum(map(len, pieces))
    assert committed >= wanted
    with CacheStore.open("cache.sqlite", read_only=bool(turn % 2) and os.path.exists("cache.sqlite")) as store:
        store.verify()
        added = store.num_entries - present
        assert added % 2 == 0 and added // 2 in (committed, committed + 1)
        for number in range(added):
            assert store.exact(key(turn, number)).result.startswith(f"{number} ")
        present, announced = store.num_entries, announced + committed
print(json.dumps([turn + 1, present, announced]))
""")
    kills, present, announced = report
    assert kills == 50
    assert present >= 2 * announced > 100


def test_eight_writers_at_once_lose_nothing():
    report = run("""
children = []
for writer in range(8):
    child = os.fork()
    if child == 0:
        with CacheStore.open("cache.sqlite") as store:
            reports = [store.add([entry(writer, number), entry("all", number)]) for number in range(25)]
        os._exit(0 if sum(report.added + report.duplicates for report in reports) == 50 else 1)
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
with CacheStore.open("cache.sqlite", read_only=True) as store:
    store.verify()
    counts = [store.exact(key("all", number)).count for number in range(25)]
    own = [store.exact(key(writer, number)).count for writer in range(8) for number in range(25)]
    print(json.dumps([codes, counts, own, store.num_entries]))
""")
    assert report == [[0] * 8, [8] * 25, [1] * 200, 225]
    assert [path.name for path in Path().iterdir() if not path.name.endswith(("-wal", "-shm"))] == ["cache.sqlite"]


def test_a_full_disk_is_said_and_leaves_the_store_intact():
    said, before, after, count = run("""
with CacheStore.open("cache.sqlite") as store:
    store.add([entry(0, number) for number in range(5)])
    before = store.digest()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    said = []
    try:
        store.add([entry(0, number, size=2000) for number in range(5, 500)])
    except CacheError as error:
        said.append(str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.verify()
    after = store.digest()
    store.add([entry(0, 5)])
with CacheStore.open("cache.sqlite") as store:
    store.verify()
    print(json.dumps([said, before, after, store.num_entries]))
""")
    assert len(said) == 1
    assert said[0].startswith("Expected room to write `cache.sqlite`, but got: ")
    assert "what had been recorded is intact" in said[0]
    assert before == after
    assert count == 6


def test_a_full_database_is_said_and_leaves_the_store_intact():
    with CacheStore.open("cache.sqlite") as store:
        store.add([NewEntry(tool="t", arguments={}, result="first", recorded_at=0)])
        digest = store.digest()
        store._connection.execute("PRAGMA max_page_count = 20")
        with pytest.raises(CacheError, match=r"Expected room to write `cache.sqlite`, but got: .* full"):
            store.add([NewEntry(tool="t", arguments={"n": 1}, result="x" * 100_000, recorded_at=0)])
        store.verify()
        assert store.digest() == digest
        assert store.num_entries == 1


def test_a_disk_that_is_full_from_the_start_is_said():
    assert run("""
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    CacheStore.open("cache.sqlite")
except CacheError as error:
    print(json.dumps([str(error), os.listdir()]))
""") == ["Expected room to write `cache.sqlite`, but got: disk I/O error; what had been recorded is intact", []]


def test_a_store_that_stays_locked_is_said(monkeypatch):
    monkeypatch.setattr("streakline.cache.database._BUSY_TIMEOUT_S", 0.05)
    with CacheStore.open("cache.sqlite") as store:
        other = sqlite3.connect("cache.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CacheError, match=r"Expected to use `cache.sqlite`, but got: database is locked"):
            store.add([])
        other.close()
        assert store.add([]).added == 0


def entries():
    made = [
        NewEntry(
            tool=f"tool_{number % 5}", arguments={"n": number % 40}, result=f"result {number} " * 5, recorded_at=number
        )
        for number in range(120)
    ]
    made += [
        NewEntry(tool="read", arguments={}, result=f"{n}", state=bytes([n]) * 32, recorded_at=n) for n in range(20)
    ]
    return [*made, *made[:30], NewEntry(tool="long", arguments={}, result="long " * 5000, recorded_at=0, source="one")]


def answers(store):
    """All that a store can be asked for."""
    made = entries()
    calls = {call_key(entry.tool, canonical_text(entry.arguments)) for entry in made}
    keys = {entry_key(call_key(entry.tool, canonical_text(entry.arguments)), entry.state) for entry in made}
    return [
        [store.exact(key) for key in sorted(keys)],
        [store.exact(bytes([n]) * 32) for n in range(0, 256, 8)],
        [store.same_call(call) for call in sorted(calls)],
        [store.most_frequent(f"tool_{n}") for n in range(5)],
        [entry for n in range(5) for entry in store.iterate(f"tool_{n}")],
        list(store.iterate()),
        store.tools(),
        store.sources(),
        [store.digest(), store.num_entries, store.last_id],
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a store, and all its answers."""
    path = tmp_path_factory.mktemp("whole") / "cache.sqlite"
    with CacheStore.open(path) as store:
        store.add(entries())
        traits = ToolTraits(kind=ToolKind.STATEFUL, state="files")
        store.set_tool("read", ToolRecord(traits=traits, parameters={"properties": {"n": {"type": "integer"}}}))
        expected = answers(store)
    return path.read_bytes(), expected


def outcome(content, expected):
    """Open a file with this content: "right" answers or one "error" that says how to rebuild, nothing else."""
    for name in ("cache.sqlite", "cache.sqlite-wal", "cache.sqlite-shm"):
        Path(name).unlink(missing_ok=True)
    Path("cache.sqlite").write_bytes(content)
    said = ""
    try:
        with CacheStore.open("cache.sqlite", read_only=True) as store:
            found = answers(store)
    except CacheError as error:
        said = str(error)
    if not said:
        assert found == expected
        return "right"
    assert "`cache.sqlite`" in said
    assert "to rebuild it, move the file away and run `python tools/build_cache.py`" in said
    assert "\n" not in said
    return "error"


def test_a_flipped_bit_never_leads_to_a_wrong_answer(whole):
    content, expected = whole
    draw = random.Random(0)
    offsets = [*range(100), *(draw.randrange(len(content)) for _ in range(200))]
    outcomes = []
    for offset in offsets:
        damaged = bytearray(content)
        damaged[offset] ^= 1 << draw.randrange(8)
        outcomes.append(outcome(bytes(damaged), expected))
    assert outcome(content, expected) == "right"
    assert outcomes.count("error") > 100


def test_a_large_file_is_checked_again_only_where_it_is_not_as_it_was(whole, monkeypatch):
    content, expected = whole
    monkeypatch.setattr("streakline.cache.database._STAMPED_BYTES", 0)
    checked = []
    pragma = database._pragma
    monkeypatch.setattr(database, "_pragma", lambda *asked: checked.append(asked[1]) or pragma(*asked))
    draw = random.Random(1)
    assert outcome(content, expected) == "right"
    assert "integrity_check(1)" in checked
    checked.clear()
    assert outcome(content, expected) == "right"
    assert "integrity_check(1)" not in checked
    outcomes = []
    for _ in range(100):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        outcomes.append(outcome(bytes(damaged), expected))
        assert outcome(content, expected) == "right"
    assert outcomes.count("error") > 30


def test_a_truncated_file_never_leads_to_a_wrong_answer(whole):
    content, expected = whole
    draw = random.Random(0)
    lengths = [0, 1, 99, 100, 4096, len(content) - 1, *(draw.randrange(len(content)) for _ in range(40))]
    assert {outcome(content[:length], expected) for length in lengths} == {"error"}


def test_an_exchanged_page_never_leads_to_a_wrong_answer(whole):
    content, expected = whole
    pages = [content[start : start + 4096] for start in range(0, len(content), 4096)]
    draw = random.Random(0)
    for _ in range(30):
        first, second = draw.sample(range(len(pages)), 2)
        exchanged = list(pages)
        exchanged[first], exchanged[second] = pages[second], pages[first]
        assert outcome(b"".join(exchanged), expected) == "error"


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("PRAGMA user_version = 2", "schema version 2"),
        ("PRAGMA application_id = 0", "another kind of file"),
        ("UPDATE meta SET value = '2' WHERE name = 'schema_version'", "a damaged schema_version"),
        ("DELETE FROM meta", "a damaged schema_version"),
        ("DROP INDEX entries_by_call", "other tables"),
        ("CREATE TABLE more(a)", "other tables"),
    ],
)
def test_another_version_or_another_kind_of_file_is_refused(read_only, statement, found):
    CacheStore.open("cache.sqlite").close()
    connection = sqlite3.connect("cache.sqlite")
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(CacheError, match=rf"Expected `cache.sqlite` .* but got {found}.*build_cache.py"):
        CacheStore.open("cache.sqlite", read_only=read_only)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("content", [b"", b"no database, but long enough to be one " * 100])
def test_a_file_that_is_no_cache_is_refused_and_kept(read_only, content):
    Path("cache.sqlite").write_bytes(content)
    with pytest.raises(CacheError, match=r"Expected `cache.sqlite` .*build_cache.py"):
        CacheStore.open("cache.sqlite", read_only=read_only)
    assert Path("cache.sqlite").read_bytes() == content


def test_a_folder_or_nothing_is_no_cache(tmp_path):
    with pytest.raises(CacheError, match=r"no such file; to rebuild it"):
        CacheStore.open("cache.sqlite", read_only=True)
    assert not list(tmp_path.iterdir())
    with pytest.raises(CacheError, match="unable to open database file"):
        CacheStore.open(tmp_path)


def test_a_changed_row_is_found_when_read_and_a_missing_one_by_verify():
    with CacheStore.open("cache.sqlite") as store:
        store.add(entries())
        key = entry_key(call_key("read", "{}"), bytes(32))
        assert store.exact(key).result == "0"
    connection = sqlite3.connect("cache.sqlite", isolation_level=None)
    connection.execute("UPDATE entries SET result = '\"1\"' WHERE key = ?", (key,))
    with CacheStore.open("cache.sqlite") as store:
        for read in (lambda: store.exact(key), lambda: list(store.iterate()), store.verify):
            with pytest.raises(CacheError, match="but got a damaged entry"):
                read()
        connection.execute("DELETE FROM entries WHERE key = ?", (key,))
        assert store.exact(key) is None
        with pytest.raises(CacheError, match="rows that its digest doesn't count"):
            store.verify()
    connection.close()


def test_a_closed_store_says_so():
    store = CacheStore.open("cache.sqlite")
    store.close()
    with pytest.raises(CacheError, match="closed database"):
        store.exact(b"")
