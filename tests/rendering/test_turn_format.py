import pytest
from tests.fixtures.tokenizers import byte_tokenizer, chat_template
from tests.rendering.conversations import CALL, RESULT, thinking

from streakline.errors import ConfigError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.jinja import ChatTemplate
from streakline.rendering.turn_format import find_turn_format, template_message


def turn_format(family, *, source=None, **variables):
    tokenizer = byte_tokenizer(family)
    tokenizer.chat_template = source or tokenizer.chat_template
    template = ChatTemplate(tokenizer, variables=variables)
    return find_turn_format(template, GuardedEncoder(tokenizer, template=template.source))


@pytest.mark.parametrize(
    ("family", "terminator", "native_thinking", "native_calls"),
    [
        ("qwen3", "<|im_end|>", True, True),
        ("qwen2_5", "<|im_end|>", False, True),
        ("llama3_1", "<|eot_id|>", False, False),
        ("smollm2", "<|im_end|>", False, False),
        ("hermes_chatml", "<|im_end|>", True, True),
    ],
)
def test_what_a_template_can_write_is_found_by_asking_it(family, terminator, native_thinking, native_calls):
    found = turn_format(family)
    assert found.terminator == terminator
    assert found.terminator_id == byte_tokenizer(family).convert_tokens_to_ids(terminator)
    assert (found.native_thinking, found.native_calls) == (native_thinking, native_calls)
    assert found.opening.endswith(found.header)
    assert not found.opens_thinking


def test_a_header_that_leaves_thinking_open_is_seen():
    source = chat_template("qwen3")
    opened = source.replace(
        "'<|im_start|>assistant\\n' }}\n    {%- if enable", "'<|im_start|>assistant\\n<think>\\n' }}\n    {%- if enable"
    )
    assert opened != source
    assert turn_format("qwen3", source=opened).opens_thinking
    assert not turn_format("qwen3", enable_thinking=False).opens_thinking


def test_a_tokenizer_without_the_special_token_is_refused():
    tokenizer = byte_tokenizer("llama3_1")
    tokenizer.chat_template = chat_template("smollm2")
    template = ChatTemplate(tokenizer)
    with pytest.raises(ConfigError, match=r"special token of the tokenizer, but it ends with '<\|im_end\|>"):
        find_turn_format(template, GuardedEncoder(tokenizer, template=template.source))


def test_a_turn_that_does_not_go_on_from_the_generation_prompt_is_refused():
    source = chat_template("smollm2").replace(
        "'<|im_start|>assistant\\n' }}\n{%- endif", "'<|im_start|>bot\\n' }}\n{%- endif"
    )
    with pytest.raises(ConfigError, match="writes an assistant turn right after its generation prompt"):
        turn_format("smollm2", source=source)


def test_a_message_holds_what_the_template_can_not_write_in_its_content():
    tokenizer = byte_tokenizer("smollm2")
    encoder = GuardedEncoder(tokenizer, template="")
    entry = template_message(thinking(CALL), encoder, native_thinking=False, native_calls=False)
    assert entry == {
        "role": "assistant",
        "content": "<think>\nLet me see.\n</think>\n\nSure.\n"
        '<tool_call>\n{"name": "ls", "arguments": {"path": "Größe"}}\n</tool_call>',
    }
    entry = template_message(thinking(CALL), encoder, native_thinking=True, native_calls=True)
    assert entry["reasoning_content"] == "Let me see."
    assert entry["tool_calls"] == [{"type": "function", "function": {"name": "ls", "arguments": {"path": "Größe"}}}]
    assert entry["content"] == "Sure."


def test_a_result_names_its_tool():
    entry = template_message(
        RESULT, GuardedEncoder(byte_tokenizer("qwen3"), template=""), native_thinking=True, native_calls=True
    )
    assert entry == {"role": "tool", "name": "ls", "content": RESULT.content}
