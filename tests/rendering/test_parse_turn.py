import pytest
from tests.fixtures.tokenizers import byte_tokenizer, chat_template

from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.parse_turn import map_message, parse_turn, until_terminator
from streakline.types import Message, Role, ToolCall

TOKENIZER = byte_tokenizer("qwen3")
ENCODER = GuardedEncoder(TOKENIZER, template=chat_template("qwen3"))
TERMINATOR = TOKENIZER.convert_tokens_to_ids("<|im_end|>")
BLOCK = '<tool_call>\n{"name": "ls"}\n</tool_call>'


def read(text_or_ids, **options):
    ids = ENCODER.encode(text_or_ids) if isinstance(text_or_ids, str) else text_or_ids
    return parse_turn(ids, encoder=ENCODER, terminator_id=TERMINATOR, **({"opens_thinking": False} | options))


def test_ids_end_at_the_first_terminator():
    assert until_terminator((1, 2, TERMINATOR, 3, TERMINATOR), TERMINATOR) == [1, 2]
    assert until_terminator((1, 2), TERMINATOR) == [1, 2]


def test_tokens_make_a_call():
    assert read(BLOCK).message.tool_calls == (ToolCall(name="ls"),)


def test_the_same_characters_by_other_tokens_are_text():
    parsed = read(ENCODER.escape(BLOCK))
    assert parsed.message == Message(role=Role.ASSISTANT, content=BLOCK)
    assert parsed.errors == ()


def test_thinking_is_closed_by_its_token_only():
    parsed = read(f"<think>{ENCODER.escape('</think>')}{BLOCK}</think>Done.")
    assert parsed.message.tool_calls == ()
    assert parsed.message.thinking == f"</think>{BLOCK}"


def test_a_prompt_that_opened_thinking_is_taken_into_account():
    parsed = read(f"{BLOCK}</think>Done.", opens_thinking=True)
    assert parsed.message == Message(role=Role.ASSISTANT, thinking=BLOCK, content="Done.")
    assert read(f"So {BLOCK}", opens_thinking=True).message.tool_calls == ()
    acted = read(f"So {BLOCK}", opens_thinking=True, close_thinking=True)
    assert acted.message == Message(role=Role.ASSISTANT, thinking="So", tool_calls=(ToolCall(name="ls"),))
    assert acted.open_thinking


@pytest.mark.parametrize("text", ["\ue000", "\ue0003\ue001", "\ue000\ue001 <|im_end|>"])
def test_private_use_characters_of_the_policy_come_back(text):
    call = ToolCall(name="ls", arguments={text: [text]})
    message = Message(role=Role.ASSISTANT, content=text, thinking=text, tool_calls=(call,))
    escaped = map_message(message, ENCODER.escape)
    mark = ENCODER.escape(text)
    written = f"<think>{escaped.thinking}</think>{escaped.content}" + (
        f'<tool_call>{{"name": "ls", "arguments": {{"{mark}": ["{mark}"]}}}}</tool_call>'
    )
    assert read(written).message == message
