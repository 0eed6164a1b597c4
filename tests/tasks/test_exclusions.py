import pytest
from tests.fixtures.episodes import call, episode

from streakline.environment.replay import gold_outcomes
from streakline.rewards.bfcl.official import OfficialBFCL
from streakline.rewards.success import StateSuccess
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.bfcl_source import CATEGORIES, MULTI_TURN
from streakline.tasks.exclusions import bfcl_exclusions

SINGLE_TURN = [category for category in CATEGORIES if category not in MULTI_TURN]


def follows_gold(task):
    """An episode that does what the gold says; relevance tasks have none, there any call of a shown tool is right."""
    return episode(task, task.gold or [[[call(task.tools[0].name)]]])


def can_score(task):
    if OfficialBFCL().score(task, follows_gold(task)) != 1.0:
        return False
    if task.kind not in MULTI_TURN:
        return True
    ran = not any(result.is_error for outcome in gold_outcomes(task) for result in outcome.results)
    return ran and StateSuccess().score(task, follows_gold(task)) == 1.0


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_gold_answer_scores_1_or_is_excluded_with_a_reason(category):
    failing = {task.id for task in BFCLTaskSet(category, exclusions=False) if not can_score(task)}
    listed = {task_id for task_id in bfcl_exclusions() if task_id.startswith(f"bfcl/{category}/")}
    assert failing == listed


def test_the_list_gives_reasons():
    assert all(len(reason) > 20 for reason in bfcl_exclusions().values())


def test_excluded_tasks_are_left_out_unless_asked_for():
    excluded = "bfcl/simple_java/simple_java_35"
    assert excluded in bfcl_exclusions()
    assert excluded not in {task.id for task in BFCLTaskSet("simple_java")}
    assert excluded in {task.id for task in BFCLTaskSet("simple_java", exclusions=False)}
