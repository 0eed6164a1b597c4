import dataclasses

import pytest
from tests.fixtures.episodes import call

from streakline.evaluation import bfcl_parity, bfcl_parity_leaves, bfcl_parity_rules
from streakline.evaluation.bfcl_parity import GradedAnswer, answer_episode, compare_category
from streakline.evaluation.bfcl_parity_mutants import gold_steps
from streakline.evaluation.bfcl_parity_report import figures, render_parity
from streakline.evaluation.bfcl_parity_rules import MEANING, Difference, explain
from streakline.evaluation.bfcl_parity_sources import effect_free_source, literal_source, upstream_verdicts
from streakline.rewards.bfcl import official
from streakline.rewards.bfcl.grade import BFCLGrade
from streakline.rewards.bfcl.official import OfficialBFCL
from streakline.rewards.bfcl.single_turn import is_accepted
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.bfcl_source import CATEGORIES, MULTI_TURN, WITHOUT_ANSWERS


def task_of(task_id):
    category = task_id.split("/")[1]
    return next(task for task in BFCLTaskSet(category, exclusions=False) if task.id == task_id)


def verdicts(task, steps):
    trajectory = answer_episode(task, steps)
    if task.kind in MULTI_TURN:
        [upstream] = upstream_verdicts(task, literal_source(steps))
    else:
        upstream = OfficialBFCL().score(task, trajectory) == 1.0
    return float(upstream), BFCLGrade("lenient").score(task, trajectory)


@pytest.mark.parametrize("category", CATEGORIES)
def test_lenient_agrees_with_upstream_but_for_what_is_meant(category):
    found = compare_category(category, count=12, seed=0, limit=16)
    assert found.answers >= (16 * 13 if category not in WITHOUT_ANSWERS else 24)
    assert found.unexplained == []
    assert found.agreement == 1.0
    assert 0 < found.right["upstream"] < found.answers
    assert found.changed_right > 0.1 * found.changed or category.endswith("irrelevance")
    assert found.gold_right["lenient"] == found.gold_right["upstream"] == found.gold


def test_worlds_that_upstream_keeps_are_a_difference():
    found = compare_category("multi_turn_base", count=6, seed=0, limit=6)
    assert found.explained[Difference.FRESH_STATE] >= 1
    assert found.explained[Difference.LITERALS_ONLY] >= 1
    graded = found.examples[Difference.FRESH_STATE]
    assert (graded.verdicts["upstream"], graded.verdicts["lenient"]) == (False, True)
    graded = found.examples[Difference.LITERALS_ONLY]
    assert (graded.verdicts["upstream"], graded.verdicts["lenient"]) == (True, False)


def test_the_order_of_parallel_calls_is_a_difference_where_upstream_takes_the_first_that_fits():
    task = task_of("bfcl/parallel/parallel_178")
    steps = gold_steps(task)
    steps[0][0].reverse()
    assert verdicts(task, steps) == (0.0, 1.0)
    assert explain(task, steps, ours=True) is Difference.ORDER_FREE


@pytest.mark.parametrize(
    ("task_id", "answer", "upstream", "ours"),
    [
        ("bfcl/live_simple/live_simple_116-72-0", call("sum_numbers", numbers_list=[133, 34]), 0.0, 1.0),
        (
            "bfcl/live_multiple/live_multiple_996-227-0",
            call(
                "add_service_config",
                service_name="fdsa",
                configurations={
                    "timeout": 30,
                    "retry_count": 5,
                    "endpoint": "https://api.fdsa-service.com",
                    "auth_required": 1,
                },
            ),
            1.0,
            0.0,
        ),
    ],
)
def test_types_inside_lists_and_dictionaries_are_a_difference(task_id, answer, upstream, ours):
    task = task_of(task_id)
    assert verdicts(task, [[[answer]]]) == (upstream, ours)
    assert explain(task, [[[answer]]], ours=bool(ours)) is Difference.ONE_TABLE


@pytest.mark.parametrize(
    "task_id",
    [
        *(f"bfcl/{category}/{category}_173" for category in sorted(MULTI_TURN)),
        "bfcl/multi_turn_miss_func/multi_turn_miss_func_49",
    ],
)
def test_gold_calls_that_the_environment_refuses_are_a_difference(task_id):
    task = task_of(task_id)
    steps = gold_steps(task)
    assert verdicts(task, steps) == (1.0, 0.0)
    assert upstream_verdicts(task, effect_free_source(task, steps)) == [False]
    assert explain(task, steps, ours=False) is Difference.REFUSED


@pytest.mark.parametrize(
    "refused", [call("sort", file_name="final_report.pdf"), call("mkdir", dir_name="new", mode=7), call("pwd", x=1)]
)
def test_the_proof_takes_the_effect_of_refused_calls_alone(refused):
    task = task_of("bfcl/multi_turn_miss_func/multi_turn_miss_func_0")
    assert "sort" in {schema.name for schemas in task.revealed_tools.values() for schema in schemas}
    steps = [[[refused], *gold_steps(task)[0]], *gold_steps(task)[1:]]
    assert verdicts(task, steps)[1] == 1.0
    written, changed = literal_source(steps), effect_free_source(task, steps)
    assert changed[0][0] == ["no_such_tool()"] != written[0][0]
    assert (changed[0][1:], changed[1:]) == (written[0][1:], written[1:])


def test_what_a_refused_call_does_not_decide_is_not_proven_by_it():
    task = BFCLTaskSet("multi_turn_base", limit=1)[0]
    steps = gold_steps(task)
    steps[0].insert(0, [call("mkdir", dir_name=7)])
    assert explain(task, steps, ours=False) is None


