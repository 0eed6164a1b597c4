"""A state's digest follows the successful writes to it, in order, and nothing else."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streakline.cache.state import StateTracker, ToolKind, ToolTraits, initial_digest
from streakline.errors import CacheError

READS = ToolTraits(kind=ToolKind.STATEFUL, state="files")
WRITES = ToolTraits(kind=ToolKind.STATEFUL, state="files", writes=True)
OTHER = ToolTraits(kind=ToolKind.STATEFUL, state="tickets", writes=True)
PURE = ToolTraits()
VOLATILE = ToolTraits(kind=ToolKind.VOLATILE)

calls = st.lists(st.tuples(st.sampled_from([READS, WRITES, OTHER, PURE, VOLATILE]), st.binary(), st.booleans()))


def test_the_initial_digest_is_that_of_the_json_value():
    assert initial_digest({"a": 1, "b": [2.0]}) == initial_digest({"b": [2], "a": 1.0})
    assert len({initial_digest(value) for value in (None, {}, [], "", 0, False, {"a": None}, "null")}) == 8
    assert initial_digest(None) == hashlib.sha256(b'{"state":null}').digest()


def test_tools_without_state_have_no_digest():
    tracker = StateTracker({"files": {"a": 1}})
    assert tracker.digest(PURE) == tracker.digest(VOLATILE) == b""


def test_a_state_may_be_given_by_its_digest():
    given_value, given_digest = StateTracker({"files": {"a": 1}}), StateTracker({"files": initial_digest({"a": 1})})
    assert given_value.digest(READS) == given_digest.digest(READS) == initial_digest({"a": 1})


def test_an_unknown_state_starts_as_null():
    tracker = StateTracker({})
    assert tracker.digest(READS) == initial_digest(None)
    tracker.record(WRITES, b"k", is_error=False)
    assert tracker.digest(READS) == hashlib.sha256(initial_digest(None) + b"k").digest()


def test_a_write_moves_its_state_alone():
    tracker = StateTracker({"files": 1, "tickets": 2})
    tracker.record(WRITES, b"k", is_error=False)
    assert tracker.digest(READS) == hashlib.sha256(initial_digest(1) + b"k").digest()
    assert tracker.digest(OTHER) == initial_digest(2)


@given(calls)
def test_only_successful_writes_count_and_their_order_does(made):
    tracker = StateTracker({"files": 1})
    for traits, key, is_error in made:
        tracker.record(traits, key, is_error=is_error)
    expected = initial_digest(1)
    for traits, key, is_error in made:
        if traits is WRITES and not is_error:
            expected = hashlib.sha256(expected + key).digest()
    assert tracker.digest(READS) == expected


def test_two_writes_in_another_order_are_another_state():
    digests = set()
    for order in (b"ab", b"ba"):
        tracker = StateTracker({})
        for key in order:
            tracker.record(WRITES, bytes([key]), is_error=False)
        digests.add(tracker.digest(READS))
    assert len(digests) == 2


@pytest.mark.parametrize(
    "traits", [{"kind": ToolKind.STATEFUL}, {"state": "files"}, {"kind": ToolKind.VOLATILE, "writes": True}]
)
def test_traits_that_contradict_each_other_are_refused(traits):
    with pytest.raises(CacheError, match="Expected"):
        ToolTraits(**traits)
