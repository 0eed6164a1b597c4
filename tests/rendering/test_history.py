import pytest
from tests.rendering.talk import ANSWER, CALL, FOLLOW_UP, REQUEST, RESULT, SYSTEM, thinking

from streakline.rendering.history import (
    drop_earlier_thinking,
    format_results,
    merge_into_context,
    shown_history,
    split_turns,
    starts_user_turn,
)
from streakline.rendering.policy import RenderingPolicy
from streakline.types import Message, Role

DIALOGUE = (SYSTEM, REQUEST, thinking(CALL), RESULT, thinking(ANSWER), FOLLOW_UP, thinking(CALL), RESULT)


@pytest.mark.parametrize(
    ("given", "prompt", "shown"),
    [
        ([SYSTEM, REQUEST], None, ["Help."]),
        ([SYSTEM, REQUEST], "Other.", ["Other."]),
        ([REQUEST], "Other.", ["Other."]),
        ([SYSTEM, REQUEST], "", []),
        ([REQUEST], None, []),
    ],
)
def test_the_policy_replaces_the_system_prompt(given, prompt, shown):
    messages = shown_history(given, policy=RenderingPolicy(system_prompt=prompt))
    assert [message.content for message in messages if message.role is Role.SYSTEM] == shown
    assert messages[-1] == REQUEST


def test_thinking_before_the_last_request_is_dropped_and_that_after_it_stays():
    shown = drop_earlier_thinking(DIALOGUE)
    assert [message.thinking for message in shown if message.role is Role.ASSISTANT] == ["", "", "Let me see."]
    assert [message.tool_calls for message in shown] == [message.tool_calls for message in DIALOGUE]


@pytest.mark.parametrize(("choice", "kept"), [("keep", 3), ("strip", 1), ("split", 1)])
def test_the_policy_decides_on_earlier_thinking(choice, kept):
    shown = shown_history(DIALOGUE, policy=RenderingPolicy(thinking=choice))
    assert sum(bool(message.thinking) for message in shown) == kept


def test_results_take_the_format_of_the_policy():
    results = format_results([RESULT, REQUEST], policy=RenderingPolicy(tool_result_format="text"))
    assert results == (Message(role=Role.TOOL, name="ls", content="entries:\n  - a\n  - b"), REQUEST)


def test_context_is_one_user_message_behind_the_system_message():
    merged = merge_into_context((SYSTEM, REQUEST, CALL, RESULT))
    assert merged[0] == SYSTEM
    assert merged[1:] == (
        Message(
            role=Role.USER,
            content=(
                "user: List the folder Größe, then tell me.\n\n"
                'assistant: Sure.\n<tool_call>\n{"name": "ls", "arguments": {"path": "Größe"}}\n</tool_call>\n\n'
                'tool: {"entries": ["a", "b"]}'
            ),
        ),
    )


def test_turns_are_the_assistant_messages_with_what_follows():
    head, turns = split_turns((SYSTEM, REQUEST, CALL, RESULT, ANSWER))
    assert head == (SYSTEM, REQUEST)
    assert turns == ((CALL, (RESULT,)), (ANSWER, ()))
    assert split_turns((REQUEST,)) == ((REQUEST,), ())


def test_only_a_request_starts_a_user_turn():
    assert starts_user_turn([RESULT, FOLLOW_UP])
    assert not starts_user_turn([RESULT])
