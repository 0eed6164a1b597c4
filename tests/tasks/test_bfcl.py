import json

import pytest

from streakline.environment.json_schema import to_json_schema
from streakline.environment.simulators import tool_functions
from streakline.errors import ConfigError, DataError, MissingDependencyError
from streakline.tasks import bfcl_source
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.bfcl_gold import example_call, parse_call
from streakline.tasks.bfcl_source import CATEGORIES, MULTI_TURN, check_category
from streakline.types import Role, ToolCall

SIZES = {
    "simple_python": 400,
    "simple_java": 100,
    "simple_javascript": 50,
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 200,
    "irrelevance": 240,
    "live_simple": 258,
    "live_multiple": 1053,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
    "live_irrelevance": 884,
    "live_relevance": 16,
    "multi_turn_base": 200,
    "multi_turn_miss_func": 200,
    "multi_turn_miss_param": 200,
    "multi_turn_long_context": 200,
}
FILES = tool_functions("GorillaFileSystem")


@pytest.fixture
def upstream(tmp_path, monkeypatch):
    """Upstream's loader, kept from making folders beside the package when it is imported."""
    monkeypatch.setenv("BFCL_PROJECT_ROOT", str(tmp_path))
    from bfcl_eval.utils import load_dataset_entry

    return load_dataset_entry


def folder_with(tmp_path, *, category, rows, answers=None):
    """A data folder with one category; rows are written as they are where they are text."""

    def write(path, items):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in items))

    write(tmp_path / f"BFCL_v4_{category}.json", rows)
    if answers is not None:
        write(tmp_path / "possible_answer" / f"BFCL_v4_{category}.json", answers)
    bfcl_source.read_rows.cache_clear()
    return str(tmp_path)


ROW = {
    "id": "simple_python_0",
    "question": [[{"role": "user", "content": "Double 2."}]],
    "function": [
        {
            "name": "maths.double",
            "description": "Doubles.",
            "parameters": {"type": "dict", "properties": {"x": {"type": "float"}}, "required": ["x"]},
        }
    ],
}
ANSWER = {"id": "simple_python_0", "ground_truth": [{"maths.double": {"x": [2.0]}}]}


def test_the_categories_are_upstreams_without_the_refused_ones(upstream):
    from bfcl_eval.constants.category_mapping import AGENTIC_CATEGORY, ALL_CATEGORIES, NON_SCORING_CATEGORY

    assert set(CATEGORIES) == set(ALL_CATEGORIES) - set(AGENTIC_CATEGORY) - set(NON_SCORING_CATEGORY)


@pytest.mark.parametrize("category", CATEGORIES)
def test_tasks_show_what_upstream_shows(upstream, category):
    tasks = BFCLTaskSet(category, exclusions=False)
    entries = upstream(category)
    assert len(tasks) == len(entries) == SIZES[category]
    for task, entry in zip(tasks, entries, strict=True):
        assert task.id == f"bfcl/{category}/{entry['id']}"
        assert [tool.name for tool in task.tools] == [function["name"] for function in entry["function"]]
        assert [tool.description for tool in task.tools] == [function["description"] for function in entry["function"]]
        for tool, function in zip(task.tools, entry["function"], strict=True):
            assert tool.parameters == to_json_schema(function["parameters"])
        said = [message["content"] for turn in entry["question"] for message in turn]
        shown = [message.content for request in task.requests for message in request]
        assert [text for text in shown if not text.startswith("I have updated some more")] == [
            text for text in said if text != task.system
        ]


@pytest.mark.parametrize("category", sorted(MULTI_TURN))
def test_multi_turn_tasks_have_a_world_and_gold_for_every_user_turn(category):
    for task in BFCLTaskSet(category, limit=50):
        assert task.simulators
        assert set(task.initial_state) <= set(task.simulators)
        assert len(task.gold) == len(task.requests)
        assert task.long_context == (category == "multi_turn_long_context")


def test_positional_gold_arguments_get_their_names():
    task = BFCLTaskSet("multi_turn_base", limit=1)[0]
    assert task.gold[2] == ((ToolCall(name="sort", arguments={"file_name": "final_report.pdf"}),),)
    assert [step[0].name for step in task.gold[0]] == ["cd", "mkdir", "mv"]


def test_held_out_tools_are_revealed_with_upstreams_request():
    task = BFCLTaskSet("multi_turn_miss_func", limit=1)[0]
    assert "sort" not in {tool.name for tool in task.tools}
    assert [tool.name for tool in task.revealed_tools[3]] == ["sort"]
    assert [message.content for message in task.requests[3]] == [
        "I have updated some more functions you can choose from. What about now?"
    ]
    assert task.gold[2] == ()


def test_excluded_functions_are_hidden_on_request_only():
    shown, hidden = (BFCLTaskSet("multi_turn_base", limit=1, hide_excluded_functions=hide)[0] for hide in (False, True))
    assert {tool.name for tool in shown.tools} - {tool.name for tool in hidden.tools} == {"cp"}


def test_a_leading_system_message_is_the_system_prompt():
    tasks = BFCLTaskSet("live_simple").tasks()
    assert sum(bool(task.system) for task in tasks) == 11
    assert all(message.role is Role.USER for task in tasks for message in task.requests[0])


def test_a_history_is_kept_as_messages():
    roles = {message.role for task in BFCLTaskSet("live_irrelevance") for message in task.requests[0]}
    assert Role.ASSISTANT in roles


