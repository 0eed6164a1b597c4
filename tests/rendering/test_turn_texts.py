import pytest
from tests.rendering.renderers import ALL, template_parts
from tests.rendering.talk import ANSWER, FOLLOW_UP, LS, REQUEST, RESULT, RESULTS, SYSTEM

from streakline.rendering.tools import tool_spec
from streakline.rendering.turn_texts import TurnTexts
from streakline.types import Message, Role


def turn_texts(family):
    return TurnTexts(*template_parts(family))


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
