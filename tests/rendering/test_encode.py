import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rendering.renderers import template_renderer
from tests.rendering.talk import ANSWER, CALL, CALLS, FOLLOW_UP, LS, MV, REQUEST, RESULT, RESULTS, SYSTEM, thinking

from streakline.errors import DataError
from streakline.rendering.encode import encode_conversation
from streakline.types import Message, Role, Termination, ToolCall

FAMILIES = ("qwen3", "qwen2_5", "llama3_1", "hermes_chatml")
CONVERSATION = (
    SYSTEM,
    REQUEST,
    thinking(CALLS, "First."),
    *RESULTS,
    thinking(ANSWER, "Second."),
    FOLLOW_UP,
    thinking(CALL, "Third."),
    RESULT,
    thinking(ANSWER, "Fourth."),
)


def trained_text(made, trajectory, sample):
    ids = trajectory.samples[sample]
    pairs = zip(ids.token_ids, ids.loss_mask, strict=True)
    return made.tokenizer.decode([token_id for token_id, trained in pairs if trained])


@pytest.mark.parametrize("family", FAMILIES)
def test_keeping_all_is_one_sample_with_all_turns_trained(family):
    made = template_renderer(family)
    trajectory = encode_conversation(made, CONVERSATION, tools=[LS, MV], task_id="t1")
    (sample,) = trajectory.samples
    expected = (
        made.prompt(CONVERSATION[:2], tools=[LS, MV])
        + made.completion(CONVERSATION[2])
        + made.extension(CONVERSATION[3:5])
        + made.completion(CONVERSATION[5])
        + made.extension(CONVERSATION[6:7])
        + made.completion(CONVERSATION[7])
        + made.extension(CONVERSATION[8:9])
        + made.completion(CONVERSATION[9])
    )
    assert sample.token_ids == expected
    turns = [m for m in CONVERSATION if m.role is Role.ASSISTANT]
    assert sum(sample.loss_mask) == sum(len(made.completion(message)) for message in turns)
    assert [turn.message for turn in trajectory.turns] == turns
    assert [turn.user_turn for turn in trajectory.turns] == [0, 0, 1, 1]
    assert [[r.content for r in turn.results] for turn in trajectory.turns] == [
        [result.content for result in RESULTS],
        [],
        [RESULT.content],
        [],
    ]
    assert trajectory.termination is Termination.ANSWER
    assert trajectory.terminator_id == made.terminator_id
    assert trajectory.messages == CONVERSATION
    assert trajectory.untrained_turns == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_split_trains_each_history_as_a_sample_of_its_own(family):
    made = template_renderer(family, thinking="split")
    trajectory = encode_conversation(made, CONVERSATION, tools=[LS, MV])
    assert [turn.sample for turn in trajectory.turns] == [0, 0, 1, 1]
    assert trajectory.untrained_turns == 0
    first, second = (trained_text(made, trajectory, index) for index in range(2))
    assert "First." in first
    assert "Second." in first
    assert "Third." in second
    assert "Fourth." in second
    shown = made.tokenizer.decode(trajectory.samples[1].token_ids)
    assert "First." not in shown
    assert "Second." not in shown
    assert "It holds a and b." in shown


@pytest.mark.parametrize("family", FAMILIES)
def test_strip_trains_the_last_history_and_counts_the_rest(family):
    made = template_renderer(family, thinking="strip")
    trajectory = encode_conversation(made, CONVERSATION, tools=[LS, MV])
    assert [any(sample.loss_mask) for sample in trajectory.samples] == [False, True]
    assert trajectory.untrained_turns == 2
    assert len(trajectory.turns) == 4
    assert len(trajectory.calls) == 3
    assert trained_text(made, trajectory, 1).count("Third.") == 1


@pytest.mark.parametrize("choice", ["strip", "split"])
@pytest.mark.parametrize("family", ["qwen2_5", "llama3_1", "hermes_chatml"])
def test_a_history_without_thinking_is_not_rewritten(family, choice):
    conversation = (SYSTEM, REQUEST, CALL, RESULT, ANSWER, FOLLOW_UP, ANSWER)
    trajectory = encode_conversation(template_renderer(family, thinking=choice), conversation, tools=[LS])
    kept = encode_conversation(template_renderer(family), conversation, tools=[LS])
    assert trajectory.samples == kept.samples
    assert trajectory.untrained_turns == 0


