import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streakline.rendering.hermes import MARKERS, parse_assistant, serialize_assistant, serialize_calls
from streakline.types import Message, Role, ToolCall


def block(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


PWD = block('{"name": "pwd"}')
LS = block('{"name": "ls", "arguments": {"path": "a"}}')


def test_a_turn_is_split_into_thinking_text_and_calls():
    parsed = parse_assistant(f"<think>\nFirst look.\n</think>\n\nI look.\n{LS}\n{PWD}")
    assert parsed.errors == ()
    assert parsed.message == Message(
        role=Role.ASSISTANT,
        content="I look.",
        thinking="First look.",
        tool_calls=(ToolCall(name="ls", arguments={"path": "a"}), ToolCall(name="pwd")),
    )


def test_plain_text_is_an_answer():
    assert parse_assistant(" Done.\n") == parse_assistant("Done.")
    assert parse_assistant("Done.").message == Message(role=Role.ASSISTANT, content="Done.")


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{LS}</think>Done.",
        f"<think>a</think><think>{LS}</think>Done.",
        f"{LS}</think>Done.",
        f"<think>a</think>{LS}</think>Done.",
        f"Done.<think>{LS}",
        f"Done.<think>{LS}<think>",
        f"<tool_call><think>{LS}</think>",
    ],
    ids=["closed", "second", "opened by the prompt", "closed twice", "never closed", "nested", "inside a block"],
)
def test_a_call_inside_thinking_is_never_a_call(text):
    assert parse_assistant(text).message.tool_calls == ()


@pytest.mark.parametrize("end", ["", "And so on.", "<tool_call>", "<think>", "</tool_call>"])
def test_whole_calls_in_thinking_that_never_ends_are_calls_where_it_is_closed_for_the_policy(end):
    text = f"Done.</tool_call><think>First {LS} then {block('x')}<think>{PWD}{end}"
    parsed = parse_assistant(text, close_thinking=True)
    assert parsed.open_thinking
    assert parsed.message.tool_calls == (ToolCall(name="ls", arguments={"path": "a"}), ToolCall(name="pwd"))
    assert parsed.message.content == "Done.</tool_call>"
    assert parsed.message.thinking.startswith(f"First \n then {block('x')}")
    # What is malformed in there is a thought; what was malformed before is not.
    assert parsed.errors == ("Malformed tool call: </tool_call> without <tool_call>.",)


@pytest.mark.parametrize("text", [f"<think>{LS}</think>", f"{LS}</think>Done.", f"<think>{LS}</think><think>Hm."])
def test_calls_in_thinking_that_ends_are_drafts_whoever_closes_the_rest(text):
    assert parse_assistant(text, close_thinking=True).message.tool_calls == ()


@pytest.mark.parametrize(
    ("text", "is_open"),
    [("Hm.", False), (f"<think>{LS}", True), ("<think>a</think>", False), ("a</think><think>", True)],
)
def test_thinking_that_never_ends_is_noted(text, is_open):
    assert parse_assistant(text).open_thinking is is_open


def test_a_page_of_opening_tags_is_read_at_once():
    assert parse_assistant("<think>" * 20_000 + LS, close_thinking=True).message.tool_calls != ()


def test_thinking_opened_by_the_prompt_keeps_its_text():
    parsed = parse_assistant(f"A draft: {LS}\n</think>\n\nDone.")
    assert parsed.message.thinking == f"A draft: {LS}"
    assert parsed.message.content == "Done."
    assert parsed.errors == ()


@pytest.mark.parametrize("text", ['"{\\"a\\": 1}"', '{"a": 1}'], ids=["doubly encoded", "object"])
def test_arguments_are_an_object_however_they_are_encoded(text):
    parsed = parse_assistant(block(f'{{"name": "f", "arguments": {text}}}'))
    assert parsed.message.tool_calls == (ToolCall(name="f", arguments={"a": 1}),)