@pytest.mark.parametrize(
    ("options", "value", "upstream", "ours"),
    [
        ([22, ""], "", True, False),
        ([["a"], ""], [], False, True),
        ([["a"], ""], "", True, False),
        (["a", ""], "", True, True),
        ([22, ""], [], False, False),
    ],
)
@pytest.mark.parametrize("declared", [True, False])
def test_an_emptied_entry_of_a_dictionary_is_judged_like_an_emptied_parameter(
    options, value, upstream, ours, declared, monkeypatch
):
    kinds = {int: {"type": "integer"}, list: {"type": "array", "items": {"type": "string"}}, str: {"type": "string"}}
    properties = {"x": kinds[type(options[0])]} if declared else {}
    parameters = {"type": "dict", "properties": {"d": {"type": "dict", "properties": properties}}, "required": ["d"]}
    functions = {"bfcl/simple_python/t": [{"name": "f", "parameters": parameters}]}
    for module in (bfcl_parity_rules, bfcl_parity_leaves, official):
        monkeypatch.setattr(module, "described_functions", lambda *_: functions)
    answers = ({"f": {"d": [{"x": options}]}},)
    task = dataclasses.replace(BFCLTaskSet("simple_python", limit=1)[0], id="bfcl/simple_python/t", answers=answers)
    steps = [[[call("f", d={"x": value})]]]
    assert OfficialBFCL().score(task, answer_episode(task, steps)) == float(upstream)
    assert is_accepted({"x": value}, [{"x": options}], schema=parameters["properties"]["d"], mode="lenient") == ours
    as_parameter = is_accepted(value, options, schema=properties.get("x", {}), mode="lenient")
    assert as_parameter == ours
    if upstream != ours:
        assert explain(task, steps, ours=ours) is Difference.ONE_TABLE


def test_an_accepted_text_in_no_list_is_a_difference():
    task = task_of("bfcl/simple_java/simple_java_64")
    gold = gold_steps(task)[0][0][0]
    for text, upstream, ours in (("epoch_millis", 0.0, 1.0), ("e", 1.0, 0.0)):
        meta = f'new HashMap<>() {{{{ put("format", "{text}"); }}}}'
        steps = [[[dataclasses.replace(gold, arguments={**gold.arguments, "meta": meta})]]]
        assert verdicts(task, steps) == (upstream, ours)
        assert explain(task, steps, ours=bool(ours)) is Difference.BARE_TEXT


def test_digits_that_the_policy_does_not_read_are_a_difference():
    task = task_of("bfcl/multi_turn_base/multi_turn_base_49")
    steps = gold_steps(task)
    steps[-1] = [[call("logarithm", value=20, base=10, precision=3)]]
    assert verdicts(task, steps) == (0.0, 1.0)
    assert explain(task, steps, ours=True) is Difference.AS_READ


def test_a_disagreement_is_not_meant_where_nothing_proves_it():
    task = BFCLTaskSet("simple_python", limit=1)[0]
    wrong = [[[call("calculate_triangle_area", base=10, height=6)]]]
    assert explain(task, wrong, ours=True) is None
    assert explain(task, wrong, ours=False) is None
    assert explain(task, gold_steps(task), ours=False) is None
    assert explain(task, [[]], ours=True) is None
    multi_turn = BFCLTaskSet("multi_turn_base", limit=1)[0]
    assert explain(multi_turn, gold_steps(multi_turn), ours=False) is None
    assert explain(multi_turn, [*gold_steps(multi_turn)[:-1], []], ours=True) is None


class Opposite:
    """A judge that says the opposite of another."""

    def __init__(self, term):
        self._term = term

    def score(self, task, trajectory):
        return 1.0 - self._term.score(task, trajectory)


@pytest.mark.parametrize("category", ["simple_python", "parallel", "multi_turn_base"])
def test_a_grader_that_errs_is_found_out(category, monkeypatch):
    honest = bfcl_parity.JUDGES
    monkeypatch.setattr(bfcl_parity, "JUDGES", {**honest, "lenient": Opposite(honest["lenient"])})
    found = compare_category(category, count=2, seed=0, limit=3)
    assert len(found.unexplained) >= 9
    assert found.agreement < 0.5
    text = render_parity([found])
    assert "that no rule explains: " in text
    assert "upstream right, lenient wrong" in text
    assert figures([found])["agreement_min"] == found.agreement


def test_the_report_names_each_difference_with_its_proof_and_an_example():
    found = [compare_category(name, count=8, seed=0, limit=4) for name in ("simple_python", "multi_turn_base")]
    text = render_parity(found)
    assert all(meaning in text for meaning in MEANING.values())
    assert "(text as an expression): upstream right, lenient wrong" in text
    assert "that no rule explains: none" in text
    summary = figures(found)
    assert summary["agreement_min"] == 1.0
    assert summary["intended_differences"].keys() == {name.value for name in Difference}
    assert summary["answers"] == sum(each.answers for each in found)


def test_an_answer_without_agreement_or_proof_lowers_the_agreement():
    task = BFCLTaskSet("simple_python", limit=1)[0]
    found = bfcl_parity.CategoryParity(category="simple_python")
    for upstream, difference in ((True, None), (False, None), (False, Difference.ONE_TABLE)):
        judged = {"upstream": upstream, "lenient": True, "strict": True}
        found.add(GradedAnswer(task=task, change="x", steps=[], verdicts=judged, difference=difference))
    assert found.agreement == 0.5
