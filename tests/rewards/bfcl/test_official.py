import ast
import json
import os
import subprocess
import sys

import pytest
from tests.fixtures.episodes import call, episode
from tests.fixtures.worlds import world

from streakline.errors import ConfigError, DataError, MissingDependencyError
from streakline.rewards.bfcl import official, upstream
from streakline.rewards.bfcl.official import OfficialBFCL
from streakline.rewards.bfcl.upstream import check_multi_turn, rebuilt_source
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.types import Termination, ToolCall


@pytest.fixture(scope="module")
def base():
    return BFCLTaskSet("multi_turn_base", limit=1)[0]


def verdict(task, *steps, termination=Termination.ANSWER):
    return OfficialBFCL().score(task, episode(task, steps, termination=termination))


def test_single_turn_calls_are_compared_with_the_accepted_values():
    task = BFCLTaskSet("simple_python", limit=1)[0]
    name = "calculate_triangle_area"
    assert verdict(task, [[call(name, base=10, height=5)]]) == 1.0
    assert verdict(task, [[call(name, base=10, height=5, unit="units")]]) == 1.0
    assert verdict(task, [[call(name, base=10, height=6)]]) == 0.0
    assert verdict(task, [[call(name, base=10)]]) == 0.0
    assert verdict(task, [[call(name, base=10, height=5), call(name, base=10, height=5)]]) == 0.0
    assert verdict(task, []) == 0.0


def test_only_the_first_response_counts_without_a_world():
    task = BFCLTaskSet("simple_python", limit=1)[0]
    right = call("calculate_triangle_area", base=10, height=5)
    assert verdict(task, [[call("calculate_triangle_area", base=1, height=5)], [right]]) == 0.0


def test_parallel_calls_may_come_in_any_order():
    task = BFCLTaskSet("parallel", limit=1)[0]
    calls = list(task.gold[0][0])
    assert len(calls) > 1
    assert verdict(task, [calls]) == verdict(task, [calls[::-1]]) == 1.0
    assert verdict(task, [calls[:1]]) == 0.0


def test_java_arguments_are_literals():
    tasks = {task.id: task for task in BFCLTaskSet("simple_java")}
    task = tasks["bfcl/simple_java/simple_java_22"]
    name = task.tools[0].name
    assert verdict(task, [[call(name, ids="new ArrayList<>(Arrays.asList(101L, 202L, 303L))", newStatus="2")]]) == 1.0
    assert verdict(task, [[call(name, ids=[101, 202, 303], newStatus=2)]]) == 0.0


@pytest.mark.parametrize(
    ("category", "quiet"), [("irrelevance", 1.0), ("live_irrelevance", 1.0), ("live_relevance", 0.0)]
)
def test_irrelevance_wants_no_call_and_relevance_one(category, quiet):
    task = BFCLTaskSet(category, limit=1)[0]
    assert verdict(task, []) == quiet
    assert verdict(task, [[call(task.tools[0].name)]]) == 1.0 - quiet


def test_a_value_that_upstream_cannot_handle_is_wrong_and_no_exception():
    task = BFCLTaskSet("multiple", limit=1)[0]
    gold = task.gold[0][0][0]
    for odd in (None, {"a": {"b": [None]}}, [[{}]], float("nan"), [{1: 2}]):
        odd_call = ToolCall(name=gold.name, arguments=dict.fromkeys(gold.arguments, odd))
        assert verdict(task, [[odd_call]]) == 0.0


def test_a_right_answer_scores_right_after_a_wrong_one(base):
    right = [[list(step) for step in turn] for turn in base.gold]
    wrong = [[[call("rm", file_name="document")]], *right[1:]]
    assert [verdict(base, *steps) for steps in (wrong, right, wrong, right)] == [0.0, 1.0, 0.0, 1.0]


def test_no_world_stays_in_upstreams_globals(base):
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils

    verdict(base, *base.gold)
    assert not [name for name in vars(multi_turn_utils) if name.endswith("_instance")]


def test_an_episode_that_did_not_reach_every_user_turn_is_wrong(base):
    assert verdict(base, *base.gold[:-1]) == 0.0
    assert verdict(base) == 0.0


def test_upstream_does_not_look_at_turns_without_gold():
    task = BFCLTaskSet("multi_turn_miss_param", limit=1)[0]
    empty = task.gold.index(())
    steps = [[*turn, [call("pwd")]] if index == empty else turn for index, turn in enumerate(task.gold)]
    assert verdict(task, *steps) == 1.0


@pytest.mark.parametrize("termination", [Termination.TOOL_ERROR, Termination.ENGINE_ERROR])
def test_an_episode_that_the_machinery_broke_is_unscored(base, termination):
    assert verdict(base, *base.gold, termination=termination) is None


