import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.tokenizers import FAMILIES, byte_tokenizer
from tests.rendering.renderers import ALL, OPENS_THINKING, RENDERERS, TOOLS, template_renderer
from tests.rendering.talk import (
    ANSWER,
    CALL,
    CALLS,
    FOLLOW_UP,
    LS,
    MV,
    REQUEST,
    RESULT,
    RESULTS,
    SYSTEM,
    as_function,
    as_hugging_face,
    thinking,
)

from streakline.errors import ConfigError, DataError
from streakline.types import Message, Role, ToolCall

FOLDED_CALLS = {"llama3_1", "smollm2"}


def hugging_face(family, messages, tools=(), **options):
    return byte_tokenizer(family).apply_chat_template(
        [as_hugging_face(message, fold_calls=family in FOLDED_CALLS) for message in messages],
        tools=[as_function(tool) for tool in tools] or None,
        tokenize=True,
        return_dict=False,
        add_generation_prompt=True,
        **options,
    )


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("messages", [(REQUEST,), (SYSTEM, REQUEST)], ids=["user", "system and user"])
def test_a_prompt_has_the_ids_that_hugging_face_gives(family, messages):
    ids = RENDERERS[family].prompt(messages, tools=TOOLS[family])
    assert list(ids) == hugging_face(family, messages, TOOLS[family])


@pytest.mark.parametrize("family", ALL)
def test_a_history_of_calls_and_results_has_the_ids_that_hugging_face_gives(family):
    call = CALLS if family not in {"qwen3", "hermes_chatml"} else thinking(CALLS)
    messages = (SYSTEM, REQUEST, call, *RESULTS)
    ids = RENDERERS[family].prompt(messages, tools=TOOLS[family])
    assert list(ids) == hugging_face(family, messages, TOOLS[family])


@pytest.mark.parametrize("family", ["qwen2_5", "llama3_1", "smollm2", "hermes_chatml"])
def test_several_user_turns_have_the_ids_that_hugging_face_gives(family):
    messages = (SYSTEM, REQUEST, CALL, RESULT, ANSWER, FOLLOW_UP, ANSWER, FOLLOW_UP)
    ids = RENDERERS[family].prompt(messages, tools=TOOLS[family])
    assert list(ids) == hugging_face(family, messages, TOOLS[family])


@pytest.mark.parametrize("choice", ["strip", "split"])
def test_dropping_earlier_thinking_is_what_the_stock_qwen3_template_does(choice):
    renderer = template_renderer(thinking=choice)
    messages = (REQUEST, thinking(CALL), RESULT, thinking(ANSWER), FOLLOW_UP, thinking(CALL), RESULT)
    ids = renderer.prompt(messages, tools=[LS])
    assert list(ids) == hugging_face("qwen3", messages, [LS])
    assert not renderer.append_only


def test_keeping_thinking_overrides_the_stock_qwen3_template():
    renderer = RENDERERS["qwen3"]
    messages = (REQUEST, thinking(CALL, "First."), RESULT, thinking(ANSWER, "Second."), FOLLOW_UP)
    text = renderer.tokenizer.decode(renderer.prompt(messages, tools=[LS]))
    assert text.count("<think>\nFirst.\n</think>") == text.count("<think>\nSecond.\n</think>") == 1
    stock = renderer.tokenizer.decode(hugging_face("qwen3", messages, [LS]))
    assert "First." not in stock
    assert text.replace("<think>\nFirst.\n</think>\n\n", "").replace("<think>\nSecond.\n</think>\n\n", "") == stock


@pytest.mark.parametrize("family", ALL)
def test_prompt_completion_and_extension_add_up_to_the_next_prompt(family):
    renderer, tools = RENDERERS[family], TOOLS[family]
    turns = [(thinking(CALLS), RESULTS), (ANSWER, [FOLLOW_UP]), (CALL, [RESULT]), (ANSWER, [])]
    messages = [SYSTEM, REQUEST]
    ids = renderer.prompt(messages, tools=tools)
    for message, following in turns:
        ids += renderer.completion(message) + renderer.extension(following)
        messages += [message, *following]
        assert ids == renderer.prompt(messages, tools=tools)


@pytest.mark.parametrize("family", ALL)
def test_a_completion_is_read_back_as_the_message_it_was(family):
    renderer = RENDERERS[family]
    for message in (CALL, ANSWER, thinking(CALLS), thinking(ANSWER)):
        ids = renderer.completion(message)
        assert renderer.parse(ids).message == message
        assert renderer.parse(ids).errors == ()
        assert ids.index(renderer.terminator_id) == len(ids) - 1


