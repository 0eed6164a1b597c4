import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streakline.cache.lookup import CacheOptions, open_cache
from streakline.cache.state import ToolKind, ToolTraits
from streakline.cache.store import CacheStore, NewEntry, ToolRecord
from streakline.errors import ConfigError
from streakline.types import Tier

NOW = 1_000_000.0
READS = ToolRecord(traits=ToolTraits(kind=ToolKind.STATEFUL, state="Disk"))
VOLATILE = ToolRecord(traits=ToolTraits(kind=ToolKind.VOLATILE))


def entry(result, *, tool="plan", state=b"", at=NOW, count=1, is_error=False, **arguments):
    return NewEntry(
        tool=tool,
        arguments=dict(sorted(arguments.items())),
        result=result,
        state=state,
        recorded_at=at,
        count=count,
        is_error=is_error,
    )


@pytest.fixture
def cache_of(tmp_path):
    """Makes a cache of entries. Numbers have one token each, so that similarities can be counted by hand."""
    stores = []

    def make(*entries, tools=None, threshold=0.6, **options):
        stores.append(CacheStore.open(tmp_path / f"{len(stores)}.db"))
        for name, record in (tools or {}).items():
            stores[-1].set_tool(name, record)
        stores[-1].add(entries)
        return open_cache(stores[-1], options=CacheOptions(threshold=threshold, **options))

    yield make
    for store in stores:
        store.close()


def served(cache, tool="plan", *, state=b"", seed=0, **arguments):
    found = cache.lookup(tool, arguments, state=state, seed=seed)
    return found.tier, found.entry and found.entry.result, round(found.similarity, 3)


def test_by_default_only_the_same_call_in_another_state_is_fuzzy(tmp_path):
    with CacheStore.open(tmp_path / "c.db") as store:
        store.set_tool("plan", READS)
        store.add([entry("A", a=1, b=2, state=b"one")])
        cache = open_cache(store, options=CacheOptions())
        assert served(cache, a=1, b=2, state=b"two")[0] == Tier.FUZZY
        assert served(cache, a=1, b=2, c=3, state=b"one")[0] == Tier.BEST_EFFORT


def test_the_same_call_is_exact_however_it_is_written(cache_of):
    cache = cache_of(entry("A", a=1, b="na\u00efve"), entry("B", a=2, b="x"))
    assert served(cache, b="nai\u0308ve", a=1.0) == (Tier.EXACT, "A", 1.0)


def test_errors_are_served_as_recorded(cache_of):
    found = cache_of(entry("no", a=1, is_error=True)).lookup("plan", {"a": 1})
    assert (found.tier, found.entry.is_error) == (Tier.EXACT, True)


def test_of_conflicting_results_the_most_frequent_is_exact(cache_of):
    cache = cache_of(entry("A", a=1), entry("B", a=1, count=2), entry("C", a=1, count=2))
    assert served(cache, a=1) == (Tier.EXACT, "B", 1.0)


def test_a_similar_call_is_fuzzy_from_the_threshold_on(cache_of):
    recorded = [entry("far", a=1, b=2, c=8, d=9), entry("near", a=1, b=2, c=3, d=9)]
    asked = {"a": 1, "b": 2, "c": 3, "d": 4}  # 3 of 5 pairs are shared with "near"
    assert served(cache_of(*recorded, threshold=0.6), **asked) == (Tier.FUZZY, "near", 0.6)
    assert served(cache_of(*recorded, threshold=0.61), **asked)[0] == Tier.BEST_EFFORT
    assert served(cache_of(*recorded, fuzzy=False), **asked)[0] == Tier.BEST_EFFORT


def test_of_equally_similar_calls_the_first_recorded_is_served(cache_of):
    cache = cache_of(entry("A", a=1, b=2, c=3, d=8), entry("B", a=1, b=2, c=3, d=9))
    assert served(cache, a=1, b=2, c=3, d=4) == (Tier.FUZZY, "A", 0.6)


