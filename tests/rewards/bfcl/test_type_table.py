"""The table of types in docs/grading.md, row by row."""

import json
import re
from pathlib import Path

import pytest

from streakline.rewards.bfcl.official import described_functions
from streakline.rewards.bfcl.single_turn import call_fits
from streakline.tasks.bfcl_source import CATEGORIES, MULTI_TURN, WITHOUT_ANSWERS, language
from streakline.types import ToolCall

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "grading.md"
TITLE = "| type | accepted | right in both | right in lenient alone | wrong in both |"
LANGUAGES = {"Java": "java", "JavaScript": "javascript"}


def cells(row):
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def values(cell):
    return [json.loads(text) for text in re.findall(r"`([^`]+)`", cell)]


def schemas(cell):
    """Each `type` or `type` of `item type` that a cell names."""
    for name, item in re.findall(r"`(\w+)`(?: of `(\w+)`)?", cell):
        yield {"type": name, "items": {"type": item}} if item else {"type": name}


def rows():
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = lines.index(TITLE) + 2
    for line in lines[start:]:
        if not line.startswith("|"):
            return
        kind, accepted, both, lenient, wrong = cells(line)
        language = LANGUAGES.get(kind.split()[0], "python")
        for schema in schemas(kind):
            yield pytest.param(
                schema, language, *map(values, (accepted, both, lenient, wrong)), id=f"{kind} {accepted}"
            )


def fits(value, options, *, schema, language, mode):
    call = ToolCall(name="f", arguments={"x": value})
    functions = {"f": {"properties": {"x": schema}, "required": []}}
    return call_fits(call, {"f": {"x": options}}, functions=functions, language=language, mode=mode)


@pytest.mark.parametrize(("schema", "language", "options", "both", "lenient", "wrong"), list(rows()))
def test_a_row_says_what_the_grader_does(schema, language, options, both, lenient, wrong):
    assert both + lenient + wrong
    verdicts = {
        mode: [fits(value, options, schema=schema, language=language, mode=mode) for value in both + lenient + wrong]
        for mode in ("strict", "lenient")
    }
    assert verdicts["strict"] == [True] * len(both) + [False] * (len(lenient) + len(wrong))
    assert verdicts["lenient"] == [True] * (len(both) + len(lenient)) + [False] * len(wrong)


def declared(schemas):
    """Type and type of items of each parameter, and of all that is declared inside."""
    for schema in schemas:
        items, properties = schema.get("items"), schema.get("properties")
        if isinstance(schema.get("type"), str) and schema["type"]:
            yield schema["type"], items.get("type") if isinstance(items, dict) else None
        yield from declared([items] if isinstance(items, dict) else [])
        yield from declared(list(properties.values()) if isinstance(properties, dict) else [])


@pytest.mark.parametrize("spoken", ["python", "java", "javascript"])
def test_the_table_has_every_type_that_the_data_declares(spoken):
    functions = [
        function
        for category in CATEGORIES
        if category not in MULTI_TURN | WITHOUT_ANSWERS and language(category) == spoken
        for described in described_functions(category, None).values()
        for function in described
    ]
    assert functions
    parameters = [each for function in functions for each in function["parameters"]["properties"].values()]
    shown = [row.values[0] for row in rows() if row.values[1] == spoken]
    assert set(declared(parameters)) <= set(declared(shown))
