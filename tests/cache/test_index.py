from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streakline.cache.index import FuzzyIndex, Neighbour
from streakline.cache.search import Best
from streakline.cache.tokens import call_tokens, jaccard

WORDS = ["alpha", "beta", "gamma", "delta", "alphabet", "betamax", "x", "yz"]


def brute_force(entries, tool, arguments, *, count=1, min_similarity=0.6):
    asked = call_tokens(tool, arguments)
    found = [
        (-jaccard(asked, call_tokens(tool, other)), entry_id)
        for entry_id, other_tool, other in entries
        if other_tool == tool
    ]
    return [Neighbour(entry_id, -negative) for negative, entry_id in sorted(found) if -negative >= min_similarity][
        :count
    ]


def random_entries(generator, size, *, num_tools=2):
    def value():
        return generator.choice(
            [
                " ".join(generator.choices(WORDS, k=generator.randint(0, 4))),
                generator.randint(0, 3),
                generator.random() < 0.5,
                [generator.choice(WORDS), generator.randint(0, 2)],
            ]
        )

    ids = generator.sample(range(1, 10 * size + 1), size)
    return [
        (
            entry_id,
            f"tool{generator.randrange(num_tools)}",
            {key: value() for key in generator.sample("abcd", generator.randint(0, 3))},
        )
        for entry_id in ids
    ]


ENTRIES = st.builds(
    lambda seed, size: random_entries(random.Random(seed), size), st.integers(0, 2**32), st.integers(0, 40)
)


@pytest.fixture(params=["all are read", "all are counted", "FAISS proposes"])
def size_of_tools(request, monkeypatch):
    """Makes each tool small, of middle size or large."""
    monkeypatch.setattr("streakline.cache.rows.MAX_READ", 2**40 if request.param == "all are read" else 0)
    monkeypatch.setattr("streakline.cache.rows.MAX_COUNTED", 0 if request.param == "FAISS proposes" else 2**40)


def nearest(index, tool, arguments, *, count=1, min_similarity=0.6):
    return index.nearest(tool, call_tokens(tool, arguments), count=count, min_similarity=min_similarity)


@pytest.mark.usefixtures("size_of_tools")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ENTRIES, ENTRIES, st.sampled_from([0.05, 0.3, 0.6, 0.7, 0.9, 1.0]), st.sampled_from([1, 3, 50]))
def test_nearest_is_what_comparing_with_every_entry_finds(entries, queries, least, count):
    index = FuzzyIndex.build(entries)

    for _, *call in queries:
        expected = brute_force(entries, *call, count=count, min_similarity=least)
        assert nearest(index, *call, count=count, min_similarity=least) == expected
    assert index.num_entries == len(entries)


@pytest.mark.usefixtures("size_of_tools")
@pytest.mark.parametrize("scanned", [1, 20, 1024])
def test_many_proposals_are_compared_as_far_as_any_can_be_better(monkeypatch, scanned):
    monkeypatch.setattr("streakline.cache.search._SCANNED", scanned)
    generator = random.Random(scanned)
    entries = random_entries(generator, 600)
    index = FuzzyIndex.build(entries)

    for _, *call in random_entries(generator, 60):
        for count in (1, 5):
            assert nearest(index, *call, count=count) == brute_force(entries, *call, count=count)


def test_tools_of_all_sizes_stand_beside_each_other(monkeypatch):
    monkeypatch.setattr("streakline.cache.rows.MAX_READ", 50)
    monkeypatch.setattr("streakline.cache.rows.MAX_COUNTED", 500)
    generator = random.Random(2)
    entries = [
        *random_entries(generator, 300),
        *((n, "small", {"a": n}) for n in range(9_000, 9_020)),
        *((n, "middle", {"a": f"word {n}"}) for n in range(10_000, 10_020)),
    ]
    index = FuzzyIndex.build(entries)

    for _, *call in [
        *random_entries(generator, 60),
        *((0, "small", {"a": n}) for n in range(9_010, 9_030)),
        *((0, "middle", {"a": f"word {n}"}) for n in range(10_010, 10_030)),
    ]:
        assert nearest(index, *call, count=2) == brute_force(entries, *call, count=2)


def test_few_of_the_proposals_are_compared(monkeypatch):
    monkeypatch.setattr("streakline.cache.rows.MAX_COUNTED", 0)
    compared = []
    offer = Best.offer

    def watched(self, similarity, number):
        compared.append(number)
        offer(self, similarity, number)

    monkeypatch.setattr(Best, "offer", watched)
    generator = random.Random(0)
    texts = ["".join(generator.choices("abcdefghij ", k=30)) for _ in range(5000)]
    index = FuzzyIndex.build((number, "tool", {"text": text}) for number, text in enumerate(texts, 1))

    for number, text in enumerate(texts[:100], 1):
        assert nearest(index, "tool", {"text": f"{text[:10]}_{text[11:]}"})[0].entry_id == number
    assert len(compared) < 100 * 10


