from __future__ import annotations

import os
import subprocess
import sys
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streakline.cache import tokens
from streakline.cache.tokens import MAX_NGRAM_CHARS, call_tokens, call_tokens_many, jaccard

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
ARGUMENTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)
SETS = st.sets(st.integers(0, 20))


@settings(deadline=None)
@given(SETS, SETS)
def test_jaccard_is_a_symmetric_share(first, second):
    similarity = jaccard(first, second)

    assert 0 <= similarity <= 1
    assert similarity == jaccard(second, first)
    union = sorted(first | second)
    assert similarity == (sum(x in first and x in second for x in union) / len(union) if union else 1.0)


@settings(deadline=None)
@given(ARGUMENTS)
def test_a_call_has_tokens_of_64_bits_and_is_like_itself(arguments):
    found = call_tokens("tool", arguments)

    assert found
    assert all(0 <= token < 2**64 for token in found)
    assert jaccard(found, call_tokens("tool", arguments)) == 1


@settings(deadline=None)
@given(ARGUMENTS, ARGUMENTS)
def test_calls_of_two_tools_share_nothing(first, second):
    assert call_tokens("first", first).isdisjoint(call_tokens("second", second))


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({}, 1),
        ({"n": 1}, 1),
        ({"n": 1, "b": True, "f": 1.5, "none": None}, 4),
        ({"text": ""}, 1),
        ({"text": "ab"}, 2),  # the pair, the word
        ({"text": "abc"}, 3),  # and one trigram
        ({"text": "abc abc"}, 1 + 1 + 4),  # abc, "bc ", "c a", " ab"
        ({"text": "a.b"}, 1 + 2 + 1),
        ({"to": ["ab", "ab", "cd"]}, 2 + 2),
        ({"to": [], "by": {}}, 2),
        ({"a": {"b": 1, "c": {"d": 2}}}, 2),
    ],
)
def test_the_set_has_the_documented_size(arguments, count):
    assert len(call_tokens("tool", arguments)) == count


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ({"a": "Hello"}, {"a": "hello"}, 1 + 3),  # all but the pair
        ({"a": "one two"}, {"a": "two one"}, 2 + 2),  # words, and the trigrams within them
        ({"a": "word"}, {"b": "word"}, 0),
        ({"a": 1}, {"a": "1"}, 0),
        ({"a": True}, {"a": 1}, 0),
        ({"a": None}, {"a": "null"}, 0),
        ({"a": []}, {"a": {}}, 0),
        ({"a": [1, 2]}, {"a": [2, 3]}, 1),
        ({"a": [1, 2]}, {"a": [2, 1]}, 2),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, 1),
    ],
)
def test_two_calls_share_what_is_alike(first, second, shared):
    assert len(call_tokens("tool", first) & call_tokens("tool", second)) == shared


def test_a_long_value_counts_whole_as_a_pair_and_by_its_beginning_in_parts():
    start = "x" * MAX_NGRAM_CHARS
    first, second = call_tokens("tool", {"a": f"{start}one"}), call_tokens("tool", {"a": f"{start}two"})

    assert len(first) == len(second) == 3
    assert len(first & second) == 2


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), ARGUMENTS), max_size=5))
def test_many_calls_have_the_tokens_that_each_has_alone(calls):
    found, owners = call_tokens_many(calls)
    assert [set(found[owners == number].tolist()) for number in range(len(calls))] == [
        call_tokens(*call) for call in calls
    ]


def test_no_two_trigrams_share_a_token():
    text = "".join(chr(0x4E00 + number) for number in range(MAX_NGRAM_CHARS))  # Without spaces, one word.
    assert len(call_tokens("tool", {"a": text})) == MAX_NGRAM_CHARS - 2 + 1 + 1


def test_tokens_do_not_change_when_the_memo_is_full(monkeypatch):
    arguments = {"text": "some words that are hashed", "long": "y" * 1_000}
    before = call_tokens("tool", arguments)

    monkeypatch.setattr(tokens, "_MAX_MEMO_TEXTS", 3)
    memos = tokens._TRIGRAMS, tokens._WORDS, tokens._STRINGS
    for memo in memos:
        memo.clear()
    assert call_tokens("tool", arguments) == before
    for memo in memos:
        assert 0 < len(memo) <= 3
        assert all(len(text) < 100 for text in memo)


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_tokens_are_equal_in_every_process(seed):
    code = (
        "from streakline.cache.tokens import call_tokens;"
        "print(sorted(call_tokens('tool', {'a': 'Gr\\xfc\\xdfe\\0 \\ud800', 'b': [1, 2.5, None], 'c': {'d': True}})))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )

    here = call_tokens("tool", {"a": "Gr\xfc\xdfe\0 \ud800", "b": [1, 2.5, None], "c": {"d": True}})
    assert found.stdout.strip() == str(sorted(here))


def test_a_token_is_the_hash_of_its_text_salted_by_that_of_its_path():
    def hashed(text: str) -> int:
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")

    assert call_tokens("tool", {"a": {"b": 2.5}}) == {hashed('path ["tool", "a.b"]') ^ hashed("value 2.5")}