def test_no_other_tool_serves(cache_of):
    cache = cache_of(entry("A", a=1), entry("B", tool="other", b=1), best_effort="nearest")
    assert served(cache, "other", a=1)[:2] == (Tier.BEST_EFFORT, "B")


RECORDED = (
    entry("odd", a=7, b=8, count=3),
    entry("central", a=1, b=2, c=3),
    entry("left", a=1, b=2),
    entry("right", b=2, c=3),
    entry("wide", a=1, b=2, c=3, d=4, e=5),
)


@pytest.mark.parametrize(
    ("best_effort", "asked", "expected"),
    [
        ("medoid", {"z": 1}, (Tier.BEST_EFFORT, "central", 0.0)),
        ("medoid", {"c": 3}, (Tier.BEST_EFFORT, "central", 0.333)),
        ("most_frequent", {"c": 3}, (Tier.BEST_EFFORT, "odd", 0.0)),
        ("nearest", {"c": 3}, (Tier.BEST_EFFORT, "right", 0.5)),
        ("nearest", {"z": 1}, (Tier.BEST_EFFORT, "central", 0.0)),
        ("off", {"c": 3}, (Tier.MISS, None, 0.0)),
    ],
)
def test_another_call_of_the_tool_serves_by_option(cache_of, best_effort, asked, expected):
    assert served(cache_of(*RECORDED, best_effort=best_effort), **asked) == expected


def test_an_unknown_tool_misses_and_names_close_ones(cache_of):
    cache = cache_of(entry("A", tool="get_ticket", a=1), entry("B", tool="close_ticket", a=1))
    found = cache.lookup("get_tickets", {"a": 1})
    assert (found.tier, found.entry, found.similarity) == (Tier.MISS, None, 0.0)
    assert found.close_names[0] == "get_ticket"
    assert cache.lookup("x" * 100_000, {}).close_names == ()


def test_a_tool_without_results_misses(cache_of):
    cache = cache_of(entry("A", tool="other", a=1), tools={"plan": ToolRecord()})
    assert served(cache, a=1) == (Tier.MISS, None, 0.0)
    assert cache.knows("plan")
    assert not cache.knows("plans")


def test_a_call_without_canonical_form_misses_and_says_why(cache_of):
    cache = cache_of(entry("A", a=1))
    found = cache.lookup("plan", {"a": float("nan")})
    assert (found.tier, found.call) == (Tier.MISS, b"")
    assert "finite" in found.fault
    assert not cache.lookup("plan", {"a": 1}).fault
    assert "object" in cache.lookup("plan", [1]).fault


def test_the_same_call_in_another_state_is_fuzzy_never_exact(cache_of):
    recorded = [
        entry("one", tool="ls", state=b"1"),
        entry("two", tool="ls", state=b"2", count=2),
        entry("three", tool="ls", state=b"3", count=2),
    ]
    cache = cache_of(*recorded, tools={"ls": READS})
    assert served(cache, "ls", state=b"1") == (Tier.EXACT, "one", 1.0)
    assert served(cache, "ls", state=b"4") == (Tier.FUZZY, "two", 1.0)
    assert served(cache, "ls") == (Tier.FUZZY, "two", 1.0)
    exact_only = cache_of(*recorded, tools={"ls": READS}, fuzzy=False, best_effort="off")
    assert served(exact_only, "ls", state=b"4")[0] == Tier.MISS


def test_the_same_call_in_another_state_comes_before_similar_ones(cache_of):
    cache = cache_of(
        entry("similar", tool="ls", state=b"1", a=1, b=2, c=3, d=9),
        entry("same", tool="ls", state=b"2", a=1, b=2, c=3, d=4),
        tools={"ls": READS},
    )
    assert served(cache, "ls", state=b"1", a=1, b=2, c=3, d=4) == (Tier.FUZZY, "same", 1.0)
    assert served(cache, "ls", state=b"1", a=1, b=2, c=3, d=5) == (Tier.FUZZY, "similar", 0.6)


