import json

import pytest

from streakline.rendering.history import format_result


@pytest.mark.parametrize("content", ['{"a": [1, 2]}', "[]", "3", '"x"', "null", '{"größe": 1}'])
def test_json_stays_as_it_was_given(content):
    assert format_result(content, style="json") == content


@pytest.mark.parametrize("content", ["done", "", "{not json", 'say "ö"'])
def test_plain_text_becomes_a_json_string_that_keeps_utf8(content):
    text = format_result(content, style="json")
    assert json.loads(text) == content
    assert "\\u" not in text


def test_writing_twice_is_writing_once():
    once = format_result("done", style="json")
    assert format_result(once, style="json") == once


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("done", "done"),
        ("{not json", "{not json"),
        ('"done"', "done"),
        ("true", "true"),
        ("{}", "{}"),
        ('{"a": 1, "b": "x"}', "a: 1\nb: x"),
        ('{"a": {"b": [1, {"c": null}]}, "d": []}', "a:\n  b:\n    - 1\n    -\n      c: null\nd: []"),
        ("[1, [2, 3]]", "- 1\n-\n  - 2\n  - 3"),
    ],
)
def test_text_is_lines_of_key_and_value(content, text):
    assert format_result(content, style="text") == text
