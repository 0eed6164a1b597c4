"""The canonical form joins ways to write one call, and never two calls."""

import hashlib
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streakline.cache.canonical import call_key, canonical_arguments, canonical_text, entry_key
from streakline.errors import CacheError

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "default": 5},
        "loud": {"type": "boolean", "default": False},
        "at": {"properties": {"x": {"type": "number", "default": 0}, "note": {"type": "string", "default": "1"}}},
        "stops": {"type": "array", "items": {"properties": {"wait": {"default": 1.5}}}, "default": []},
        "e\u0301t\u00e9": {"type": "string", "default": "x\u00e9"},
    },
    "required": ["city"],
}

texts = st.text(st.characters(), max_size=8)  # lone surrogates among them
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, -0.0, 1.5, 5.0, 1e300]) | texts
keys = st.sampled_from(sorted(SCHEMA["properties"])) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=6
)


def text_of(arguments, parameters=None):
    return canonical_text(canonical_arguments(arguments, parameters=parameters))


def differ_after_nfc(value):
    """Whether no two keys of any object become equal in NFC."""
    if isinstance(value, list):
        return all(differ_after_nfc(item) for item in value)
    if isinstance(value, dict):
        names = {unicodedata.normalize("NFC", key) for key in value}
        return len(names) == len(value) and all(differ_after_nfc(item) for item in value.values())
    return True


objects = st.dictionaries(keys, values, max_size=5).filter(differ_after_nfc)


def rewritten(value):
    """The same value, written in the other way wherever there are two."""
    if isinstance(value, str):
        return unicodedata.normalize("NFD", value) if unicodedata.normalize("NFC", value) == value else value
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return float(value) if float(value) == value else value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return tuple(rewritten(item) for item in value)
    if isinstance(value, dict):
        return {rewritten(key): rewritten(value[key]) for key in reversed(value)}
    return value


@given(objects, st.sampled_from([None, SCHEMA]))
def test_it_is_idempotent(arguments, parameters):
    once = canonical_arguments(arguments, parameters=parameters)
    assert canonical_arguments(once, parameters=parameters) == once
    assert text_of(once, parameters) == canonical_text(once)


@given(objects)
def test_key_order_unicode_form_and_whole_floats_make_no_difference(arguments):
    assert text_of(rewritten(arguments)) == text_of(arguments)


@given(objects)
def test_the_text_is_ascii_json_of_the_same_value(arguments):
    canonical = canonical_arguments(arguments)
    text = canonical_text(canonical)
    assert text.isascii()
    assert json.loads(text) == canonical
    assert list(canonical) == sorted(canonical)


@given(objects, objects)
def test_texts_are_equal_for_equal_arguments_alone(first, second):
    same = pairs_of(canonical_arguments(first)) == pairs_of(canonical_arguments(second))
    assert (text_of(first) == text_of(second)) == same


