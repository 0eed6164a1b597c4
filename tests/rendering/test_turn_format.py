import pytest
from tests.fixtures.tokenizers import byte_tokenizer, chat_template
from tests.rendering.renderers import template_parts, tokenizer_of
from tests.rendering.talk import CALL, RESULT, thinking

from streakline.errors import ConfigError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.jinja import ChatTemplate
from streakline.rendering.turn_format import find_turn_format, template_message


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
    _, found, _ = template_parts(family)
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
    assert template_parts("qwen3", source=opened)[1].opens_thinking
    assert not template_parts("qwen3", enable_thinking=False)[1].opens_thinking


def test_a_tokenizer_without_the_special_token_is_refused_by_its_name():
    tokenizer = tokenizer_of("llama3_1", chat_template("smollm2"))
    tokenizer.name_or_path = "models/tiny"
    template = ChatTemplate(tokenizer)
    expected = r"special token of tokenizer 'models/tiny', but it ends with '<\|im_end\|>"
    with pytest.raises(ConfigError, match=expected):
        find_turn_format(template, GuardedEncoder(tokenizer, template=template.source))


def test_a_turn_that_does_not_go_on_from_the_generation_prompt_is_refused():
    source = chat_template("smollm2").replace(
        "'<|im_start|>assistant\\n' }}\n{%- endif", "'<|im_start|>bot\\n' }}\n{%- endif"
    )
    with pytest.raises(ConfigError, match="writes an assistant turn right after its generation prompt"):
        template_parts("smollm2", source=source)


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
