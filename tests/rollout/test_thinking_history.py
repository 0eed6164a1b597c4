"""Thinking in episodes: closed where a turn leaves it open, and kept, split off or stripped afterwards."""

from dataclasses import replace
from functools import partial

import pytest
from tests.fixtures.tokenizers import byte_tokenizer
from tests.rendering.renderers import OPENS_THINKING
from tests.rollout.play import SAMPLING, TWO_REQUESTS, Play
from tests.rollout.worlds import call, task, user

from streakline.rendering.policy import RenderingPolicy
from streakline.types import Termination, ToolCall


def test_a_call_inside_thinking_is_not_executed():
    play = Play(["<think>\n" + call("look", key="a") + "\n</think>\n\nNo need."])
    assert play.first.termination is Termination.ANSWER
    assert play.worlds[0].calls == []


OPEN = "<think>\nI had better look.\n" + call("look", key="a")


@pytest.mark.parametrize(
    ("family", "source", "texts"),
    [(family, None, (OPEN, "Done.")) for family in ("qwen3", "qwen2_5", "llama3_1", "hermes_chatml")]
    # The generation prompt writes the opening tag.
    + [("hermes_chatml", OPENS_THINKING, (OPEN.removeprefix("<think>\n"), "I know.\n</think>\n\nDone."))],
)
def test_thinking_left_open_is_closed_behind_the_turn_and_its_call_is_run(family, source, texts):
    play = Play(texts, family=family, source=source)
    assert play.worlds[0].calls == [ToolCall(name="look", arguments={"key": "a"})]
    assert play.first.termination is Termination.ANSWER
    assert play.first.turns[1].message.content == "Done."
    assert [turn.closed_thinking for turn in play.first.turns] == [True, False]
    (sample,), (first, last) = play.first.samples, play.first.turns
    encode = partial(play.renderer.tokenizer.encode, add_special_tokens=False)
    closed = encode("</think>") + list(play.renderer.extension(play.first.messages[2:3]))
    assert list(sample.token_ids[first.end : last.start]) == closed
    for turn, text in zip(play.first.turns, texts, strict=True):
        assert list(sample.token_ids[turn.start : turn.end]) == [*encode(text), play.renderer.terminator_id]
    expected = [first.start <= i < first.end or last.start <= i < last.end for i in range(len(sample.token_ids))]
    assert list(sample.loss_mask) == expected
    assert len(sample.token_ids) == len(sample.loss_mask) == len(sample.logprobs_engine)


def test_thinking_may_stay_open_and_then_holds_no_call():
    play = Play([OPEN, "Done."], on=TWO_REQUESTS, close_thinking=False)
    assert play.worlds[0].calls == []
    assert "</think>" not in play.text()
    assert not any(turn.closed_thinking for turn in play.first.turns)


def test_thinking_is_closed_before_the_next_request():
    play = Play(["<think>\nHm.", "Done."], on=TWO_REQUESTS)
    assert "Hm.<|im_end|></think>\n<|im_start|>user\nSecond." in play.text()
    assert [turn.closed_thinking for turn in play.first.turns] == [True, False]


@pytest.mark.parametrize(
    "policy", [{"thinking": "split"}, {"thinking": "strip"}, {"template": "context"}], ids=lambda policy: str(policy)
)
def test_a_rewritten_history_closes_thinking_by_itself(policy):
    play = Play(["<think>\nHm.", "Done."], on=TWO_REQUESTS, policy=RenderingPolicy(**policy))
    assert [turn.closed_thinking for turn in play.first.turns] == [True, False]
    last = play.first.turns[1]
    assert last.sample == 1
    prompt = play.renderer.prompt(play.first.messages[:-1], tools=play.task.tools)
    assert play.first.samples[1].token_ids[: last.start] == prompt


def test_nothing_is_closed_where_nothing_follows():
    prompt = len(Play(["x"]).first.samples[0].token_ids)
    tight = replace(SAMPLING, max_tokens=prompt + len(byte_tokenizer("hermes_chatml").encode(OPEN)) + 20)
    for play, reason in (
        (Play(["<think>\nHm."]), Termination.ANSWER),
        (Play([OPEN], sampling=replace(SAMPLING, max_new_tokens=5)), Termination.LENGTH),
        (Play([OPEN], sampling=tight), Termination.TOOL_OVERFLOW),
        (Play([OPEN], mode="turn"), Termination.ENVIRONMENT_DONE),
    ):
        assert play.first.termination is reason
        assert not play.first.turns[0].closed_thinking
        assert len(play.first.samples[0].token_ids) == play.first.turns[0].end


THINKING = [
    "<think>\nfirst\n</think>\n\n" + call("look", key="a"),
    "<think>\nsecond\n</think>\n\nOne.",
    "<think>\nthird\n</think>\n\nTwo.",
]


def test_thinking_keep_is_one_sample_with_all_turns_trained():
    play = Play(THINKING, on=TWO_REQUESTS, policy=RenderingPolicy(thinking="keep"))
    assert len(play.first.samples) == 1
    assert play.text(trained=True) == "".join(text + "<|im_end|>" for text in THINKING)


def test_thinking_split_is_a_sample_for_each_rewritten_history_all_trained():
    play = Play(THINKING, on=TWO_REQUESTS, policy=RenderingPolicy(thinking="split"))
    assert [turn.sample for turn in play.first.turns] == [0, 0, 1]
    assert play.first.untrained_turns == 0
    assert play.text(sample=0, trained=True) == "".join(text + "<|im_end|>" for text in THINKING[:2])
    assert play.text(sample=1, trained=True) == THINKING[2] + "<|im_end|>"
    assert "second" not in play.text(sample=1)
    assert "One." in play.text(sample=1)


def test_thinking_strip_trains_the_last_sample_and_counts_the_rest():
    play = Play(THINKING, on=TWO_REQUESTS, policy=RenderingPolicy(thinking="strip"))
    assert play.first.untrained_turns == 2
    assert not any(play.first.samples[0].loss_mask)
    assert set(play.first.samples[0].logprobs_engine) == {0.0}
    assert play.text(sample=1, trained=True) == THINKING[2] + "<|im_end|>"


def test_strip_without_thinking_rewrites_nothing():
    play = Play(["One.", "Two."], on=TWO_REQUESTS, policy=RenderingPolicy(thinking="strip"))
    assert len(play.first.samples) == 1
    assert play.first.untrained_turns == 0


def test_strip_when_the_rewritten_prompt_has_no_room_trains_what_there_is():
    length = len(Play(THINKING, on=TWO_REQUESTS, policy=RenderingPolicy(thinking="split")).first.samples[0].token_ids)
    play = Play(
        THINKING,
        on=task(user("First."), user("Second. " * 200)),
        policy=RenderingPolicy(thinking="strip"),
        sampling=replace(SAMPLING, max_tokens=length + 30),
    )
    assert play.first.termination is Termination.LENGTH
    assert play.first.num_trained_tokens > 0
    assert len(play.first.samples) == 1


def test_context_template_is_a_sample_for_each_turn():
    play = Play([call("look", key="a"), "Done."], policy=RenderingPolicy(template="context"))
    assert [turn.sample for turn in play.first.turns] == [0, 1]
    assert play.text(sample=1, trained=True) == "Done.<|im_end|>"
    assert play.first.termination is Termination.ANSWER