def pairs_of(value):
    """Values that Python compares with their types: True is not 1, and 1 is not 1.0."""
    if isinstance(value, list):
        return [pairs_of(item) for item in value]
    if isinstance(value, dict):
        return {key: pairs_of(item) for key, item in value.items()}
    return type(value).__name__, value


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2.0, "x": 1.0}}),
        ({"a": "x\u00e9"}, {"a": "xe\u0301"}),
        ({"x\u00e9": 1}, {"xe\u0301": 1}),
        ({"a": -0.0}, {"a": 0}),
        ({"a": 1e3}, {"a": 1000}),
        ({"a": "\ud83d\ude00"}, {"a": "\U0001f600"}),
        ({"a": (1, 2)}, {"a": [1, 2]}),
    ],
)
def test_ways_to_write_one_call_are_joined(first, second):
    assert text_of(first) == text_of(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": False}),
        ({"a": None}, {}),
        ({"a": []}, {"a": {}}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": [[1], 2]}, {"a": [[1, 2]]}),
        ({"a": 2**53}, {"a": 2**53 + 1}),
        ({"a": "x"}, {"a": "X"}),
        ({"a": "x"}, {"a": "x "}),
        ({"a": "\ufb01"}, {"a": "fi"}),
        ({"a": '1,"b":2'}, {"a": "1", "b": 2}),
        ({"a": "\0"}, {"a": ""}),
        ({"a": "\ud800"}, {"a": "\ud801"}),
        ({"a": "\\ud800"}, {"a": "\ud800"}),
    ],
)
def test_different_calls_stay_different(first, second):
    assert text_of(first) != text_of(second)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"city": "Rome", "days": 5, "loud": False}, {"city": "Rome"}),
        ({"days": 5.0}, {}),
        ({"days": True, "loud": 0}, {"days": True, "loud": 0}),
        ({"days": None, "loud": None}, {"days": None, "loud": None}),
        ({"at": {"x": 0.0, "note": "1"}}, {"at": {}}),
        ({"at": {"x": 2.0, "note": 1.0}}, {"at": {"x": 2, "note": 1.0}}),
        ({"city": 1.0}, {"city": 1.0}),
        ({"stops": [{"wait": 1.5}, {"wait": 2.0}]}, {"stops": [{}, {"wait": 2}]}),
        ({"stops": []}, {}),
        ({"other": 5.0, "at": 3.0}, {"at": 3, "other": 5}),
        ({"\u00e9t\u00e9": "xe\u0301"}, {}),
        ({"e\u0301t\u00e9": "th\u00e9"}, {"\u00e9t\u00e9": "th\u00e9"}),
    ],
)
def test_the_schema_says_what_is_a_number_and_what_a_default(arguments, expected):
    assert pairs_of(canonical_arguments(arguments, parameters=SCHEMA)) == pairs_of(expected)


@pytest.mark.parametrize(("kind", "expected"), [(["string", "null"], 1.0), (["string", "integer"], 1), ("number", 1)])
def test_a_number_is_unified_where_its_type_may_be_a_number(kind, expected):
    found = canonical_arguments({"a": 1.0}, parameters={"properties": {"a": {"type": kind}}})
    assert pairs_of(found) == pairs_of({"a": expected})


def test_a_required_argument_is_kept_at_its_default():
    schema = {"properties": {"unit": {"default": "km"}}, "required": ["unit"]}
    assert canonical_arguments({"unit": "km"}, parameters=schema) == {"unit": "km"}


@pytest.mark.parametrize("parameters", [{}, {"properties": None}, {"properties": {"a": True}}, {"required": "a"}])
def test_a_schema_that_says_nothing_changes_nothing(parameters):
    assert canonical_arguments({"a": 1.0}, parameters=parameters) == {"a": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([1], "to be an object, but got list"),
        ("{}", "to be an object, but got str"),
        (None, "to be an object, but got NoneType"),
        ({1: 2}, "keys of `arguments` to be strings, but got int"),
        ({"a": {None: 2}}, "keys of `arguments` to be strings, but got NoneType"),
        ({"x\u00e9": 1, "xe\u0301": 2}, "to differ in NFC"),
        ({"a": float("nan")}, "to be finite, but got nan"),
        ({"a": [float("-inf")]}, "to be finite, but got -inf"),
        ({"a": {1, 2}}, "to hold JSON values, but got set"),
        ({"a": b"x"}, "to hold JSON values, but got bytes"),
        ({"a": 10**5000}, "to be below 1e4000"),
    ],
)
def test_what_json_cannot_hold_is_refused(arguments, message):
    with pytest.raises(CacheError, match=message):
        canonical_arguments(arguments)


@pytest.mark.parametrize("wrap", [lambda inner: {"a": inner}, lambda inner: [inner]])
def test_nesting_ends_at_two_hundred(wrap):
    value = 1
    for _ in range(199):
        value = wrap(value)
    assert json.loads(text_of({"a": value})) == {"a": value}
    with pytest.raises(CacheError, match="at most 200 deep"):
        canonical_arguments({"a": wrap(value)})


def test_keys_are_the_sha256_of_the_call_and_its_state():
    call = hashlib.sha256(b'["x\\u00e9",{"a":1}]').digest()
    assert call_key("xe\u0301", '{"a":1}') == call_key("x\u00e9", '{"a":1}') == call
    assert entry_key(call, b"") == call
    assert entry_key(call, b"s" * 32) == hashlib.sha256(call + b"s" * 32).digest()


def test_a_tool_name_cannot_pass_for_arguments():
    assert call_key('a",{}]', "{}") != call_key("a", "{}],{}")