def test_the_state_of_a_pure_tool_is_left_aside(cache_of):
    assert served(cache_of(entry("A", a=1)), a=1, state=b"1") == (Tier.EXACT, "A", 1.0)


def test_volatile_tools_serve_only_when_asked_to(cache_of):
    recorded = entry("12:00", tool="now")
    assert served(cache_of(recorded, tools={"now": VOLATILE}), "now")[0] == Tier.MISS
    assert served(cache_of(recorded, tools={"now": VOLATILE}, serve_volatile=True), "now")[0] == Tier.EXACT


def test_an_entry_that_is_too_old_serves_one_tier_lower(cache_of):
    old, new = NOW - 100, NOW
    asked = {"a": 1, "b": 2, "c": 3, "d": 4}
    same, similar, other = (
        {"a": 1, "b": 2, "c": 3, "d": 4},
        {"a": 1, "b": 2, "c": 3, "d": 9},
        {"z": 1},
    )

    def tier(*recorded, **options):
        entries = [entry(str(at), at=at, **arguments) for arguments, at in recorded]
        newest = entry("", tool="clock", at=NOW)
        return served(cache_of(*entries, newest, max_age_s=50, **options), **asked)

    assert tier((same, new)) == (Tier.EXACT, str(new), 1.0)
    assert tier((same, old)) == (Tier.FUZZY, str(old), 1.0)
    assert tier((same, old), fuzzy=False) == (Tier.BEST_EFFORT, str(old), 1.0)
    assert tier((same, old), fuzzy=False, best_effort="off") == (Tier.MISS, None, 0.0)
    assert tier((similar, new)) == (Tier.FUZZY, str(new), 0.6)
    assert tier((similar, old)) == (Tier.BEST_EFFORT, str(old), 0.6)
    assert tier((similar, old), best_effort="off") == (Tier.MISS, None, 0.0)
    assert tier((other, new)) == (Tier.BEST_EFFORT, str(new), 0.0)
    assert tier((other, old)) == (Tier.MISS, None, 0.0)
    assert tier((other, old), ({"y": 1}, old), ({"x": 1}, new)) == (Tier.BEST_EFFORT, str(new), 0.0)


def test_ages_are_taken_at_the_newest_entry_or_as_of(cache_of):
    recorded = [entry("A", a=1, at=NOW), entry("B", b=1, at=NOW + 100)]
    assert served(cache_of(*recorded, max_age_s=100), a=1)[0] == Tier.EXACT
    assert served(cache_of(*recorded, max_age_s=99), a=1)[0] == Tier.FUZZY
    assert served(cache_of(*recorded, max_age_s=100, as_of=NOW + 101), a=1)[0] == Tier.FUZZY


SIMILAR = [entry(str(number), a=1, b=2, c=3, d=number) for number in range(10, 30)]
ASKED = {"a": 1, "b": 2, "c": 3, "d": 4}


def test_a_shared_draw_is_the_same_for_all_seeds(cache_of):
    cache = cache_of(*SIMILAR)
    assert {served(cache, seed=seed, **ASKED) for seed in range(50)} == {(Tier.FUZZY, "10", 0.6)}


def test_an_independent_draw_depends_on_the_seed_alone(cache_of):
    cache, again = cache_of(*SIMILAR, draw="independent"), cache_of(*SIMILAR, draw="independent")
    drawn = [served(cache, seed=seed, **ASKED) for seed in range(200)]
    assert drawn == [served(again, seed=seed, **ASKED) for seed in range(200)]
    assert {result for _, result, _ in drawn} == {str(number) for number in range(10, 18)}
    assert {tier for tier, _, _ in drawn} == {Tier.FUZZY}
    counts = [sum(result == str(number) for _, result, _ in drawn) for number in range(10, 18)]
    assert min(counts) >= 10  # of 25 expected; fewer has a chance of about 1 in 1,000
    assert served(cache, seed=3, a=1, b=2, c=3, d=10) == (Tier.EXACT, "10", 1.0)


