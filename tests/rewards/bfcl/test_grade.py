import dataclasses
import json
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonargparse import ArgumentParser
from tests.fixtures.episodes import call, episode
from tests.fixtures.worlds import world

from streakline.errors import ConfigError, DataError
from streakline.evaluation.bfcl_parity_mutants import mutants
from streakline.rendering.hermes import parse_assistant
from streakline.rewards.base import Reward
from streakline.rewards.bfcl import grade
from streakline.rewards.bfcl.grade import BFCLGrade
from streakline.rewards.bfcl.official import OfficialBFCL
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.bfcl_source import CATEGORIES, MULTI_TURN, WITHOUT_ANSWERS
from streakline.tasks.exclusions import bfcl_exclusions
from streakline.types import Termination, ToolCall

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
LENIENT, STRICT = BFCLGrade("lenient"), BFCLGrade("strict")
STRICT_REFUSES = {"simple_javascript": 1, "parallel_multiple": 2, "live_multiple": 7}
"""Category -> gold answers whose types, or quotes inside, are not as declared."""


def scores(task, steps, **options):
    return tuple(term.score(task, episode(task, steps, **options)) for term in (LENIENT, STRICT))


def gold_episode(task):
    """An episode that does what the gold says; relevance tasks have none, there any call of a shown tool is right."""
    return episode(task, task.gold or [[[call(task.tools[0].name)]]])


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_gold_answer_is_right(category):
    assert all(LENIENT.score(task, gold_episode(task)) == 1.0 for task in BFCLTaskSet(category))


@pytest.mark.parametrize("category", [category for category in CATEGORIES if category != "live_relevance"])
def test_gold_answers_are_right_in_strict_too_but_for_those_of_another_type_than_declared(category):
    refused = [task.id for task in BFCLTaskSet(category) if STRICT.score(task, gold_episode(task)) != 1.0]
    assert len(refused) == STRICT_REFUSES.get(category, 0)


def test_gold_answers_of_excluded_tasks_are_wrong():
    excluded = [
        task
        for category in CATEGORIES
        if any(f"/{category}/" in name for name in bfcl_exclusions())
        for task in BFCLTaskSet(category, exclusions=False)
        if task.id in bfcl_exclusions()
    ]
    assert len(excluded) == len(bfcl_exclusions())
    assert {LENIENT.score(task, gold_episode(task)) for task in excluded} == {0.0}


@pytest.mark.parametrize("category", CATEGORIES)
def test_what_strict_calls_right_lenient_does(category):
    for task in BFCLTaskSet(category, limit=8):
        for _, steps in mutants(task, count=8, seed=5):
            lenient, strict = scores(task, steps)
            assert strict <= lenient


@pytest.fixture(scope="module")
def triangle():
    return BFCLTaskSet("simple_python", limit=1)[0]


RIGHT = call("calculate_triangle_area", base=10, height=5)


def test_the_first_response_alone_counts_without_a_world(triangle):
    wrong = call("calculate_triangle_area", base=1, height=5)
    assert scores(triangle, [[[RIGHT], [wrong]]]) == (1.0, 1.0)
    assert scores(triangle, [[[wrong], [RIGHT]]]) == (0.0, 0.0)
    assert scores(triangle, []) == (0.0, 0.0)


def test_strict_wants_an_episode_that_ended_by_itself(triangle):
    assert scores(triangle, [[[RIGHT]]], termination=Termination.MAX_TURNS) == (1.0, 0.0)
    assert scores(triangle, [[[RIGHT]]], termination=Termination.ENVIRONMENT_DONE) == (1.0, 1.0)


@pytest.mark.parametrize("termination", [Termination.TOOL_ERROR, Termination.ENGINE_ERROR])
def test_an_episode_that_the_machinery_broke_is_unscored(triangle, termination):
    assert scores(triangle, [[[RIGHT]]], termination=termination) == (None, None)


