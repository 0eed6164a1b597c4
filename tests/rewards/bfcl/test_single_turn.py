from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.episodes import call

from streakline.rewards.bfcl.single_turn import assign_calls, call_fits, is_accepted

FUNCTIONS = {
    "weather": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
    "sum": {"properties": {"numbers": {"type": "array", "items": {"type": "float"}}}, "required": ["numbers"]},
}


def answer(name, **accepted):
    return {name: accepted}


def assigned(calls, *answers, mode="lenient"):
    return assign_calls(calls, answers=answers, functions=FUNCTIONS, language="python", mode=mode)


def fits(one, accepted):
    return call_fits(one, accepted, functions=FUNCTIONS, language="python", mode="lenient")


EITHER, OSLO, ROME = (answer("weather", city=names) for names in (["Oslo", "Rome"], ["Oslo"], ["Rome"]))
TO_OSLO, TO_ROME = call("weather", city="Oslo"), call("weather", city="Rome")


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_parallel_calls_are_matched_as_a_whole_in_whatever_order(mode):
    assert assigned([TO_OSLO, TO_ROME], EITHER, OSLO, mode=mode) == [1, 0]
    assert assigned([TO_ROME, TO_OSLO], EITHER, OSLO, mode=mode) == [0, 1]
    assert assigned([TO_ROME, TO_OSLO, TO_OSLO], OSLO, EITHER, ROME, mode=mode) is not None
    assert assigned([TO_OSLO, TO_OSLO], EITHER, ROME, mode=mode) is None


def test_there_are_as_many_calls_as_answers():
    assert assigned([], OSLO) is None
    assert assigned([TO_OSLO, TO_OSLO], OSLO) is None
    assert assigned([TO_OSLO], OSLO, OSLO) is None
    assert assigned([]) == []


@pytest.mark.parametrize(
    ("arguments", "is_right"),
    [
        ({"city": "Oslo"}, True),
        ({"city": "Oslo", "days": 2}, True),
        ({"city": "Oslo", "days": 3}, False),
        ({"days": 2}, False),
        ({"city": "Oslo", "hours": 2}, False),
        ({}, False),
    ],
)
def test_parameters_are_those_of_the_answer(arguments, is_right):
    assert fits(call("weather", **arguments), answer("weather", city=["Oslo"], days=[2, ""])) == is_right


def test_a_parameter_that_may_not_be_left_out_is_needed_whether_required_or_not():
    assert not fits(TO_OSLO, answer("weather", city=["Oslo"], days=[2]))
    assert not fits(call("weather", days=2), answer("weather", city=["Oslo", ""], days=[2]))


def test_a_parameter_that_only_the_answer_knows_can_be_left_out_alone():
    accepted = answer("weather", city=["Oslo"], hours=[2, ""])
    assert fits(TO_OSLO, accepted)
    assert not fits(call("weather", city="Oslo", hours=2), accepted)


def test_another_function_or_one_that_is_not_described_is_wrong():
    assert not fits(call("Weather", city="Oslo"), OSLO)
    assert not fits(call("news"), answer("news"))


@pytest.mark.parametrize("options", [[[1.0, 2.0]], [[1.0, 2.0], ""]])
def test_whole_numbers_count_as_floats_inside_a_list_whether_it_may_be_left_out_or_not(options):
    assert fits(call("sum", numbers=[1, 2]), answer("sum", numbers=options))
    assert not fits(call("sum", numbers=[True, 2]), answer("sum", numbers=options))


@pytest.mark.parametrize("arguments", ['{"city": "Oslo"}', None, ["city"], 3])
def test_arguments_that_are_no_object_are_wrong(arguments):
    odd = call("weather")
    object.__setattr__(odd, "arguments", arguments)
    assert not fits(odd, OSLO)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANY_JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
SCHEMAS = st.sampled_from(
    [{"type": name} for name in ("string", "integer", "float", "boolean", "dict", "any", "array", "tuple", "odd")]
    + [{"type": "array", "items": {"type": name}} for name in ("string", "float", "dict", "array")]
    + [{}, {"type": ["string"]}, {"type": "dict", "properties": {"": {"type": "float"}}}]
)


def without_nan(value):
    if isinstance(value, list):
        return all(map(without_nan, value))
    return all(map(without_nan, value.values())) if isinstance(value, dict) else value == value


@given(value=ANY_JSON, options=st.lists(ANY_JSON, max_size=4), schema=SCHEMAS)
def test_any_value_gets_a_verdict_and_what_strict_takes_lenient_takes(value, options, schema):
    strict, lenient = (is_accepted(value, options, schema=schema, mode=mode) for mode in ("strict", "lenient"))
    assert strict in (True, False)
    assert lenient or not strict


@given(value=st.recursive(SCALARS, st.lists, max_leaves=8).filter(without_nan).filter(lambda value: value != ""))
def test_a_value_of_no_declared_type_is_accepted_as_it_is(value):
    assert is_accepted(value, [value], schema={}, mode="strict")
    assert is_accepted(value, [value], schema={}, mode="lenient")


def deep(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


ODD = {
    "deep list": deep(100_000),
    "deep dictionary": {"a": deep(100_000)},
    "huge": 10**5000,
    "NaN": float("nan"),
    "infinity": 1e400,
    "surrogate": "\ud800",
    "number as key": {1: 2},
    "null as key": {None: []},
    "tuple": (1,),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("schema", [{"type": "float"}, {"type": "dict"}, {"type": "array", "items": {"type": "float"}}])
def test_odd_values_are_wrong_and_no_exception(odd, mode, schema):
    for options in ([1.0], [{"a": [1.0], "": [2]}], [[1.0]], ["a"], [None, ""]):
        assert not is_accepted(ODD[odd], options, schema=schema, mode=mode)


CITIES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3)


@given(accepted=st.lists(CITIES, min_size=1, max_size=4), data=st.data())
def test_calls_and_answers_are_matched_wherever_some_order_of_the_calls_fits(accepted, data):
    cities = [data.draw(st.sampled_from("abcd")) for _ in accepted]
    calls = [call("weather", city=city) for city in cities]
    answers = [answer("weather", city=options) for options in accepted]
    found = assigned(calls, *answers, mode="strict")
    orders = permutations(range(len(calls)))
    fitting = [
        order for order in orders if all(cities[i] in options for i, options in zip(order, accepted, strict=True))
    ]
    assert (found is not None) == bool(fitting)
    assert found is None or tuple(found) in fitting
