import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from streakline.environment.json_schema import argument_errors, to_json_schema

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "A name."},
        "count": {"type": "integer"},
        "share": {"type": "number", "default": 0.5},
        "quick": {"type": "boolean"},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "mode": {"type": "string", "enum": ["l", "w"]},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("dict", "object"),
        ("HashMap", "object"),
        ("float", "number"),
        ("double", "number"),
        ("tuple", "array"),
        ("ArrayList", "array"),
        ("long", "integer"),
        ("Boolean", "boolean"),
        ("String", "string"),
        ("any", "string"),
        ("number", "number"),
    ],
)
def test_type_names_become_json_schemas(source, target):
    assert to_json_schema({"type": source}) == {"type": target}


def test_nested_types_are_brought_along_and_the_result_is_a_valid_schema():
    source = {
        "type": "dict",
        "properties": {
            "rows": {"type": "array", "items": {"type": "dict", "properties": {"x": {"type": "float"}}}},
            "odd": {"type": "", "required": True, "description": "No type."},
        },
        "required": ["rows"],
    }
    before = json.dumps(source)
    result = to_json_schema(source)
    Draft202012Validator.check_schema(result)
    assert result["properties"]["rows"]["items"]["properties"]["x"] == {"type": "number"}
    assert result["properties"]["odd"] == {"description": "No type."}
    assert json.dumps(source) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "a"}, ""),
        ({"name": "a", "share": 1}, ""),
        ({"name": "a", "count": 2, "quick": True, "sizes": [1, 2], "mode": "w"}, ""),
        ({}, "Expected `name` to be given, but got no arguments"),
        ({"count": 1}, "Expected `name` to be given, but got only `count`"),
        ({"name": 3}, "Expected `name` to be of type string, but got 3"),
        ({"name": "a", "count": True}, "Expected `count` to be of type integer, but got true"),
        ({"name": "a", "count": 2.0}, "Expected `count` to be of type integer, but got 2.0"),
        ({"name": "a", "share": False}, "Expected `share` to be of type number, but got false"),
        ({"name": "a", "share": "0.5"}, 'Expected `share` to be of type number, but got "0.5"'),
        ({"name": "a", "sizes": [1, "b"]}, 'Expected `sizes.1` to be of type integer, but got "b"'),
        ({"name": "a", "mode": "x"}, 'Expected `mode` to be one of "l", "w", but got "x"'),
        ({"name": None}, "Expected `name` to be of type string, but got null"),
    ],
)
def test_the_first_fault_is_named(arguments, message):
    assert argument_errors(arguments, parameters=SCHEMA) == message


def test_an_unknown_argument_is_refused_with_the_known_ones():
    message = argument_errors({"name": "a", "title": "b"}, parameters=SCHEMA)
    assert "`title`" in message
    assert "`name`, `count`" in message
    assert "none" in argument_errors({"x": 1}, parameters={"type": "object", "properties": {}})


def test_a_long_value_is_shortened():
    assert len(argument_errors({"name": ["x" * 5000]}, parameters=SCHEMA)) < 200
    assert len(argument_errors({"name": "a", "x" * 5000: 1}, parameters=SCHEMA)) < 200


def test_a_bottomless_value_is_an_error_and_no_exception():
    value: list[object] = []
    for _ in range(5000):
        value = [value]
    deep = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"items": {"$ref": "#/$defs/x"}}},
    }
    assert "depth" in argument_errors({"x": value}, parameters=deep)


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(-2, 2),
    st.text(max_size=2),
    st.lists(st.integers(0, 2), max_size=2),
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(SCHEMA["properties"])), values))
def test_arguments_are_faulty_where_json_schema_says_so_or_an_integer_is_written_as_a_float(arguments):
    expected = "name" in arguments and Draft202012Validator(SCHEMA).is_valid(arguments)
    integral = [arguments.get("count"), *(arguments["sizes"] if isinstance(arguments.get("sizes"), list) else [])]
    expected = expected and not any(isinstance(value, float) for value in integral)
    assert (not argument_errors(arguments, parameters=SCHEMA)) == expected


def test_a_long_list_of_faults_costs_no_more_than_the_first_few():
    schema = {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}}}}
    started = time.process_time()
    assert "`names.0` to be of type string" in argument_errors({"names": list(range(100_000))}, parameters=schema)
    assert time.process_time() - started < 1