def written(task, text):
    """Verdicts on an episode whose one turn is a text of the policy's."""
    parsed = parse_assistant(text)
    whole = episode(task, [[parsed.message.tool_calls]] if parsed.message.tool_calls else [[]])
    first = dataclasses.replace(whole.turns[0], malformed_calls=len(parsed.errors))
    trajectory = dataclasses.replace(whole, turns=(first, *whole.turns[1:]))
    return LENIENT.score(task, trajectory), STRICT.score(task, trajectory)


def block(name, arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_a_call_in_thinking_is_none(triangle):
    drafted = f"<think>{block(RIGHT.name, dict(RIGHT.arguments))}</think>"
    assert written(triangle, drafted) == (0.0, 0.0)
    irrelevant = BFCLTaskSet("irrelevance", limit=1)[0]
    assert written(irrelevant, f"{drafted}I can't.") == (1.0, 1.0)


def test_arguments_encoded_once_more_are_read_and_a_value_encoded_once_more_is_a_text(triangle):
    assert written(triangle, block(RIGHT.name, json.dumps(dict(RIGHT.arguments)))) == (1.0, 1.0)
    assert written(triangle, block(RIGHT.name, {"base": "10", "height": 5})) == (0.0, 0.0)


def test_only_strict_minds_a_call_that_can_not_be_read_beside_a_right_one(triangle):
    text = block(RIGHT.name, dict(RIGHT.arguments)) + "<tool_call>area(3, 4)</tool_call>"
    assert written(triangle, text) == (1.0, 0.0)


@pytest.mark.parametrize("category", ["irrelevance", "live_irrelevance"])
def test_irrelevance_wants_no_call(category):
    task = BFCLTaskSet(category, limit=1)[0]
    assert scores(task, [[]]) == (1.0, 1.0)
    assert scores(task, [[[call("anything")]]]) == (0.0, 0.0)


def test_relevance_wants_a_call_and_strict_one_that_fits_its_schema():
    task = BFCLTaskSet("live_relevance", limit=1)[0]
    schema = task.tools[0]
    fitting = dict.fromkeys(schema.parameters["required"], "x")
    assert scores(task, [[]]) == (0.0, 0.0)
    assert scores(task, [[[call("anything")]]]) == (1.0, 0.0)
    assert scores(task, [[[call(schema.name, **fitting)]]]) == (1.0, 1.0)


@pytest.mark.parametrize("category", sorted(MULTI_TURN))
def test_an_episode_that_did_not_reach_every_user_turn_is_wrong(category):
    task = BFCLTaskSet(category, limit=1)[0]
    assert scores(task, task.gold) == (1.0, 1.0)
    assert scores(task, task.gold[:-1]) == (0.0, 0.0)
    assert scores(task, task.gold, executed=False) == (0.0, 0.0)


def test_a_verdict_that_takes_too_long_is_unscored(monkeypatch):
    task = BFCLTaskSet("multi_turn_base", limit=1)[0]
    monkeypatch.setattr(grade, "follows_gold", lambda *_, **__: time.sleep(1))
    assert BFCLGrade("lenient", timeout_s=0.05).score(task, gold_episode(task)) is None


def deep(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


NTH = 70
"""Of the tasks of a category, one in so many is tried; each has a first one."""
ODD = {
    "deep list": deep(100_000),
    "deep dictionary": {"a": deep(100_000)},
    "huge": 10**5000,
    "NaN": float("nan"),
    "infinity": 1e400,
    "surrogate": "\ud800",
    "number as key": {1: 2},
    "null": None,
    "zero bytes": "\x00" * 9,
}


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("odd", ODD)
def test_odd_arguments_get_a_verdict(category, odd):
    for task in list(BFCLTaskSet(category))[::NTH]:
        calls = [call(tool.name, **dict.fromkeys(tool.parameters["properties"], ODD[odd])) for tool in task.tools]
        unknown = ToolCall(name="unknown", arguments={1: ODD[odd]})
        steps = [[[*calls, unknown]], *[[]] * (len(task.requests) - 1)]
        assert set(scores(task, steps)) <= {0.0, 1.0}
        expected = 1.0 if category == "live_relevance" else 0.0
        assert scores(task, steps)[0] == expected
        assert OfficialBFCL().score(task, episode(task, steps)) == expected


@pytest.mark.parametrize("category", sorted(MULTI_TURN))
@pytest.mark.parametrize("odd", ODD)
def test_refused_calls_with_odd_arguments_leave_a_right_answer_right_but_in_strict(category, odd):
    for task in list(BFCLTaskSet(category))[::NTH]:
        refused = [ToolCall(name="unknown", arguments={1: ODD[odd]}), call(task.tools[0].name, unknown=ODD[odd])]
        steps = [[refused, *task.gold[0]], *task.gold[1:]]
        assert scores(task, steps) == (1.0, 0.0)
        assert OfficialBFCL().score(task, episode(task, steps)) == 1.0


@pytest.mark.parametrize("category", [name for name in CATEGORIES if name not in MULTI_TURN | WITHOUT_ANSWERS])
@pytest.mark.parametrize("odd", ODD)
def test_one_odd_argument_makes_a_right_call_wrong(category, odd):
    for task in list(BFCLTaskSet(category))[::NTH]:
        first, *rest = task.gold[0][0]
        for name in first.arguments:
            changed = dataclasses.replace(first, arguments={**first.arguments, name: ODD[odd]})
            assert scores(task, [[[changed, *rest]]]) == (0.0, 0.0)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters(categories=["Cs"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
TASKS = [BFCLTaskSet(category, limit=1)[0] for category in CATEGORIES if category not in WITHOUT_ANSWERS]


@given(task=st.sampled_from(TASKS), data=st.data())
def test_any_arguments_get_a_verdict(task, data):
    steps = [[list(calls) for calls in user_turn] for user_turn in task.gold]
    gold = steps[0][0][0]
    arguments = data.draw(st.fixed_dictionaries(dict.fromkeys(gold.arguments, VALUES)))
    steps[0][0][0] = dataclasses.replace(gold, arguments=arguments)
    lenient, strict = scores(task, steps)
    assert strict <= lenient <= 1.0


@pytest.mark.parametrize(
    ("steps", "termination", "expected"),
    [
        ([[[RIGHT]]], Termination.ANSWER, (1.0, 1.0)),
        ([[[RIGHT]]], Termination.MAX_TURNS, (1.0, 0.0)),
        ([[]], Termination.ANSWER, (0.0, 0.0)),
    ],
)
def test_both_verdicts_are_reported_and_the_lenient_one_is_the_reward(triangle, steps, termination, expected):
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--part", type=Reward, enable_path=True)
    path = CONFIGS / "reward" / "bfcl.yaml"
    reward = parser.instantiate_classes(parser.parse_args([f"--part={path}"])).part
    scored = reward(triangle, episode(triangle, steps, termination=termination))
    assert scored.reward_terms == {"lenient": expected[0], "strict": expected[1]}
    assert scored.reward == expected[0]


def test_each_experiment_of_bfcl_has_that_reward():
    paths = list((CONFIGS / "experiment").glob("bfcl_*.yaml"))
    assert paths
    for path in paths:
        model = yaml.safe_load(path.read_text(encoding="utf-8"))["model"]["init_args"]
        assert model["reward"] == "../reward/bfcl.yaml"


def test_a_task_of_another_source_is_refused():
    task = world()
    with pytest.raises(ConfigError, match="task of BFCL"):
        LENIENT.score(task, episode(task, []))


def test_a_task_that_the_files_do_not_hold_is_named(tmp_path):
    task = BFCLTaskSet("multiple", limit=1)[0]
    (tmp_path / "BFCL_v4_multiple.json").write_text(json.dumps({"id": "multiple_9", "function": []}))
    with pytest.raises(DataError, match="bfcl/multiple/multiple_0"):
        BFCLGrade("strict", data_dir=str(tmp_path)).score(task, episode(task, task.gold))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"mode": "loose"}, "`mode` to be strict or lenient"), ({"mode": "strict", "timeout_s": 0}, "`timeout_s`")],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        BFCLGrade(**options)
