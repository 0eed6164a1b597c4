import time
from contextlib import nullcontext, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streakline.errors import MissingDependencyError
from streakline.rewards.bfcl import languages
from streakline.rewards.bfcl.languages import read_literal

ARRAY = {"type": "array", "items": {"type": "String"}}
TEXTS = {"type": "ArrayList", "items": {"type": "String"}}
LIST = {"type": "ArrayList", "items": {"type": "integer"}}


def read(text, schema, language):
    return read_literal(text, schema=schema, language=language)


def test_python_arguments_are_values_already():
    assert read("[1]", {"type": "array"}, "python") == "[1]"


@pytest.mark.parametrize(
    ("text", "schema", "language", "value"),
    [
        ("5L", {"type": "long"}, "java", 5),
        ("new ArrayList<>(Arrays.asList(1, 2))", LIST, "java", [1, 2]),
        ("new ArrayList<Integer>() {{ add(1);\n\n   add(2); }}", LIST, "java", [1, 2]),
        ("['a',   'b']", ARRAY, "javascript", ["a", "b"]),
        ("['a\tb',\t\t'c  d']", ARRAY, "javascript", ["a\tb", "c  d"]),
        ('new ArrayList<>(Arrays.asList("a\t b",  "c"))', TEXTS, "java", ["a\t b", "c"]),
        ('new HashMap<>() {{ \n  put("a",   "b  c"); }}', {"type": "HashMap"}, "java", {"a": "b  c"}),
        ("{'a': true}", {"type": "dict"}, "javascript", {"a": True}),
        ("a  b", {"type": "String"}, "java", "a  b"),
        ("five", {"type": "integer"}, "java", "five"),
    ],
)
def test_literals_are_read_by_their_declared_type_and_others_stay_text(text, schema, language, value):
    assert read(text, schema, language) == value


@pytest.mark.parametrize("value", [5, 5.0, True, None, ["a"], {"a": 1}])
def test_a_value_that_is_no_text_is_no_literal(value):
    with pytest.raises(ValueError, match="as text"):
        read(value, {"type": "any"}, "java")


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("9" * 5000, {"type": "integer"}),
        ("x", {"type": "Set"}),
        ("x", {"type": "unknown"}),
    ],
)
def test_what_the_converter_has_no_answer_for_is_no_literal(text, schema):
    with pytest.raises(ValueError, match="Expected a literal of type"):
        read(text, schema, "java")


ENDLESS = [
    ("[" + "[]," * 40 + "x", ARRAY, "javascript"),
    ("[" + "[]," * 15 + "x", ARRAY, "javascript"),
    ("new Array(" + "[]," * 16 + "]" * 900, ARRAY, "javascript"),
    ("new Array(" + "[]," * 12 + "]" * 900, ARRAY, "javascript"),
    ("new Array(" + "[]," * 12 + "x" * 900, ARRAY, "javascript"),
    ("new HashMap<>() {{ '" + " " * 900 + "'", {"type": "HashMap"}, "java"),
    ("new HashMap<>() {{ '" + ("'" + " " * 16) * 50, {"type": "HashMap"}, "java"),
    ("\n" + "new HashMap<a> () {\n " * 46, {"type": "HashMap"}, "java"),
    ("{" + "," * 50_000 + "}", {"type": "dict"}, "javascript"),
    ("new HashMap<>() {" + " " * 50_000, {"type": "HashMap"}, "java"),
    ("new HashMap<" * 40 + "> () {" * 70, {"type": "HashMap"}, "java"),
    ("new ArrayList<>() {{ " + "add(" * 200, LIST, "java"),
    ("1" * 100_000 + "x", {"type": "float"}, "java"),
]


@pytest.mark.parametrize(("text", "schema", "language"), ENDLESS)
def test_no_text_takes_for_ever(text, schema, language):
    started = time.process_time()
    with suppress(ValueError):
        read(text, schema, language)
    assert time.process_time() - started < 0.8


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("[" + "1," * 490 + "1]", True),
        ("[" + "1," * 500 + "1]", False),
        ("[" + ",".join(["[1]"] * 11) + "]", True),
        ("[" + ",".join(["[1]"] * 12) + "]", False),
        ("['" + " " * 16 + "']", True),
        ("['" + " " * 17 + "']", False),
        ("[1," + " " * 5000 + "1]", True),
    ],
)
def test_a_collection_has_a_moderate_size(text, fits):
    with nullcontext() if fits else pytest.raises(ValueError, match="of moderate"):
        assert isinstance(read(text, {"type": "array", "items": {"type": "any"}}, "javascript"), list)


TYPES = {
    "java": [
        "byte",
        "float",
        "long",
        "boolean",
        "char",
        "Array",
        "ArrayList",
        "Set",
        "HashMap",
        "Queue",
        "String",
        "any",
    ],
    "javascript": ["String", "integer", "float", "Bigint", "Boolean", "dict", "array", "any"],
}
PIECES = st.lists(
    st.sampled_from(list("[]{}(),:;'\"<>\n 1e.aLnf")) | st.sampled_from(["new ", "put(", "add(", "ArrayList<>("]),
    max_size=30,
)


@pytest.mark.parametrize("language", ["java", "javascript"])
@given(data=st.data(), text=PIECES.map("".join) | st.text(max_size=30))
def test_any_text_is_a_value_or_no_literal(language, data, text):
    kind, item = (data.draw(st.sampled_from(TYPES[language])) for _ in range(2))
    with suppress(ValueError):
        read(text, {"type": kind, "items": {"type": item}}, language)


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    languages._converter.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="pip install --no-deps"):
        read("5", {"type": "integer"}, "java")
