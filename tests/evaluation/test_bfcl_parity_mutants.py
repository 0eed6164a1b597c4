from random import Random

import pytest
from tests.fixtures.episodes import call

from streakline.evaluation.bfcl_parity import answer_episode
from streakline.evaluation.bfcl_parity_leaves import parameters_of
from streakline.evaluation.bfcl_parity_literals import NUM_FORMS, accepted_value, write_literal
from streakline.evaluation.bfcl_parity_mutants import MULTI_TURN_CHANGES, SINGLE_TURN_CHANGES, gold_steps, mutants
from streakline.rewards.bfcl.grade import BFCLGrade
from streakline.rewards.bfcl.official import OfficialBFCL
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.bfcl_source import CATEGORIES, MULTI_TURN, WITHOUT_ANSWERS, language

MISREAD = {"bfcl/simple_java/simple_java_64", "bfcl/simple_javascript/simple_javascript_5"}
"""Tasks with an accepted text in no list, and with a list in a dictionary, which upstream's converter cuts apart."""


def test_mutants_are_the_same_for_the_same_seed_and_cover_every_change():
    task = BFCLTaskSet("parallel_multiple", limit=1)[0]
    assert mutants(task, count=9, seed=1) == mutants(task, count=9, seed=1)
    assert mutants(task, count=9, seed=1) != mutants(task, count=9, seed=2)
    assert mutants(task, count=0, seed=1) == []
    for categories, changes in ((("parallel", "live_simple"), SINGLE_TURN_CHANGES), (MULTI_TURN, MULTI_TURN_CHANGES)):
        tasks = [task for category in categories for task in BFCLTaskSet(category, limit=100)]
        assert {name for task in tasks for name, _ in mutants(task, count=20, seed=0)} == changes.keys()


@pytest.mark.parametrize("category", ["simple_java", "simple_javascript"])
@pytest.mark.parametrize("form", range(NUM_FORMS))
def test_accepted_values_are_right_in_every_form_of_literal(category, form):
    wrong = set()
    for task in BFCLTaskSet(category):
        [(name, accepted)] = task.answers[0].items()
        schemas = parameters_of(task, name)["properties"]
        arguments = {
            key: write_literal(
                accepted_value(next(each for each in options if each != ""), Random(0)),
                schema=schemas[key],
                language=language(category),
                form=form,
            )
            for key, options in accepted.items()
            if set(map(repr, options)) != {"''"}
        }
        trajectory = answer_episode(task, [[[call(name, **arguments)]]])
        if any(term.score(task, trajectory) != 1.0 for term in (OfficialBFCL(), BFCLGrade("lenient"))):
            wrong.add(task.id)
    assert wrong <= MISREAD


def test_dictionaries_are_written_with_one_value_for_each_key():
    option = {"a": [1, 2], "b": [[{"c": ["x", ""]}], ""], "d": ["e", ""]}
    assert accepted_value(option, Random(0), optional=0.0) in ({"a": 1}, {"a": 2})
    assert accepted_value(option, Random(0), optional=1.0)["b"] == [{"c": "x"}]
    emptied = accepted_value(option, Random(0), emptied=True)
    assert (emptied["b"], emptied["d"]) == ("", "")


@pytest.mark.parametrize("category", CATEGORIES)
def test_mutants_are_unlike_the_gold_answer_and_each_other_and_leave_it_as_it_is(category):
    for task in BFCLTaskSet(category, limit=4):
        gold = repr(gold_steps(task))
        changed = [repr(steps) for _, steps in mutants(task, count=8, seed=0)]
        assert repr(gold_steps(task)) == gold
        assert len({gold, *changed}) == 1 + len(changed)
        assert len(changed) == 8 or category in WITHOUT_ANSWERS
