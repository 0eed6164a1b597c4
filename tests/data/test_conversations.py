import json

import pytest

from streakline.data.conversations import message_to_json, read_conversation, read_conversations, tool_to_json
from streakline.errors import DataError
from streakline.types import Message, Role, ToolCall, ToolSchema

CALL = ToolCall(name="sort", arguments={"file_name": "n\u00f6tes.txt"}, id="c0")
MESSAGES = (
    Message(role=Role.USER, content="Sort it."),
    Message(role=Role.ASSISTANT, thinking="Which file?", tool_calls=(CALL,)),
    Message(role=Role.TOOL, content='{"ok": true}', name="sort", tool_call_id="c0"),
    Message(role=Role.ASSISTANT, content="Sorted."),
)
TOOL = ToolSchema(name="sort", description="Sort a file.", parameters={"type": "object", "properties": {}})


def _row(**changes):
    row = {
        "task_id": "files/1",
        "messages": [message_to_json(message) for message in MESSAGES],
        "tools": [tool_to_json(TOOL)],
    }
    return row | changes


def _call_row(arguments):
    return _row(messages=[{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}])


def _write(path, *rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_what_is_written_is_read(tmp_path):
    (conversation,) = read_conversations(_write(tmp_path / "rows.jsonl", _row()))

    assert conversation.task_id == "files/1"
    assert conversation.messages == MESSAGES
    assert conversation.tools == (TOOL,)


def test_arguments_may_be_json_text(tmp_path):
    call = {"id": "c0", "type": "function", "function": {"name": "sort", "arguments": json.dumps({"a": [1, None]})}}
    row = _row(
        messages=[{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    )

    (conversation,) = read_conversations(_write(tmp_path / "rows.jsonl", row))

    assert conversation.messages[1].tool_calls[0].arguments == {"a": [1, None]}


@pytest.mark.parametrize("nothing", [None, "", {}, "{}"])
def test_a_call_may_have_no_arguments(nothing):
    conversation = read_conversation(json.dumps(_call_row(nothing)), where="here")
    assert conversation.messages[0].tool_calls[0].arguments == {}


def test_a_line_without_an_id_is_named_by_its_place(tmp_path):
    unnamed = _row(task_id=None)

    assert read_conversation(json.dumps(_row()), where="x, line 3").task_id == "files/1"
    assert read_conversation(json.dumps(unnamed).encode(), where="x, line 3").task_id == "x, line 3"
    assert read_conversations(_write(tmp_path / "rows.jsonl", "", unnamed))[0].task_id == "row/2"


def test_rows_can_be_chosen_by_reward_and_number(tmp_path):
    rows = [_row(task_id=str(index), reward=index / 4) for index in range(5)]
    path = _write(tmp_path / "rows.jsonl", *rows, _row(task_id="unscored", reward=None), "")

    assert [row.task_id for row in read_conversations(path, min_reward=0.75)] == ["3", "4"]
    assert [row.task_id for row in read_conversations(path, limit=2)] == ["0", "1"]
    broken = _write(tmp_path / "broken.jsonl", *rows[:2], "{")
    assert len(read_conversations(broken, limit=2)) == 2
    with pytest.raises(DataError, match="with a reward of 2 or more, but got none"):
        read_conversations(path, min_reward=2)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("{broken", "Expected a JSON object in .*line 2, but got .* at column 2"),
        ([1], "Expected a JSON object in .*line 2, but got list"),
        (_row(messages="hello"), "Expected `messages` to be a list in .*line 2, but got str"),
        (_row(messages=[{"role": "user", "content": "x"}]), "an assistant message in .*line 2, but got 1 messages"),
        (_row(messages=[{"role": "robot"}]), "`role` to be one of .* in .*line 2, but got 'robot'"),
        (_row(messages=[{"role": "user", "content": 3}]), "`content` to be a text in .*line 2, but got int"),
        (_call_row("{"), "`arguments` to be JSON in .*line 2, but got text that breaks off after '{'"),
        (_call_row([]), "`arguments` to be an object in .*line 2, but got list"),
        (_call_row(False), "`arguments` to be an object in .*line 2, but got bool"),
        (_call_row('"{}"'), "`arguments` to be an object in .*line 2, but got str"),
        (_call_row("[" * 100_000), "`arguments` to be JSON in .*line 2, but got text that can't be read"),
        (_call_row(f'{{"n": {"9" * 5000}}}'), "`arguments` to be JSON in .*line 2, but got text that can't be read"),
        (
            _row(messages=[{"role": "assistant", "tool_calls": [{"function": {}}]}]),
            "`name` of a tool .*line 2, but got",
        ),
        (_row(tools=[{"function": {"name": ""}}]), "`name` of a tool .*line 2, but got ''"),
        (
            _row(messages=[{"role": "user", "tool_calls": [{"function": {"name": "f"}}]}]),
            "`tool_calls` only on an assistant message in .*line 2",
        ),
    ],
)
def test_a_malformed_row_is_named_in_one_line(tmp_path, row, complaint):
    path = _write(tmp_path / "rows.jsonl", _row(), row)

    with pytest.raises(DataError, match=complaint) as error:
        read_conversations(path)
    assert "\n" not in str(error.value)
    assert "rows.jsonl" in str(error.value)


def test_a_missing_or_empty_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.jsonl"):
        read_conversations(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match=r"empty\.jsonl to hold at least one conversation"):
        read_conversations(_write(tmp_path / "empty.jsonl", ""))
