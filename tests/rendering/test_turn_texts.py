import pytest
from tests.fixtures.tokenizers import byte_tokenizer, chat_template
from tests.rendering.renderers import ALL, RENDERERS, tokenizer_of, turn_texts
from tests.rendering.talk import ANSWER, FOLLOW_UP, LS, REQUEST, RESULT, RESULTS, SYSTEM

from streakline.errors import ConfigError
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.jinja import ChatTemplate
from streakline.rendering.tools import tool_spec
from streakline.rendering.turn_texts import TurnTexts
from streakline.types import Message, Role


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
    found = turn_texts(family)
    assert found.terminator == terminator
    assert RENDERERS[family].terminator_id == byte_tokenizer(family).convert_tokens_to_ids(terminator)
    assert (found.native_thinking, found.native_calls) == (native_thinking, native_calls)
    assert found.opening.endswith(found.header)
    assert not found.opens_thinking


def test_a_header_that_leaves_thinking_open_is_seen():
    source = chat_template("qwen3")
    opened = source.replace(
        "'<|im_start|>assistant\\n' }}\n    {%- if enable", "'<|im_start|>assistant\\n<think>\\n' }}\n    {%- if enable"
    )
    assert opened != source
    assert turn_texts("qwen3", source=opened).opens_thinking
    assert not turn_texts("qwen3", enable_thinking=False).opens_thinking


def test_a_tokenizer_without_the_special_token_is_refused_by_its_name():
    tokenizer = tokenizer_of("llama3_1", chat_template("smollm2"))
    tokenizer.name_or_path = "models/tiny"
    template = ChatTemplate(tokenizer)
    expected = r"special token of tokenizer 'models/tiny', but it ends with '<\|im_end\|>"
    with pytest.raises(ConfigError, match=expected):
        TurnTexts(template, GuardedEncoder(tokenizer, template=template.source))


def test_a_turn_that_does_not_go_on_from_the_generation_prompt_is_refused():
    source = chat_template("smollm2").replace(
        "'<|im_start|>assistant\\n' }}\n{%- endif", "'<|im_start|>bot\\n' }}\n{%- endif"
    )
    with pytest.raises(ConfigError, match="writes an assistant turn right after its generation prompt"):
        turn_texts("smollm2", source=source)


@pytest.mark.parametrize("content", ["a", ' "a"\\ \n', "", " "])
@pytest.mark.parametrize("family", ALL)
def test_a_text_put_together_is_what_the_template_writes(family, content):
    texts, fresh = turn_texts(family), turn_texts(family)
    shape = [(Role.TOOL, "ls"), (Role.TOOL, "mv"), (Role.USER, "")]
    first = [Message(role=role, name=name, content="first") for role, name in shape]
    messages = [Message(role=role, name=name, content=content) for role, name in shape]
    texts.extension(first)
    whole = fresh.conversation([REQUEST, ANSWER, *messages], tools=[])
    assert whole.endswith(texts.extension(messages))
    assert texts.extension(messages) == fresh.extension(messages)


def test_what_a_template_makes_of_a_content_is_not_lost():
    # Llama's format writes results as JSON strings, and trims what users say.
    text = turn_texts("llama3_1").extension([RESULT, Message(role=Role.USER, content="  a  ")])
    assert '"{\\"entries\\": [\\"a\\", \\"b\\"]}"' in text
    assert "\n\na<|eot_id|>" in text


def test_results_in_a_row_share_a_block_in_qwen():
    text = turn_texts("qwen3").extension(RESULTS)
    assert text.count("<|im_start|>user") == 1
    assert text.count("<tool_response>") == 2
    assert text.startswith("\n<|im_start|>user\n<tool_response>\n")


def test_an_extension_holds_no_schemas():
    texts = turn_texts("qwen2_5")
    assert "ls" in texts.conversation([SYSTEM, REQUEST], tools=[tool_spec(LS, style="full")])
    assert "You help people" not in texts.extension([FOLLOW_UP])
    assert "ls" not in texts.extension([FOLLOW_UP])


def test_nothing_new_is_the_next_generation_prompt():
    assert turn_texts("qwen3").extension([]) == "\n<|im_start|>assistant\n"
