from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

from streakline.cache import index as index_module
from streakline.cache.index import FuzzyIndex, make_index, open_index, read_arrays, write_arrays
from streakline.cache.store import CacheStore, NewEntry
from streakline.cache.tokens import call_tokens
from streakline.errors import CacheError

CALLS = [("search", {"query": f"number {number} of the {number % 7}", "limit": number % 5}) for number in range(60)]
ASKED = [("search", {"query": f"numbers {number} of the {number % 7}", "limit": 1}) for number in range(60)]


def new_entry(tool, arguments):
    return NewEntry(tool=tool, arguments=arguments, result="found", recorded_at=1.0)


@pytest.fixture
def store(tmp_path):
    with CacheStore.open(tmp_path / "cache.db") as opened:
        opened.add([new_entry(*call) for call in CALLS])
        yield opened


@pytest.fixture
def path(store):
    return store.path.with_name("cache.db.index")


@pytest.fixture
def built(store, path):
    return open_quietly(store)


def nearest(index, calls, *, count=1):
    return [
        index.nearest(tool, call_tokens(tool, arguments), count=count, min_similarity=0.4) for tool, arguments in calls
    ]


def open_quietly(store):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return open_index(store)


def test_a_missing_index_is_made_and_found_the_next_time(store, path, built):
    fresh = FuzzyIndex.build((entry.id, entry.tool, entry.arguments) for entry in store.iterate())
    loaded = open_quietly(store)

    assert nearest(loaded, ASKED, count=3) == nearest(built, ASKED, count=3) == nearest(fresh, ASKED, count=3)
    assert any(nearest(loaded, ASKED))
    assert loaded.medoid("search") == built.medoid("search")
    assert loaded.num_bytes == built.num_bytes
    assert [file.name for file in path.parent.glob("*.tmp")] == []


def test_an_empty_store_has_an_empty_index(tmp_path):
    with CacheStore.open(tmp_path / "empty.db") as store:
        assert open_quietly(store).num_entries == 0
        assert nearest(open_quietly(store), [("search", {})]) == [[]]


def test_an_index_that_was_made_before_is_found_at_the_first_opening(store):
    make_index(store)
    assert open_quietly(store).num_entries == len(CALLS)


@pytest.mark.usefixtures("built")
def test_a_stale_index_is_made_anew(store):
    store.add([new_entry("search", {"query": "something new"})])

    index = open_quietly(store)
    assert nearest(index, [("search", {"query": "something new"})])[0][0].entry_id == store.last_id
    assert open_quietly(store).num_entries == 61


@pytest.mark.usefixtures("built")
def test_the_index_of_the_same_entries_in_another_order_is_made_anew(store, path, tmp_path):
    (tmp_path / "other").mkdir()
    with CacheStore.open(tmp_path / "other" / "cache.db") as other:
        other.add([new_entry(*call) for call in reversed(CALLS)])
        assert other.digest() == store.digest()
        path.rename(tmp_path / "other" / path.name)

        index = open_quietly(other)
        assert nearest(index, CALLS[:1])[0][0].entry_id == 60


@pytest.mark.parametrize("name", ["_VERSION", "FAISS_VERSION", "unidata_version"])
@pytest.mark.usefixtures("built")
def test_an_index_of_another_version_is_made_anew(store, path, monkeypatch, name):
    before = path.read_bytes()
    monkeypatch.setattr(index_module, name, 0)
    open_quietly(store)
    assert path.read_bytes() != before


def test_a_truncated_index_is_made_anew(store, path, built):
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.warns(UserWarning, match="anew: it is damaged"):
            assert nearest(open_index(store), ASKED) == nearest(built, ASKED)
    path.write_bytes(whole + b"\0")
    with pytest.warns(UserWarning, match="anew: it is damaged"):
        open_index(store)
    assert path.read_bytes() == whole


def test_a_flipped_bit_is_found_wherever_it_is(tmp_path):
    identity = {"version": 1, "store": "abc"}
    arrays = {"one": np.arange(5, dtype=np.uint64), "two": np.arange(7), "three": np.zeros(0, np.uint8)}
    path = tmp_path / "arrays"
    write_arrays(path, arrays, identity=identity)
    whole = path.read_bytes()

    read = read_arrays(path, identity=identity)
    assert list(read) == list(arrays)
    assert all((read[name] == arrays[name]).all() and read[name].dtype == arrays[name].dtype for name in arrays)
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(CacheError, match="it is damaged"):
                read_arrays(path, identity=identity)


def test_where_nothing_can_be_written_the_index_is_kept_in_memory(store, path):
    path.mkdir()  # A folder stands where the file should be.
    with pytest.warns(UserWarning, match="anew: it can't be read"), pytest.warns(UserWarning, match="Could not write"):
        index = open_index(store)

    assert nearest(index, CALLS[3:4])[0][0].entry_id == 4
    assert list(path.parent.glob("*.tmp")) == []


def test_what_was_random_is_found_after_loading(tmp_path):
    generator = random.Random(1)
    calls = [
        ("tool", {"a": "".join(generator.choices("abc ", k=12)), "b": generator.randint(0, 9)}) for _ in range(400)
    ]
    index = FuzzyIndex.build((number, *call) for number, call in enumerate(calls))
    index.save(tmp_path / "index", identity={"made": "here"})
    loaded = FuzzyIndex.load(tmp_path / "index", identity={"made": "here"})

    asked = [("tool", {"a": "".join(generator.choices("abc ", k=12)), "b": 1}) for _ in range(100)]
    assert nearest(loaded, asked, count=5) == nearest(index, asked, count=5)
