import pytest
from tests.fixtures.episodes import call, episode

from streakline.rewards.bfcl.grade import BFCLGrade
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.bfcl_source import CATEGORIES

LENIENT, STRICT = BFCLGrade("lenient"), BFCLGrade("strict")

STRICT_REFUSES = {"simple_javascript": 1, "parallel_multiple": 2, "live_multiple": 7}
"""Category -> gold answers whose types, or quotes inside, are not as declared."""


def gold_episode(task):
    """An episode that does what the gold says; relevance tasks have none, there any call of a shown tool is right."""
    return episode(task, task.gold or [[[call(task.tools[0].name)]]])


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_gold_answer_is_right(category):
    tasks = BFCLTaskSet(category)
    assert all(LENIENT.score(task, gold_episode(task)) == 1.0 for task in tasks)


@pytest.mark.parametrize("category", [category for category in CATEGORIES if category != "live_relevance"])
def test_gold_answers_are_right_in_strict_too_but_for_those_of_another_type_than_declared(category):
    refused = [task.id for task in BFCLTaskSet(category) if STRICT.score(task, gold_episode(task)) != 1.0]
    assert len(refused) == STRICT_REFUSES.get(category, 0)
