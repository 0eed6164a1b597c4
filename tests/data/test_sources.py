from dataclasses import replace

import pytest
from tests.fixtures.episodes import call
from tests.fixtures.worlds import world

from streakline.data.sources import GoldDemonstrations, JsonlDemonstrations, ToolWorldDemonstrations
from streakline.errors import DataError
from streakline.tasks.base import ListTaskSet
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Message, Role, Task, ToolSchema

GOLD = (((call("cd", folder="workspace"),), (call("cat", file_name="notes.txt"),)), ())


def test_gold_calls_are_played_in_a_real_world():
    task = replace(world(), requests=world().requests * 2, gold=GOLD)

    (conversation,) = GoldDemonstrations(ListTaskSet([task])).conversations()

    roles = [message.role for message in conversation.messages]
    u, a, t = Role.USER, Role.ASSISTANT, Role.TOOL
    assert roles == [u, a, t, a, t, a, u, a]
    assert "one" in conversation.messages[4].content
    assert conversation.messages[-1].content == "Done."
    assert conversation.num_given == 1


def test_a_system_prompt_stands_first_and_is_given():
    request = (Message(role=Role.USER, content="Hi."),)
    task = Task(
        id="x",
        source="test",
        kind="k",
        tools=(),
        requests=(request,),
        gold=((),),
        replies=("Hello.",),
        system="Be kind.",
    )

    (conversation,) = GoldDemonstrations(ListTaskSet([task])).conversations()

    assert [message.content for message in conversation.messages] == ["Be kind.", "Hi.", "Hello."]
    assert conversation.num_given == 2


def test_a_task_without_a_world_ends_with_its_calls():
    request = (Message(role=Role.USER, content="Add."),)
    task = Task(
        id="x",
        source="test",
        kind="k",
        tools=(ToolSchema(name="add"),),
        requests=(request,),
        gold=(((call("add", a=1),),),),
    )

    (conversation,) = GoldDemonstrations(ListTaskSet([task])).conversations()

    assert [message.role for message in conversation.messages] == [Role.USER, Role.ASSISTANT]


def test_a_task_without_gold_is_named():
    with pytest.raises(DataError, match="gold calls of task test/world"):
        GoldDemonstrations(ListTaskSet([world()])).conversations()


def test_toolworld_shows_its_habits_as_often_as_asked():
    tasks = ToolWorldTaskSet(12, split="train", seed=0)

    right = ToolWorldDemonstrations(tasks, habits={}).conversations()
    same = ToolWorldDemonstrations(tasks, habits={}).conversations(limit=5)

    assert len(right) == 12
    assert list(same) == list(right)[:5]
    assert all(conversation.tools for conversation in right)


def test_a_file_is_read_when_it_is_needed(tmp_path):
    source = JsonlDemonstrations(str(tmp_path / "later.jsonl"))

    with pytest.raises(DataError, match=r"later\.jsonl"):
        source.conversations()