@pytest.mark.parametrize("arguments", ["{}", "null", '""'])
def test_no_arguments_are_an_empty_object(arguments):
    call = parse_assistant(block(f'{{"name": "f", "arguments": {arguments}}}')).message.tool_calls
    assert call == (ToolCall(name="f"),)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("ls(a)", "Expecting value at character 1"),
        ("", "Expecting value"),
        ('{"name": "ls"', "Expecting ',' delimiter"),
        ('{"name": "ls"} and more', "text after the JSON object"),
        ("[]", "expected an object"),
        ('"ls"', "expected an object"),
        ('{"arguments": {}}', "expected `name`"),
        ('{"name": 3}', "expected `name`"),
        ('{"name": " "}', "expected `name`"),
        ('{"name": "a\\"b"}', "expected `name`"),
        ('{"name": "f", "arguments": [1]}', "expected `arguments`"),
        ('{"name": "f", "arguments": "x"}', "expected `arguments`"),
        ('{"name": "f", "arguments": "[1]"}', "expected `arguments`"),
        ('{"name": "f", "arguments": {"a": NaN}}', "NaN is not JSON"),
        ('{"name": "f", "arguments": {"a": -Infinity}}', "-Infinity is not JSON"),
        ('{"name": "f", "arguments": {"a": "\\ud800"}}', "surrogate"),
        ('{"name": "f", "arguments": {"a": ' + "9" * 5000 + "}}", "limit"),
        ('{"name": "f", "arguments": {"a": ' + "[" * 100_000 + "}}", "nested too deeply"),
    ],
)
def test_a_malformed_block_is_an_error_and_stays_in_the_text(body, reason):
    parsed = parse_assistant(f"So: {block(body)}")
    assert parsed.message.tool_calls == ()
    assert len(parsed.errors) == 1
    assert parsed.errors[0].startswith("Malformed tool call: ")
    assert reason in parsed.errors[0]
    assert parsed.message.content == f"So: {block(body)}"


def test_each_malformed_block_has_its_error_and_the_others_are_read():
    parsed = parse_assistant(f"{block('x')}{LS}{block('[]')}")
    assert [call.name for call in parsed.message.tool_calls] == ["ls"]
    assert len(parsed.errors) == 2


@pytest.mark.parametrize(
    ("text", "num_calls"),
    [('<tool_call>\n{"name": "ls"}', 0), ('<tool_call>\n{"name": "ls"}\n' + LS, 1), ("<tool_call>", 0)],
)
def test_a_block_that_is_not_closed_is_an_error_not_a_call(text, num_calls):
    parsed = parse_assistant(text)
    assert len(parsed.message.tool_calls) == num_calls
    assert parsed.errors == ("Malformed tool call: no closing </tool_call>.",)


def test_a_closing_tag_alone_is_an_error():
    assert parse_assistant('{"name": "ls"}\n</tool_call>').errors == (
        "Malformed tool call: </tool_call> without <tool_call>.",
    )


def test_a_string_argument_may_spell_the_markers():
    call = ToolCall(name="write", arguments={"text": f"</tool_call><think>{LS}</think>"})
    assert parse_assistant(serialize_calls([call])).message.tool_calls == (call,)


def test_calls_keep_utf8_and_are_one_below_the_other():
    calls = [ToolCall(name="ls", arguments={"path": "Größe"}), ToolCall(name="pwd")]
    assert serialize_calls(calls) == (
        '<tool_call>\n{"name": "ls", "arguments": {"path": "Größe"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "pwd", "arguments": {}}\n</tool_call>'
    )


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
CALLS = st.builds(
    ToolCall,
    name=st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,8}", fullmatch=True),
    arguments=st.dictionaries(st.text(max_size=6), JSON_VALUES, max_size=3),
)


@given(st.lists(CALLS, min_size=1, max_size=3))
@settings(deadline=None)
def test_reading_what_was_written_gives_the_same_calls(calls):
    parsed = parse_assistant(serialize_calls(calls))
    assert parsed.errors == ()
    assert list(parsed.message.tool_calls) == calls
    assert serialize_calls(parsed.message.tool_calls) == serialize_calls(calls)


PIECES = st.sampled_from([*MARKERS, LS, "{", "}", '"', '{"name": "f", "arguments": ', "\n", " ", "a"]) | st.text(
    max_size=5
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS, st.booleans())
@settings(deadline=None)
def test_no_text_raises_and_writing_what_was_read_is_stable(text, close_thinking):
    parsed = parse_assistant(text, close_thinking=close_thinking)
    again = parse_assistant(serialize_assistant(parsed.message), close_thinking=close_thinking)
    assert again.message == parsed.message
    assert bool(again.errors) == bool(parsed.errors)
    assert parsed.open_thinking or parsed == parse_assistant(text)


@given(TEXTS, st.booleans())
@settings(deadline=None)
def test_nothing_inside_thinking_is_a_call(text, close_thinking):
    text = text.replace("</think>", "")
    assume("</think>" not in text)
    parsed = parse_assistant(f"<think>{text}</think>Done.", close_thinking=close_thinking)
    assert parsed.message.tool_calls == ()
    assert parsed.message.content == "Done."
    assert parsed.errors == ()
