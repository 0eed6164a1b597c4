import pytest
from tests.rendering.renderers import OPENS_THINKING, template_renderer

from streakline.rendering.encoder import map_message
from streakline.types import Message, Role, ToolCall

RENDERER = template_renderer("qwen3")
OPENED = template_renderer("qwen3", source=OPENS_THINKING)
ENCODER = RENDERER.encoder
BLOCK = '<tool_call>\n{"name": "ls"}\n</tool_call>'


def read(text, *, renderer=RENDERER, **options):
    return renderer.parse(renderer.encoder.encode(text), **options)


def test_a_turn_ends_at_the_first_terminator():
    assert read("Done.<|im_end|>\nMore.<|im_end|>").message.content == "Done."
    assert read("Done.").message.content == "Done."


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
    parsed = read(f"{BLOCK}</think>Done.", renderer=OPENED)
    assert parsed.message == Message(role=Role.ASSISTANT, thinking=BLOCK, content="Done.")
    assert read(f"So {BLOCK}", renderer=OPENED).message.tool_calls == ()
    acted = read(f"So {BLOCK}", renderer=OPENED, close_thinking=True)
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