def test_names_keep_their_dots_and_gold_is_an_example_of_the_accepted_values():
    task = next(task for task in BFCLTaskSet("simple_python") if "." in task.tools[0].name)
    [[[gold]]] = task.gold
    assert gold.name == task.tools[0].name
    accepted = task.answers[0][gold.name]
    assert all(value in accepted[name] for name, value in gold.arguments.items())


def test_irrelevance_means_calling_nothing_and_relevance_has_no_gold():
    assert BFCLTaskSet("irrelevance", limit=1)[0].gold == ((),)
    assert BFCLTaskSet("live_relevance", limit=1)[0].gold == ()


def test_limit_and_offset_keep_parts_apart():
    every = [task.id for task in BFCLTaskSet("multiple")]
    assert [task.id for task in BFCLTaskSet("multiple", limit=5)] == every[:5]
    assert [task.id for task in BFCLTaskSet("multiple", limit=5, offset=5)] == every[5:10]
    assert [task.id for task in BFCLTaskSet("multiple", offset=190)] == every[190:]
    with pytest.raises(IndexError):
        BFCLTaskSet("multiple", limit=5)[5]


@pytest.mark.parametrize("numbers", [{"limit": 0}, {"offset": -1}])
def test_impossible_windows_are_refused(numbers):
    with pytest.raises(ConfigError, match="`limit` >= 1"):
        BFCLTaskSet("multiple", **numbers)


def test_an_unknown_category_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"one of simple_python, .*multi_turn_base.*but got 'simple'"):
        BFCLTaskSet("simple")


@pytest.mark.parametrize("category", ["web_search_base", "memory_kv", "memory", "format_sensitivity"])
def test_categories_that_cannot_run_offline_are_refused_with_the_reason(category):
    with pytest.raises(ConfigError, match=f"{category}.*: it"):
        check_category(category)


def test_nothing_is_read_before_the_first_use(tmp_path):
    tasks = BFCLTaskSet("multiple", data_dir=str(tmp_path / "none"))
    with pytest.raises(DataError, match="Expected `data_dir` to be a folder"):
        len(tasks)


def test_a_folder_of_ones_own_is_read(tmp_path):
    folder = folder_with(tmp_path, category="simple_python", rows=[ROW, ""], answers=[ANSWER])
    [task] = BFCLTaskSet("simple_python", data_dir=folder)
    assert task.gold == (((ToolCall(name="maths.double", arguments={"x": 2.0}),),),)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"BFCL_v4_simple_python\.json, but got no such file"):
        len(BFCLTaskSet("simple_python", data_dir=str(tmp_path)))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{broken", r"BFCL_v4_simple_python\.json:2"),
        ("[1]", "with an `id`"),
        ({"question": []}, "with an `id`"),
        ({**ROW, "id": "b", "question": [[]]}, "user turn 0 to hold a message"),
        ({**ROW, "id": "b", "question": [[{"role": "wizard", "content": ""}]]}, "wizard"),
        ({**ROW, "id": "b", "function": {}}, "`function` to be a list"),
        ({"id": "b", "question": ROW["question"]}, "no 'function'"),
        ({**ROW, "id": "c"}, "Expected a possible answer for c"),
        ({**ROW, "id": "d"}, "a described function, but got 'other'"),
    ],
)
def test_a_malformed_row_is_named_with_file_and_line(tmp_path, row, message):
    answers = [ANSWER, {**ANSWER, "id": "b"}, {"id": "d", "ground_truth": [{"other": {"x": [1]}}]}]
    folder = folder_with(tmp_path, category="simple_python", rows=[ROW, row], answers=answers)
    with pytest.raises(DataError, match=message) as caught:
        len(BFCLTaskSet("simple_python", data_dir=folder))
    assert "BFCL_v4_simple_python.json:2" in str(caught.value)


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="pip install --no-deps"):
        len(BFCLTaskSet("multiple"))


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("mv(source='a', destination='b')", {"source": "a", "destination": "b"}),
        ("mv('a', destination='b')", {"source": "a", "destination": "b"}),
        ("tail('a', -3)", {"file_name": "a", "lines": -3}),
        ("ls()", {}),
        (
            "grep('a', pattern=['x', (1, 2.5), {'k': None}])",
            {"file_name": "a", "pattern": ["x", [1, 2.5], {"k": None}]},
        ),
    ],
)
def test_gold_source_is_parsed_to_names_and_literals(source, arguments):
    call = parse_call(source, functions=FILES)
    assert call.arguments == arguments


@pytest.mark.parametrize(
    "source",
    [
        "ls(a=__import__('os').getpid())",
        "cd(folder='a' + 'b')",
        "cd(open('x'))",
        "__import__('os').system('x')",
        "nonsense()",
        "cd(**{'folder': 'a'})",
        "cd('a', folder='b')",
        "cd('a', 'b')",
        "cd",
        "cd(",
        "cd('a'); cd('b')",
    ],
)
def test_source_that_is_no_literal_call_is_refused_and_not_run(source):
    with pytest.raises(DataError, match="Expected"):
        parse_call(source, functions=FILES)


def test_an_example_leaves_out_what_may_be_left_out():
    function = {
        "name": "f",
        "parameters": {
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": "string"},
                "c": {"type": "dict"},
                "d": {"type": "array", "items": {"type": "dict"}},
            },
            "required": ["a"],
        },
    }
    accepted = {"f": {"a": ["", 1], "b": ["x", ""], "c": [{"k": ["v", "w"], "o": ["", 1]}], "d": [[{"k": [1]}]]}}
    assert example_call(accepted, functions=[function], language="python").arguments == {
        "a": 1,
        "c": {"k": "v"},
        "d": [{"k": 1}],
    }
