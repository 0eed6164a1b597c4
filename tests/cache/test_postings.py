from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streakline.cache.postings import list_numbers, prefix_length, prefixes, probe
from streakline.cache.tokens import jaccard

# Few buckets and many tokens, so that tokens of one set share a bucket.
TOKENS = st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 30), min_size=1, max_size=30)


def flat(sets):
    tokens = np.array([token for tokens in sets for token in sorted(tokens)], np.uint64)
    return tokens, np.array([len(tokens) for tokens in sets])


def numbered(tokens, *, num_buckets):
    return list_numbers(*np.unique(tokens, return_counts=True), num_buckets=num_buckets)


@settings(deadline=None)
@given(TOKENS, TOKENS, st.sets(st.integers(0, 30)), st.sampled_from([4, 64]))
def test_similar_sets_meet_in_a_list_of_their_prefixes(first, second, shared, num_buckets):
    sets = [first | shared, second | shared]
    similarity = jaccard(*sets)
    buckets = numbered(flat(sets)[0], num_buckets=num_buckets)
    if similarity > 0:
        lists, owners, _ = prefixes(*flat(sets), buckets, similarity)
        assert set(lists[owners == 0]) & set(lists[owners == 1])


@settings(deadline=None)
@given(TOKENS, TOKENS)
def test_sketches_differ_in_no_more_bits_than_tokens(first, second):
    buckets = numbered(flat([first, second])[0], num_buckets=8)
    _, _, sketches = prefixes(*flat([first, second]), buckets, 0.5)
    distance = int(np.bitwise_count(sketches[0] ^ sketches[1]).sum())

    assert distance <= len(first ^ second)
    assert distance % 2 == len(first ^ second) % 2


@settings(deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=5), st.sampled_from([0.1, 0.5, 0.6, 1.0]))
def test_a_prefix_has_the_lists_of_the_rarest_tokens(sets, similarity):
    buckets = numbered(flat(sets)[0], num_buckets=16)
    lists, owners, sketches = prefixes(*flat(sets), buckets, similarity)

    for number, tokens in enumerate(sets):
        order = sorted(int(buckets[token % 16]) for token in tokens)
        assert lists[owners == number].tolist() == order[: prefix_length(len(tokens), similarity)]
        cells = [0] * 256
        for token in tokens:
            cells[token >> 56] ^= 1
        assert np.unpackbits(sketches[number], bitorder="little").tolist() == cells
        lists_of_all, sketch = probe(flat([tokens])[0], buckets)
        assert lists_of_all.tolist() == order
        assert sketch.tolist() == sketches[number].tolist()


@pytest.mark.parametrize(
    ("size", "similarity", "length"), [(10, 0.6, 5), (10, 0.61, 4), (5, 0.6, 3), (1, 0.4, 1), (10, 1.0, 1), (3, 0.1, 3)]
)
def test_a_prefix_is_as_long_as_the_similarity_asks_for(size, similarity, length):
    assert prefix_length(size, similarity) == length


def test_lists_are_numbered_from_the_rarest_and_those_of_no_token_are_one():
    tokens = np.array([1, 1, 1, 2, 3, 3], np.uint64)
    assert numbered(tokens, num_buckets=8).tolist() == [0, 3, 1, 2, 0, 0, 0, 0]