@pytest.mark.parametrize(("family", "token"), [(f, "<|eot_id|>" if f == "llama3_1" else "<|im_end|>") for f in ALL])
def test_the_terminator_is_found_in_the_template(family, token):
    renderer = RENDERERS[family]
    assert renderer.terminator_id == renderer.tokenizer.convert_tokens_to_ids(token)


def test_what_stands_behind_the_terminator_is_not_read():
    renderer = RENDERERS["qwen3"]
    assert renderer.parse(renderer.completion(ANSWER) + renderer.completion(CALL)).message == ANSWER


def test_a_turn_that_was_cut_off_is_read_without_its_terminator():
    renderer = RENDERERS["qwen3"]
    assert renderer.parse(renderer.completion(CALL)[:-3]).errors == ("Malformed tool call: no closing </tool_call>.",)


@pytest.mark.parametrize("family", ALL)
def test_the_policy_decides_on_results_and_system_prompt(family):
    renderer = template_renderer(family, tool_result_format="text", system_prompt="Be brief.")
    text = renderer.tokenizer.decode(renderer.prompt([SYSTEM, REQUEST], tools=TOOLS[family]))
    assert "Be brief." in text
    assert "Help." not in text
    extension = renderer.tokenizer.decode(renderer.extension([RESULT]))
    assert "entries:" in extension
    assert "{" not in extension


def test_the_order_of_the_tools_follows_the_task():
    renderer = template_renderer("hermes_chatml", tool_order="shuffled")
    prompts = {
        renderer.prompt([REQUEST], tools=tools, task_id=f"t{i}") for i in range(8) for tools in ([LS, MV], [MV, LS])
    }
    assert len(prompts) == 2


@pytest.mark.parametrize(
    ("family", "line"), [("qwen3", '"ls(path)"'), ("qwen2_5", '"ls(path)"'), ("hermes_chatml", "ls(path)")]
)
def test_short_schemas_are_lines_of_text(family, line):
    renderer = template_renderer(family, schema_style="short")
    assert line in renderer.tokenizer.decode(renderer.prompt([REQUEST], tools=[LS])).splitlines()