@pytest.mark.usefixtures("size_of_tools")
@pytest.mark.parametrize(("shared", "single"), [(2, 3), (1, 1), (3, 2), (6, 4), (9, 1)])
def test_a_similarity_on_the_threshold_counts(shared, single):
    # Each list element is one token.
    entries = [(7, "tool", {"a": list(range(shared + single))}), *((i, "other", {"a": [i]}) for i in range(100, 200))]
    index = FuzzyIndex.build(entries)
    asked, similarity = {"a": list(range(shared))}, shared / (shared + single)

    assert nearest(index, "tool", asked, min_similarity=similarity) == [Neighbour(7, similarity)]
    assert nearest(index, "tool", asked, min_similarity=similarity + 1e-6) == []


@pytest.mark.usefixtures("size_of_tools")
def test_equal_calls_are_told_apart_by_their_ids():
    entries = [(entry_id, "tool", {"a": value}) for entry_id, value in ((9, "one"), (3, "one"), (5, "one"), (4, "two"))]
    index = FuzzyIndex.build(entries)

    assert nearest(index, "tool", {"a": "one"}) == [Neighbour(3, 1.0)]
    assert [found.entry_id for found in nearest(index, "tool", {"a": "one"}, count=8)] == [3, 5, 9]


@pytest.mark.usefixtures("size_of_tools")
def test_of_a_thousand_equally_similar_calls_the_lowest_id_is_found():
    entries = [(entry_id, "tool", {"user": entry_id, "message": "the same"}) for entry_id in range(5000, 0, -1)]
    index = FuzzyIndex.build(entries)

    found = nearest(index, "tool", {"user": 0, "message": "the same"}, count=3)
    assert [neighbour.entry_id for neighbour in found] == [1, 2, 3]


@pytest.mark.usefixtures("size_of_tools")
@pytest.mark.parametrize("entries", [[], [(4, "tool", {})], [(4, "tool", {"a": "x" * 100_000})]])
def test_tiny_caches_are_answered(entries):
    index = FuzzyIndex.build(entries)

    for _, *call in entries:
        assert nearest(index, *call) == [Neighbour(4, 1.0)]
    assert nearest(index, "other", {"a": "b"}) == []
    assert nearest(index, "tool", {"unheard": "of"}) == []
    assert index.medoid("tool") == (4 if entries else None)


@pytest.mark.usefixtures("size_of_tools")
def test_very_long_calls_stand_beside_short_ones():
    long = {"a": [f"{number} {number * number}" for number in range(3000)]}
    index = FuzzyIndex.build([(1, "tool", long), (2, "tool", {"a": "short"})])

    for arguments, entry_id in (({"a": long["a"][1:]}, 1), ({"a": "Short"}, 2), (long, 1)):
        assert [found.entry_id for found in nearest(index, "tool", arguments)] == [entry_id]


@pytest.mark.usefixtures("size_of_tools")
@pytest.mark.parametrize("size", [1, 2, 30, 700])
def test_the_medoid_has_the_greatest_mean_similarity(size):
    entries = random_entries(random.Random(size), size, num_tools=1)
    index = FuzzyIndex.build(entries)

    rows = {}
    for entry_id, tool, arguments in sorted(entries):
        rows.setdefault(frozenset(call_tokens(tool, arguments)), []).append(entry_id)
    ordered = sorted((ids[0], tokens, entry_id) for tokens, ids in rows.items() for entry_id in ids)
    sample = [ordered[number * size // min(size, 256)] for number in range(min(size, 256))]
    means = {
        lowest: sum(jaccard(tokens, other) for _, other, _ in sample) / len(sample) for lowest, tokens, _ in sample
    }
    best = max(means.values())
    assert means[index.medoid("tool0")] == pytest.approx(best, abs=1e-12)
    assert index.medoid("tool0") == min(lowest for lowest, mean in means.items() if mean > best - 1e-12)
    assert index.medoid("tool0") == index.medoid("tool0")


def test_a_medoid_is_of_its_own_tool():
    index = FuzzyIndex.build([(1, "first", {"a": 1}), (2, "second", {"a": 1}), (3, "first", {"b": 2})])

    assert [index.medoid(tool) for tool in ("first", "second", "third")] == [1, 2, None]


def test_the_answers_do_not_depend_on_the_order_of_the_entries():
    generator = random.Random(3)
    entries = random_entries(generator, 300)
    calls = [(tool, arguments) for _, tool, arguments in random_entries(generator, 50)]
    first = FuzzyIndex.build(entries)
    generator.shuffle(entries)
    second = FuzzyIndex.build(entries)

    for call in calls:
        assert nearest(first, *call, count=4) == nearest(second, *call, count=4)
    assert first.medoid("tool1") == second.medoid("tool1")


@pytest.mark.usefixtures("size_of_tools")
def test_threads_may_share_an_index():
    generator = random.Random(4)
    entries = random_entries(generator, 500)
    index = FuzzyIndex.build(entries)
    calls = [(tool, arguments) for _, tool, arguments in random_entries(generator, 200)]
    expected = [nearest(index, *call) for call in calls]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda call: nearest(index, *call), calls * 5)) == expected * 5


def test_memory_is_counted():
    generator = random.Random(5)
    entries = random_entries(generator, 2000)
    small, large = FuzzyIndex.build(entries[:200]), FuzzyIndex.build(entries)

    assert 0 < small.num_bytes < large.num_bytes
