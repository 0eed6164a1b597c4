from dataclasses import dataclass, field

import pytest

from streakline.rendering.family import read_family_response
from streakline.types import Message, Role, ToolCall


@dataclass
class FakeCall:
    name: str | None
    arguments: object
    status: str = "ok"


@dataclass
class FakeResponse:
    content: str = ""
    reasoning_content: str | None = None
    tool_calls: list[FakeCall] = field(default_factory=list)


class FakeLibrary:
    def __init__(self, response):
        self.response = response

    def parse_response(self, token_ids, *, prompt_ids):
        if isinstance(self.response, Exception):
            raise self.response
        return self.response


def read(response, text="", **options):
    return read_family_response(FakeLibrary(response), [1], prompt_ids=[0], text=text, **options)


def test_calls_text_and_thinking_become_a_message():
    parsed = read(FakeResponse(" Sure. ", "Hm.\n", [FakeCall("ls", {"path": "a"}), FakeCall("mv", '{"to": "ö"}')]))
    calls = (ToolCall(name="ls", arguments={"path": "a"}), ToolCall(name="mv", arguments={"to": "ö"}))
    assert parsed.message == Message(role=Role.ASSISTANT, content="Sure.", thinking="Hm.", tool_calls=calls)
    assert parsed.errors == ()


@pytest.mark.parametrize("call", [FakeCall(None, {}, "missing_name"), FakeCall("ls", [1]), FakeCall("", {})])
def test_calls_that_were_not_read_are_errors(call):
    parsed = read(FakeResponse(tool_calls=[call, FakeCall("ls", None)]))
    assert parsed.message.tool_calls == (ToolCall(name="ls"),)
    assert len(parsed.errors) == 1


def test_a_parser_that_fails_is_an_error_of_the_turn():
    parsed = read(RecursionError(), text="{{{{")
    assert parsed.message == Message(role=Role.ASSISTANT, content="{{{{")
    assert parsed.errors == ("Malformed tool call: RecursionError.",)


def test_calls_in_thinking_that_never_ends_are_text():
    parsed = read(FakeResponse(tool_calls=[FakeCall("ls", {})]), text="Hi.<think>Maybe ls()")
    assert parsed.message == Message(role=Role.ASSISTANT, content="Hi.", thinking="Maybe ls()")
    assert parsed.open_thinking


def test_whole_calls_in_thinking_that_never_ends_count_where_it_is_closed_for_the_policy():
    response = FakeResponse("", "Hm.", [FakeCall("ls", {}), FakeCall(None, {}, "missing_name")])
    parsed = read(response, text="<think>Hm.ls()", close_thinking=True)
    assert parsed.message == Message(role=Role.ASSISTANT, thinking="Hm.", tool_calls=(ToolCall(name="ls"),))
    assert (parsed.errors, parsed.open_thinking) == ((), True)
    assert read(response, text="<think>Hm.</think>ls()", close_thinking=True).errors != ()
    thought = read(FakeResponse("", "Hm."), text="<think>Hm.", close_thinking=True)
    assert (thought.message.thinking, thought.open_thinking) == ("Hm.", True)
    assert read(RecursionError(), text="<think>{{", close_thinking=True).open_thinking