def test_a_verdict_that_takes_too_long_is_unscored(base, monkeypatch):
    monkeypatch.setattr(official, "check_multi_turn", lambda *_: __import__("time").sleep(1))
    assert OfficialBFCL(timeout_s=0.05).score(base, episode(base, base.gold)) is None


HOSTILE = [
    call("ls", a="__import__('os').getpid()"),
    call("__import__('os').getpid"),
    call("cd", folder="x') or __import__('os').getpid() or ('"),
    call("cd", **{"folder=__import__('os').getpid(), x": "1"}),
    call("echo", content="{__import__('os').getpid()}", file_name="'+str(__import__('os').getpid())+'"),
    call("exec", code="__import__('os').getpid()"),
    call("cd", folder={"__class__": "os.getpid()"}),
    call("post_tweet", content="a\\' + __import__('os').getpid() + \\'", tags=["(os.getpid())"]),
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_that_a_model_writes_is_evaluated(base, monkeypatch, hostile):
    ran = []
    monkeypatch.setattr(os, "getpid", lambda: ran.append(1) or 1)
    verdict(base, [[hostile]], *base.gold[1:])
    assert not ran


@pytest.mark.parametrize("hostile", HOSTILE)
def test_rebuilt_source_is_a_known_name_and_literals(base, hostile):
    [[[source]]] = rebuilt_source(base, [[[hostile]]])
    node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Call)
    assert node.func.id in {schema.name for schema in base.tools} | {"no_such_tool"}
    assert not node.args
    for keyword in node.keywords:
        assert ast.literal_eval(keyword.value) == dict(hostile.arguments)


def test_text_with_parentheses_reaches_the_world_unchanged(base):
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import _process_method_calls

    text = "sort (a) then cat(b)"
    [[[source]]] = rebuilt_source(base, [[[call("echo", content=text)]]])
    rewritten = _process_method_calls(source, {"sort": "x", "cat": "x", "echo": "x"})
    [keyword] = ast.parse(rewritten, mode="eval").body.keywords
    assert ast.literal_eval(keyword.value) == {"content": text}


def test_calls_that_the_environment_refused_have_no_effect(base):
    held_back = BFCLTaskSet("multi_turn_miss_func", limit=1)[0]
    steps = [[[call("sort", file_name="final_report.pdf")]], [], [], [[call("sort", file_name="final_report.pdf")]]]
    source = rebuilt_source(held_back, steps)
    assert source[0] == [["no_such_tool()"]]
    assert source[3] == [["sort(**{'file_name': 'final_report.pdf'})"]]
    assert rebuilt_source(base, [[[call("ls", a="yes")]]]) == [[["no_such_tool()"]]]


def test_a_directory_copied_into_itself_gets_a_verdict(base):
    assert check_multi_turn(base, [[[call("cp", source="document", destination="document")]], *base.gold[1:]]) is False


def test_a_task_of_another_source_is_refused():
    task = world()
    with pytest.raises(ConfigError, match="task of BFCL"):
        verdict(task, [])


def test_a_task_that_the_files_do_not_hold_is_named(tmp_path):
    task = BFCLTaskSet("multiple", limit=1)[0]
    (tmp_path / "BFCL_v4_multiple.json").write_text(json.dumps({"id": "multiple_9", "function": []}))
    with pytest.raises(DataError, match="bfcl/multiple/multiple_0"):
        OfficialBFCL(data_dir=str(tmp_path)).score(task, episode(task, task.gold))


def test_a_time_limit_that_is_not_positive_is_refused():
    with pytest.raises(ConfigError, match="`timeout_s`"):
        OfficialBFCL(timeout_s=0)


def test_a_missing_package_is_named_with_its_command(base, monkeypatch):
    task = BFCLTaskSet("simple_python", limit=1)[0]
    trajectory = episode(task, task.gold)
    upstream._ast_checker.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="pip install --no-deps"):
        OfficialBFCL().score(task, trajectory)


def test_checking_leaves_no_stand_in_and_makes_no_folder_beside_the_package():
    program = (
        "import sys\n"
        "from tests.fixtures.episodes import episode\n"
        "from streakline.rewards.bfcl.official import OfficialBFCL\n"
        "from streakline.tasks.bfcl import BFCLTaskSet\n"
        "for category in ('simple_python', 'simple_java', 'multi_turn_base'):\n"
        "    task = BFCLTaskSet(category, limit=1)[0]\n"
        "    assert OfficialBFCL().score(task, episode(task, task.gold)) == 1.0\n"
        "for name in ('model_config', 'eval_config'):\n"
        "    assert 'bfcl_eval.constants.' + name not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
