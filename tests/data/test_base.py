import pytest
from tests.fixtures.tiny_agents import task_set

from streakline.data.base import collect_tasks, require_positive
from streakline.errors import ConfigError, DataError


def test_sets_are_put_in_one_line_each_within_the_limit():
    sets = [task_set(3, prefix="a"), task_set(1, prefix="b")]

    assert [task.id for task in collect_tasks(sets, limit=2)] == ["test/a-0", "test/a-1", "test/b-0"]
    assert [task.id for task in collect_tasks(sets[1])] == ["test/b-0"]
    assert collect_tasks(None) == ()


def test_equal_ids_in_two_sets_are_refused():
    with pytest.raises(DataError, match="unique"):
        collect_tasks([task_set(2), task_set(2)])


def test_what_counts_something_is_positive_or_not_given():
    require_positive(batch_size=1, limit=None)
    with pytest.raises(ConfigError, match=r"Expected `data\.limit` to be at least 1, but got 0"):
        require_positive(batch_size=1, limit=0)
