"""Faults that were seen in systems of this kind, each by its behaviour, over four families and our own template."""

import json

import pytest
from tests.rendering.renderers import RENDERERS, TOOLS, template_renderer
from tests.rendering.talk import ANSWER, CALL, CALLS, FOLLOW_UP, REQUEST, RESULTS, SYSTEM, thinking

from streakline.rendering.encode import encode_conversation
from streakline.rendering.hermes import serialize_calls
from streakline.types import Message, Role, ToolCall, ToolSchema

CONVERSATION = (SYSTEM, REQUEST, thinking(CALLS), *RESULTS, thinking(ANSWER), FOLLOW_UP, ANSWER)

over_families = pytest.mark.parametrize("family", TOOLS)


def encode(family, messages=CONVERSATION, **options):
    return encode_conversation(RENDERERS[family], messages, tools=TOOLS[family], **options)


@over_families
def test_sampled_tokens_are_kept_however_their_text_would_be_encoded(family):
    renderer = RENDERERS[family]
    a, b, merged = (renderer.tokenizer.convert_tokens_to_ids(token) for token in ("a", "b", "ab"))
    assert renderer.tokenizer.encode("ab", add_special_tokens=False) == [merged]
    sampled = (a, b, renderer.terminator_id)
    prompt = renderer.prompt([REQUEST], tools=TOOLS[family])
    following = renderer.extension([FOLLOW_UP])
    assert renderer.parse(sampled).message.content == "ab"
    whole = prompt + sampled + following
    assert whole[len(prompt) : len(prompt) + 3] == sampled
    answer = Message(role=Role.ASSISTANT, content="ab")
    text = renderer.tokenizer.decode(renderer.prompt([REQUEST, answer, FOLLOW_UP], tools=TOOLS[family]))
    assert renderer.tokenizer.decode(whole) == text.replace("<think>\n\n</think>\n\n", "")


@over_families
def test_masks_are_as_long_as_ids_after_every_turn(family):
    for end in (3, 6, 8):
        for sample in encode(family, CONVERSATION[:end]).samples:
            assert len(sample.token_ids) == len(sample.loss_mask)


@over_families
def test_each_boundary_has_one_terminator_and_the_separator_of_the_template(family):
    renderer = RENDERERS[family]
    ids = encode(family).samples[0].token_ids
    text = renderer.tokenizer.decode(ids)
    end = "<|eot_id|>" if family == "llama3_1" else "<|im_end|>"
    separator = "" if family == "llama3_1" else "\n"
    start = "<|start_header_id|>" if family == "llama3_1" else "<|im_start|>"
    assert text.count(end) == text.count(f"{end}{separator}{start}") + 1
    assert text.count(start) == text.count(end)
    assert end + end not in text
    assert ids.count(renderer.terminator_id) == text.count(end)


@pytest.mark.parametrize(("choice", "samples", "untrained"), [("keep", 1, 0), ("split", 2, 0), ("strip", 2, 2)])
@over_families
def test_dropping_earlier_thinking_is_chosen_and_counted(family, choice, samples, untrained):
    renderer = template_renderer(family, thinking=choice)
    trajectory = encode_conversation(renderer, CONVERSATION, tools=TOOLS[family])
    assert (len(trajectory.samples), trajectory.untrained_turns) == (samples, untrained)
    history = renderer.tokenizer.decode(renderer.prompt(CONVERSATION[:7], tools=TOOLS[family]))
    assert history.count("Let me see.") == (2 if choice == "keep" else 0)


@over_families
def test_every_turn_has_trained_tokens_and_all_of_them_were_written_by_the_assistant(family):
    trajectory = encode(family)
    (sample,) = trajectory.samples
    inside = {i for turn in trajectory.turns for i in range(turn.start, turn.end)}
    assert {i for i, trained in enumerate(sample.loss_mask) if trained} == inside
    assert all(turn.end > turn.start for turn in trajectory.turns)


@over_families
def test_the_terminator_of_every_turn_is_trained(family):
    trajectory = encode(family)
    (sample,) = trajectory.samples
    pairs = zip(sample.token_ids, sample.loss_mask, strict=True)
    trained = sum(mask and token_id == trajectory.terminator_id for token_id, mask in pairs)
    assert trained == len(trajectory.turns) == 3


@over_families
def test_assistant_messages_of_the_request_are_not_trained(family):
    trajectory = encode(family, num_given=7)
    (sample,) = trajectory.samples
    (turn,) = trajectory.turns
    assert sum(sample.loss_mask) == turn.end - turn.start == len(RENDERERS[family].completion(ANSWER))


@over_families
def test_arguments_as_text_or_as_object_are_the_same_call(family):
    renderer = RENDERERS[family]
    body = json.dumps({"name": "ls", "arguments": json.dumps({"path": "Größe"})})
    ids = renderer.tokenizer.encode(f"<tool_call>\n{body}\n</tool_call>", add_special_tokens=False)
    parsed = renderer.parse(ids)
    assert parsed.message.tool_calls == CALL.tool_calls
    assert renderer.parse(renderer.completion(parsed.message)).message == parsed.message
    assert serialize_calls(CALL.tool_calls) in renderer.tokenizer.decode(renderer.completion(parsed.message))


@pytest.mark.parametrize("family", ["qwen3", "qwen2_5", "llama3_1", "hermes_chatml"])
def test_schemas_calls_and_results_keep_utf8(family):
    renderer = RENDERERS[family]
    tool = ToolSchema(name="größe", description="日本語")
    call = Message(role=Role.ASSISTANT, tool_calls=(ToolCall(name="größe", arguments={"ü": "é"}),))
    result = Message(role=Role.TOOL, name="größe", content="ø")
    text = renderer.tokenizer.decode(renderer.prompt([REQUEST, call, result], tools=[tool]))
    assert "\\u" not in text
    assert all(word in text for word in ("größe", "日本語", "ü", "é", "ø"))


@over_families
def test_a_call_drafted_in_thinking_is_not_a_call(family):
    renderer = RENDERERS[family]
    text = f"<think>\nMaybe\n{serialize_calls(CALLS.tool_calls)}\n</think>\n\nDone."
    parsed = renderer.parse(renderer.tokenizer.encode(text, add_special_tokens=False))
    assert parsed.message.tool_calls == ()
    assert parsed.message.content == "Done."


@pytest.mark.parametrize(
    "body", ['{"arguments": {"a": 1}}', '{"name": "ls", "arguments": "a"}', '{"name": null}', "{}"]
)
@over_families
def test_a_call_without_name_or_arguments_is_answered_and_breaks_no_template(family, body):
    renderer = RENDERERS[family]
    ids = renderer.tokenizer.encode(f"<tool_call>\n{body}\n</tool_call>", add_special_tokens=False)
    parsed = renderer.parse(ids)
    assert len(parsed.errors) == 1
    told = Message(role=Role.TOOL, content=json.dumps({"error": parsed.errors[0]}))
    assert renderer.prompt([REQUEST, parsed.message, told], tools=TOOLS[family])