def test_in_context_form_every_turn_is_a_sample():
    made = template_renderer(template="context")
    trajectory = encode_conversation(made, CONVERSATION, tools=[LS, MV])
    assert [turn.sample for turn in trajectory.turns] == [0, 1, 2, 3]
    assert all(any(sample.loss_mask) for sample in trajectory.samples)


def test_given_messages_are_a_prompt_whoever_said_them():
    made = template_renderer()
    trajectory = encode_conversation(made, CONVERSATION, tools=[LS, MV], num_given=7)
    assert len(trajectory.turns) == 2
    assert trajectory.turns[0].start == len(made.prompt(CONVERSATION[:7], tools=[LS, MV]))
    assert [turn.user_turn for turn in trajectory.turns] == [0, 0]
    assert "First." not in trained_text(made, trajectory, 0)
    assert "First." in made.tokenizer.decode(trajectory.samples[0].token_ids)


def test_tools_are_revealed_with_their_user_turn():
    made = template_renderer(schema_style="short")
    trajectory = encode_conversation(made, CONVERSATION, tools=[LS], revealed_tools={1: [MV]})
    text = made.tokenizer.decode(trajectory.samples[0].token_ids)
    assert text.index("ls(path)") < text.index("New tools:\nmv(source, to)\n\nThanks. And now?")


def test_revealed_tools_join_the_others_where_the_prompt_is_written_anew():
    made = template_renderer(schema_style="short", thinking="split")
    trajectory = encode_conversation(made, CONVERSATION, tools=[LS], revealed_tools={1: [MV]})
    first, second = (made.tokenizer.decode(sample.token_ids) for sample in trajectory.samples)
    assert "mv(source, to)" not in first
    assert "mv(source, to)" in second
    assert "New tools" not in second


def test_what_follows_the_last_turn_is_left_out():
    made = template_renderer()
    trajectory = encode_conversation(made, [REQUEST, CALL, RESULT], tools=[LS])
    assert trajectory.samples[0].token_ids[-1] == made.terminator_id
    assert trajectory.turns[0].results[0].content == RESULT.content


@pytest.mark.parametrize(("messages", "num_given"), [([REQUEST], None), ([REQUEST, ANSWER], 2)])
def test_a_demonstration_without_a_turn_is_refused(messages, num_given):
    with pytest.raises(DataError, match="Expected the demonstration of 't1' to hold an assistant turn to train"):
        encode_conversation(template_renderer(), messages, tools=[], task_id="t1", num_given=num_given)


CONTENTS = st.text(alphabet=st.sampled_from("ab<|>_\n ö\U0001f600") | st.characters(codec="utf-8"), max_size=10)
TURNS = st.lists(st.tuples(CONTENTS, CONTENTS, st.lists(CONTENTS, max_size=2), st.booleans()), min_size=1, max_size=4)


def conversation_of(turns):
    messages = [SYSTEM, REQUEST]
    for content, thought, results, asks in turns:
        calls = tuple(ToolCall(name="ls", arguments={"path": result}) for result in results)
        messages.append(Message(role=Role.ASSISTANT, content=content, thinking=thought, tool_calls=calls))
        messages += [Message(role=Role.TOOL, name="ls", content=result) for result in results]
        if asks or not results:
            messages.append(Message(role=Role.USER, content=content))
    return messages


RENDERERS = {
    (family, choice): template_renderer(family, thinking=choice)
    for family in FAMILIES
    for choice in ("keep", "strip", "split")
}


@pytest.mark.parametrize("choice", ["keep", "strip", "split"])
@pytest.mark.parametrize("family", FAMILIES)
@given(turns=TURNS)
@settings(deadline=None, max_examples=15)
def test_masks_pair_with_ids_and_each_trained_turn_ends_with_one_terminator(family, choice, turns):
    made = RENDERERS[family, choice]
    trajectory = encode_conversation(made, conversation_of(turns), tools=[LS])
    trained_terminators = 0
    for sample in trajectory.samples:
        assert len(sample.token_ids) == len(sample.loss_mask)
        trained_terminators += sum(
            trained and token_id == made.terminator_id
            for token_id, trained in zip(sample.token_ids, sample.loss_mask, strict=True)
        )
    assert (
        trained_terminators
        == len(trajectory.turns) - trajectory.untrained_turns
        == len(turns) - trajectory.untrained_turns
    )
