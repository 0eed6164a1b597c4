import json

from tests.rendering.talk import FOLLOW_UP, LS, MV, RESULT, as_function

from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.tools import announce_tools, order_tools, short_schema, tool_spec
from streakline.types import Message, Role, ToolSchema

MANY = tuple(ToolSchema(name=name) for name in "fbdaec")


def names(tools):
    return [tool.name for tool in tools]


def test_given_keeps_the_order_and_sorted_goes_by_name():
    assert names(order_tools(MANY, order="given")) == list("fbdaec")
    assert names(order_tools(MANY, order="sorted")) == list("abcdef")


def test_shuffled_depends_on_the_task_and_on_nothing_else():
    first = order_tools(MANY, order="shuffled", task_id="t1")
    assert first == order_tools(tuple(reversed(MANY)), order="shuffled", task_id="t1")
    assert sorted(names(first)) == list("abcdef")
    assert len({tuple(names(order_tools(MANY, order="shuffled", task_id=f"t{i}"))) for i in range(20)}) > 10


def test_short_schemas_name_the_arguments():
    assert short_schema(MV) == "mv(source, to)"
    assert short_schema(ToolSchema(name="pwd")) == "pwd()"
    assert short_schema(ToolSchema(name="odd", parameters={"type": "object"})) == "odd()"
    assert tool_spec(MV, style="short") == "mv(source, to)"


def test_full_schemas_are_those_of_openai():
    assert tool_spec(LS, style="full") == as_function(LS)


def test_new_tools_stand_before_the_text_of_the_new_request():
    policy = RenderingPolicy(schema_style="short", tool_order="sorted")
    told = announce_tools([RESULT, FOLLOW_UP], [MV, LS], policy=policy)
    assert told == (
        RESULT,
        Message(role=Role.USER, content="New tools:\nls(path)\nmv(source, to)\n\nThanks. And now?"),
    )


def test_full_schemas_are_told_one_a_line():
    (told,) = announce_tools([FOLLOW_UP], [LS], policy=RenderingPolicy())
    assert json.loads(told.content.splitlines()[1]) == as_function(LS)


def test_new_tools_without_a_request_are_a_message_of_their_own():
    told = announce_tools([RESULT], [LS], policy=RenderingPolicy(schema_style="short"))
    assert told == (RESULT, Message(role=Role.USER, content="New tools:\nls(path)"))


def test_no_new_tools_change_nothing():
    assert announce_tools([FOLLOW_UP], [], policy=RenderingPolicy()) == (FOLLOW_UP,)
