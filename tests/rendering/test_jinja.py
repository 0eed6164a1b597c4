import pytest
from tests.fixtures.tokenizers import FAMILIES, byte_tokenizer
from tests.rendering.talk import ANSWER, CALL, LS, REQUEST, RESULT, SYSTEM, as_function, as_hugging_face, thinking

from streakline.errors import ConfigError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.jinja import ChatTemplate, template_message


@pytest.mark.parametrize("generation_prompt", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_writes_what_hugging_face_writes(family, generation_prompt):
    tokenizer = byte_tokenizer(family)
    messages = [as_hugging_face(message) for message in (SYSTEM, REQUEST, CALL, RESULT, ANSWER)]
    expected = tokenizer.apply_chat_template(
        messages, tools=[as_function(LS)], tokenize=False, add_generation_prompt=generation_prompt
    )
    text = ChatTemplate(tokenizer).render(messages, tools=[as_function(LS)], generation_prompt=generation_prompt)
    assert text == expected


def test_tools_may_be_texts():
    text = ChatTemplate(byte_tokenizer("qwen3")).render([as_hugging_face(REQUEST)], tools=["ls(path)"])
    assert '\n"ls(path)"\n</tools>' in text


def test_variables_reach_the_template():
    template = ChatTemplate(byte_tokenizer("qwen3"), variables={"enable_thinking": False})
    assert template.render([as_hugging_face(REQUEST)]).endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_a_tokenizer_without_template_is_refused():
    tokenizer = byte_tokenizer("qwen3")
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match="to have a chat template, but it has none"):
        ChatTemplate(tokenizer)


def test_a_template_that_does_not_compile_is_refused():
    tokenizer = byte_tokenizer("qwen3")
    tokenizer.chat_template = "{% for %}"
    with pytest.raises(ConfigError, match="Expected `chat_template` to be valid Jinja"):
        ChatTemplate(tokenizer)


def test_a_refusal_of_the_template_names_the_roles():
    tokenizer = byte_tokenizer("qwen3")
    tokenizer.chat_template = "{{ raise_exception('No system role.') }}"
    with pytest.raises(ConfigError, match=r"roles \[system, user\], but got: No system role\."):
        ChatTemplate(tokenizer).render([as_hugging_face(SYSTEM), as_hugging_face(REQUEST)])


def test_of_several_templates_the_one_for_tools_is_taken():
    tokenizer = byte_tokenizer("qwen3")
    tokenizer.chat_template = {"default": "plain", "tool_use": "tools"}
    assert ChatTemplate(tokenizer).render([as_hugging_face(REQUEST)]) == "tools"


def test_a_message_holds_what_the_template_can_not_write_in_its_content():
    tokenizer = byte_tokenizer("smollm2")
    encoder = GuardedEncoder(tokenizer, template="")
    entry = template_message(thinking(CALL), encoder, native_thinking=False, native_calls=False)
    assert entry == {
        "role": "assistant",
        "content": "<think>\nLet me see.\n</think>\n\nSure.\n"
        '<tool_call>\n{"name": "ls", "arguments": {"path": "Größe"}}\n</tool_call>',
    }
    entry = template_message(thinking(CALL), encoder)
    assert entry["reasoning_content"] == "Let me see."
    assert entry["tool_calls"] == [{"type": "function", "function": {"name": "ls", "arguments": {"path": "Größe"}}}]
    assert entry["content"] == "Sure."


def test_a_result_names_its_tool():
    entry = template_message(RESULT, GuardedEncoder(byte_tokenizer("qwen3"), template=""))
    assert entry == {"role": "tool", "name": "ls", "content": RESULT.content}
