from types import SimpleNamespace

from lightning.pytorch import Callback
from tests.fixtures.tiny_agents import task

from streakline.modules.hooks import SelectsGroups, SelectsTasks, select_groups, select_tasks


class DropFirst(Callback):
    def select_tasks(self, module, tasks):
        return tasks[1:]


class Reverse(Callback):
    def select_tasks(self, module, tasks):
        return tasks[::-1]

    def select_groups(self, module, groups):
        return groups[::-1]


def _module(*callbacks):
    return SimpleNamespace(trainer=SimpleNamespace(callbacks=list(callbacks)))


def test_callbacks_are_asked_in_their_order():
    tasks = [task("a"), task("b"), task("c")]

    names = [
        [item.id for item in select_tasks(_module(*callbacks), tasks)]
        for callbacks in ((DropFirst(), Callback(), Reverse()), (Reverse(), DropFirst()))
    ]

    assert names == [["test/c", "test/b"], ["test/b", "test/a"]]


def test_a_callback_is_asked_only_for_what_it_selects():
    assert isinstance(Reverse(), SelectsTasks)
    assert isinstance(Reverse(), SelectsGroups)
    assert not isinstance(DropFirst(), SelectsGroups)
    assert select_groups(_module(DropFirst(), Reverse()), [1, 2]) == [2, 1]


def test_without_such_callbacks_everything_stays():
    assert select_tasks(_module(Callback()), [1, 2]) == [1, 2]
