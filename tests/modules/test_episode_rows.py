"""What a row says of an episode."""

import json
from dataclasses import replace

import pytest
from tests.fixtures.episodes import TERMINATOR, call
from tests.fixtures.tokenizers import byte_tokenizer

from streakline.data.conversations import read_conversation
from streakline.modules.episode_rows import trajectory_to_json
from streakline.types import (
    Message,
    Role,
    Sample,
    Task,
    Termination,
    Tier,
    ToolResult,
    ToolSchema,
    Trajectory,
    Turn,
)

TOKENIZER = byte_tokenizer("hermes_chatml")
END = TOKENIZER.convert_tokens_to_ids("<|im_end|>")
ASKED = Message(role=Role.USER, content="Look it up.")
TASK = Task(id="test/a", source="test", kind="words", tools=(ToolSchema(name="look_up"),), requests=((ASKED,),))
CALLING = Message(role=Role.ASSISTANT, tool_calls=(call("look_up", word="a"),))
FUZZY = ToolResult(name="look_up", content="found", tier=Tier.FUZZY, similarity=0.8, entry_id="e7", truncated=True)


def trajectory(*, prompt="Ask: ", written=("call it", "Done."), between="found", messages=None, **first):
    """Two turns with a result between them, as text that a tokenizer of bytes encodes."""
    ids, mask, turns = [], [], []

    def add(text, *, trained, end=False):
        new = [*TOKENIZER.encode(text, add_special_tokens=False), *([END] if end else [])]
        ids.extend(new)
        mask.extend([trained] * len(new))

    add(prompt, trained=False)
    answer = Message(role=Role.ASSISTANT, content="Done.")
    for text, message in zip(written, (CALLING, answer), strict=True):
        start = len(ids)
        add(text, trained=True, end=True)
        results = (FUZZY,) if message is CALLING else ()
        turns.append(Turn(sample=0, start=start, end=len(ids), message=message, results=results))
        if message is CALLING:
            turns[0] = replace(turns[0], **first)
            add(between, trained=False)
    told = Message(role=Role.TOOL, content="found", name="look_up")
    return Trajectory(
        task_id=TASK.id,
        samples=(Sample(token_ids=tuple(ids), loss_mask=tuple(mask)),),
        turns=tuple(turns),
        termination=Termination.ANSWER,
        terminator_id=END,
        messages=(ASKED, CALLING, told, answer) if messages is None else messages,
        reward=0.5,
        reward_terms={"answer": 1.0, "judge": None},
    )


def row(one, **options):
    """Through JSON, as a reader gets it."""
    return json.loads(json.dumps(trajectory_to_json(TASK, one, **options)))


def test_a_turn_says_where_its_results_came_from_and_what_could_not_be_read():
    turn, answer = row(trajectory(malformed_calls=2, closed_thinking=True))["turns"]

    assert turn.pop("results") == [
        {
            "message": 2,
            "name": "look_up",
            "is_error": False,
            "tier": "fuzzy",
            "similarity": 0.8,
            "entry_id": "e7",
            "truncated": True,
        }
    ]
    assert turn.pop("span")[1] < answer.pop("span")[0]
    expected = {"message": 1, "sample": 0, "user_turn": 0, "truncated": False, "trained": True}
    assert turn == expected | {"malformed_calls": 2, "closed_thinking": True}
    assert answer == expected | {"message": 3, "malformed_calls": 0, "closed_thinking": False, "results": []}


def test_what_a_term_says_stands_in_the_row():
    assert row(replace(trajectory(), reward_notes={"answer": "It is right."}))["reward_notes"] == {
        "answer": "It is right."
    }


def test_a_turn_is_found_behind_an_equal_message_of_a_history():
    history = (ASKED, replace(CALLING), Message(role=Role.TOOL, content="found"), replace(ASKED, content="Again."))
    one = trajectory()
    whole = replace(one, messages=(*history, *one.messages[1:]))

    assert [turn["message"] for turn in row(whole)["turns"]] == [4, 6]


@pytest.mark.parametrize("messages", [(), (ASKED, CALLING), (ASKED, CALLING, Message(role=Role.TOOL, content="other"))])
def test_a_result_whose_message_is_not_there_stands_in_the_row(messages):
    (result,) = row(trajectory(messages=messages))["turns"][0]["results"]

    assert result["content"] == "found"
    assert "message" not in result


def test_the_mask_is_text_that_is_trained_or_not():
    (segments,) = row(trajectory(), tokenizer=TOKENIZER)["samples"]

    assert [(each["text"], each["trained"]) for each in segments] == [
        ("Ask: ", False),
        ("call it<|im_end|>", True),
        ("found", False),
        ("Done.<|im_end|>", True),
    ]
    assert sum(each["num_tokens"] for each in segments if each["trained"]) == row(trajectory())["num_trained_tokens"]
    assert "samples" not in row(trajectory())


def test_a_long_prompt_is_shortened_and_says_so_but_what_is_trained_is_whole():
    (segments,) = row(trajectory(prompt="p" * 9000, written=("w" * 9000, "Done.")), tokenizer=TOKENIZER)["samples"]

    assert segments[0]["left_out"] == 7000
    assert len(segments[0]["text"]) < 2100
    assert segments[0]["text"].count("p") == 2000
    assert len(segments[1]["text"]) > 9000
    assert segments[1]["left_out"] == 0


def test_turns_under_an_earlier_history_are_untrained():
    one = trajectory()
    (_, second), (sample,) = one.turns, one.samples
    mask = tuple(m and at >= second.start for at, m in enumerate(sample.loss_mask))
    stripped = replace(one, samples=(replace(sample, loss_mask=mask),), untrained_turns=1)

    written = row(stripped)
    assert written["untrained_turns"] == 1
    assert [turn["trained"] for turn in written["turns"]] == [False, True]


def test_a_broken_episode_without_turns_is_a_row_too():
    sample = Sample(token_ids=(1, TERMINATOR), loss_mask=(False, False))
    broken = replace(trajectory(), turns=(), samples=(sample,), termination=Termination.ENGINE_ERROR)

    assert row(broken)["turns"] == []


def test_a_row_is_a_conversation_that_other_commands_read():
    line = json.dumps(trajectory_to_json(TASK, trajectory(), tokenizer=TOKENIZER))

    assert read_conversation(line, where="here").messages == trajectory().messages
