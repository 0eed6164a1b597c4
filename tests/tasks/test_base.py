import pytest

from streakline.errors import DataError
from streakline.tasks.base import ListTaskSet
from streakline.types import Message, Role, Task


def task(name):
    return Task(
        id=f"fake/{name}", source="fake", kind="k", tools=(), requests=((Message(role=Role.USER, content="hi"),),)
    )


def test_a_list_of_tasks_keeps_its_order():
    tasks = ListTaskSet([task("b"), task("a")])
    assert len(tasks) == 2
    assert tasks[1].id == "fake/a"
    assert tasks.tasks() == tuple(tasks) == (tasks[0], tasks[1])


def test_two_tasks_with_one_id_are_refused():
    with pytest.raises(DataError, match="Expected task ids to be unique, but got 'fake/a' twice"):
        ListTaskSet([task("a"), task("a")])