def test_an_independent_best_effort_draws_among_eight_entries_of_the_tool(cache_of):
    cache = cache_of(*SIMILAR, draw="independent")
    drawn = [served(cache, seed=seed, z=1) for seed in range(200)]
    assert len(set(drawn)) == 8
    assert {tier for tier, _, _ in drawn} == {Tier.BEST_EFFORT}


def test_a_frozen_cache_gives_each_call_the_same_answer_however_often_it_is_asked(cache_of, monkeypatch):
    monkeypatch.setattr("streakline.cache.lookup._REMEMBERED", 3)
    recorded = [*SIMILAR, entry("long " * 2000, a=1), entry("1", tool="ls", state=b"1")]
    cache_of(*recorded, tools={"ls": READS}).store.close()
    calls = [("plan", ASKED), ("plan", {"a": 1}), ("plan", {"z": 1}), ("ls", {}), ("plan", {"d": 5}), ("plans", {})]
    for draw in ("shared", "independent"):
        options = CacheOptions(draw=draw)
        with CacheStore.open("0.db", read_only=True) as store:
            asked = open_cache(store, options=options)
            for turn in range(3):
                for seed in range(4):
                    for tool, arguments in calls[:: 1 if turn % 2 else -1]:
                        fresh = open_cache(store, options=options)
                        for state in (b"", b"1"):
                            expected = fresh.lookup(tool, arguments, state=state, seed=seed)
                            assert asked.lookup(tool, arguments, state=state, seed=seed) == expected


def test_a_cache_that_is_written_to_remembers_nothing(cache_of):
    cache = cache_of(entry("A", a=1))
    assert served(cache, a=1) == (Tier.EXACT, "A", 1.0)
    cache.store.add([entry("B", a=1, count=2)])
    assert served(cache, a=1) == (Tier.EXACT, "B", 1.0)


def test_what_another_writer_says_of_a_tool_is_seen_after_a_refresh(cache_of):
    cache = cache_of(entry("A", tool="ls"))
    cache.store.set_tool("ls", READS)
    assert cache.traits("ls").kind is ToolKind.PURE
    cache.refresh()
    assert cache.traits("ls") == READS.traits
    assert cache.traits("unknown") == ToolTraits()


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": 1.1}, {"max_age_s": 0.0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        CacheOptions(**options)


ARGUMENTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3)
ENTRIES = st.lists(
    st.builds(
        lambda tool, arguments, state, at, result: entry(
            result, tool=tool, state=state if tool == "ls" else b"", at=at, **arguments
        ),
        st.sampled_from(["plan", "ls"]),
        ARGUMENTS,
        st.sampled_from([b"1", b"2"]),
        st.sampled_from([NOW, NOW - 100]),
        st.sampled_from("xy"),
    ),
    max_size=6,
)


@settings(max_examples=25, deadline=None)
@given(
    entries=ENTRIES,
    more=ENTRIES,
    asked=st.tuples(st.sampled_from(["plan", "ls"]), ARGUMENTS),
    thresholds=st.tuples(st.floats(0.3, 1), st.floats(0.3, 1)),
    max_age_s=st.sampled_from([None, 50.0]),
    best_effort=st.sampled_from(["off", "medoid", "most_frequent", "nearest"]),
)
def test_neither_more_entries_nor_a_lower_threshold_make_a_tier_worse(
    entries, more, asked, thresholds, max_age_s, best_effort
):
    def rank(recorded, threshold):
        with tempfile.TemporaryDirectory() as folder, CacheStore.open(Path(folder) / "cache.db") as store:
            store.set_tool("ls", READS)
            store.add(recorded)
            options = CacheOptions(threshold=threshold, max_age_s=max_age_s, as_of=NOW, best_effort=best_effort)
            return open_cache(store, options=options).lookup(*asked, state=b"1").tier.rank

    low, high = sorted(thresholds)
    strict = rank(entries, high)
    assert rank(entries, low) <= strict
    assert rank([*entries, *more], high) <= strict