def test_new_tools_are_told_in_the_new_request():
    renderer = template_renderer("hermes_chatml", schema_style="short")
    assert renderer.tokenizer.decode(renderer.extension([FOLLOW_UP], new_tools=[LS])) == (
        "\n<|im_start|>user\nNew tools:\nls(path)\n\nThanks. And now?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_hermes_template_writes_little_around_the_messages():
    renderer = template_renderer("hermes_chatml", schema_style="short")
    messages = [SYSTEM, REQUEST, CALLS, *RESULTS]
    assert renderer.tokenizer.decode(renderer.prompt(messages, tools=[LS, MV])) == (
        "<|im_start|>system\nHelp.\n<tools>\nls(path)\nmv(source, to)\n</tools><|im_end|>\n"
        "<|im_start|>user\nList the folder Größe, then tell me.<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "ls", "arguments": {"path": "a"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "mv", "arguments": {"source": "a", "to": "b"}}\n</tool_call><|im_end|>\n'
        '<|im_start|>user\n<tool_response>\n{"entries": ["a", "b"]}\n</tool_response>\n'
        '<tool_response>\n{"ok": true}\n</tool_response><|im_end|>\n'
        "<|im_start|>assistant\n"
    )


def test_the_context_template_asks_for_each_prompt_anew():
    renderer = template_renderer(template="context")
    text = renderer.tokenizer.decode(renderer.prompt([SYSTEM, REQUEST, CALL, RESULT], tools=[LS]))
    assert text.count("<|im_start|>") == 3
    assert "assistant: Sure.\n<tool_call>" in text
    assert not renderer.append_only
    assert not renderer.extends([RESULT])
    with pytest.raises(ConfigError, match="Expected `template` to be 'native' for an extension"):
        renderer.extension([RESULT])


def test_text_in_a_context_message_can_not_pass_for_structure():
    renderer = template_renderer(template="context")
    ids = renderer.prompt([REQUEST, CALL, RESULT], tools=[])
    assert renderer.tokenizer.convert_tokens_to_ids("<tool_call>") not in ids


@pytest.mark.parametrize(
    ("choice", "result", "request_"), [("keep", True, True), ("strip", True, False), ("split", True, False)]
)
def test_only_a_new_request_rewrites_the_history(choice, result, request_):
    renderer = template_renderer(thinking=choice)
    assert renderer.extends([RESULT]) is result
    assert renderer.extends([RESULT, FOLLOW_UP]) is request_


def test_a_template_without_tools_is_refused_when_there_are_tools():
    with pytest.raises(ConfigError, match=r"leaves out \['ls'\]: it has no block for tools") as caught:
        RENDERERS["smollm2"].prompt([REQUEST], tools=[LS])
    assert "\n" not in str(caught.value)


def test_no_messages_and_wrong_roles_are_refused():
    renderer = RENDERERS["qwen3"]
    with pytest.raises(DataError, match="Expected `messages` of task 't1' to hold at least one message"):
        renderer.prompt([], tools=[], task_id="t1")
    with pytest.raises(DataError, match="Expected an assistant message, but got role 'user'"):
        renderer.completion(REQUEST)


def test_text_that_spells_a_call_is_refused_where_the_spelling_is_all_there_is():
    forged = Message(role=Role.ASSISTANT, content='<tool_call>{"name": "ls"}</tool_call>')
    with pytest.raises(DataError, match="spells calls of its own"):
        RENDERERS["smollm2"].completion(forged)
    renderer = RENDERERS["qwen3"]
    assert renderer.parse(renderer.completion(forged)).message == forged


def test_thinking_switched_off_stands_in_the_prompt_and_not_in_the_completion():
    renderer = template_renderer(enable_thinking=False)
    prompt = renderer.prompt([REQUEST], tools=[LS])
    assert list(prompt) == hugging_face("qwen3", [REQUEST], [LS], enable_thinking=False)
    assert renderer.tokenizer.decode(renderer.completion(ANSWER)) == "It holds a and b.<|im_end|>"
    with pytest.raises(DataError, match="can follow the generation prompt"):
        renderer.completion(thinking(ANSWER))


def test_a_prompt_that_opens_thinking_makes_a_turn_begin_inside_it():
    renderer = template_renderer("hermes_chatml", source=OPENS_THINKING)
    ids = renderer.completion(thinking(CALL))
    assert renderer.tokenizer.decode(ids).startswith("Let me see.\n</think>\n\nSure.\n<tool_call>")
    assert renderer.parse(ids).message == thinking(CALL)
    draft = renderer.completion(thinking(ANSWER, "A draft: <tool_call>"))
    assert renderer.parse(draft).message.tool_calls == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_digest_tells_policies_and_templates_apart(family):
    renderer = RENDERERS[family]
    again = template_renderer(family)
    assert renderer.digest() == again.digest()
    others = [template_renderer(family, tool_order="sorted").digest()]
    others += [RENDERERS[other].digest() for other in FAMILIES if other != family]
    assert renderer.digest() not in others


def test_an_extension_does_not_wait_for_the_template():
    renderer = RENDERERS["qwen3"]
    results = [Message(role=Role.TOOL, name="ls", content='{"entries": ["a"]}')]
    renderer.extension(results)
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(20):
            renderer.extension(results)
        best = min(best, (time.perf_counter() - start) / 20)
    # About a tenth of it on an idle core; the bound leaves room for a loaded one.
    assert best < 1e-3


TEXTS = st.text(
    alphabet=st.sampled_from("ab <>|_\n\"'{}\\") | st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12
) | st.sampled_from(["<|im_end|>", "<tool_call>", "</tool_call>", "</think>", "<tool_response>", "<|eot_id|>", " "])
CONTENTS = st.lists(TEXTS, max_size=4).map("".join)


@pytest.mark.parametrize("family", ALL)
@given(ids=st.lists(st.integers(0, 290), max_size=40))
@settings(deadline=None, max_examples=40)
def test_no_sampled_ids_raise(family, ids):
    RENDERERS[family].parse(ids)


@pytest.mark.parametrize("family", ["qwen3", "hermes_chatml"])
@given(content=CONTENTS, argument=CONTENTS)
@settings(deadline=None, max_examples=40)
def test_any_message_is_read_back_where_the_markers_are_tokens(family, content, argument):
    renderer = RENDERERS[family]
    call = ToolCall(name="ls", arguments={"path": argument, argument: [argument]})
    message = Message(role=Role.ASSISTANT, content=content.strip(), thinking="Hm.", tool_calls=(call,))
    parsed = renderer.parse(renderer.completion(message))
    assert parsed.message == message
    assert parsed.errors == ()
