"""The stories of tasks that went from wrong to right."""

from __future__ import annotations

import pytest

from streakline.evaluation.by_kind import KindChange
from streakline.evaluation.quickstart_report import Corruption
from streakline.evaluation.stories import Episode, choose_stories, describe_mistake, tell_story
from streakline.types import Message, Role, Task, ToolCall, ToolSchema


def _call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


LOOK_UP, CLOSE = _call("get_user_tickets", status="Open"), _call("close_ticket", ticket_id=207)


def _task(*gold: tuple[tuple[ToolCall, ...], ...]) -> Task:
    return Task(
        id="toolworld/test/close_open_ticket/3",
        source="toolworld",
        kind="close_open_ticket",
        tools=(ToolSchema(name="close_ticket"),),
        requests=tuple((Message(role=Role.USER, content=f"Please close it {index}."),) for index in range(len(gold))),
        gold=gold,
    )


def _episode(*turns: tuple[ToolCall, ...], success: bool = False, task_id: str = "t") -> Episode:
    messages: list[Message] = [Message(role=Role.SYSTEM, content="You use tools.")]
    for calls in turns:
        messages.append(Message(role=Role.USER, content="Please close it."))
        for call in calls:
            messages.append(Message(role=Role.ASSISTANT, tool_calls=(call,)))
            messages.append(Message(role=Role.TOOL, content='{"status": "done"}', name=call.name))
        messages.append(Message(role=Role.ASSISTANT, content="Done."))
    return Episode(task_id=task_id, messages=tuple(messages), success=success)


@pytest.mark.parametrize(
    ("gold", "made", "sentences"),
    [
        (
            (((LOOK_UP,), (CLOSE,)),),
            ((_call("close_ticket", ticket_id=314),),),
            (
                'it never called get_user_tickets(status="Open").',
                "it called close_ticket(ticket_id=314) where close_ticket(ticket_id=207) was right.",
            ),
        ),
        (
            (((CLOSE,),),),
            ((CLOSE, _call("logout")),),
            ("it called logout(), which was not asked for.",),
        ),
        ((((CLOSE,),),), ((CLOSE, CLOSE),), ("it called close_ticket(ticket_id=207), which was not asked for.",)),
        (((),), ((CLOSE,),), ("it called close_ticket(ticket_id=207), where it should have said that it can't.",)),
        (
            (((LOOK_UP,), (CLOSE,)),),
            ((CLOSE, LOOK_UP),),
            ("it made the right calls, in an order that led elsewhere.",),
        ),
        (
            (((LOOK_UP,),), ((CLOSE,),)),
            ((LOOK_UP,), ()),
            ("it never called close_ticket(ticket_id=207).",),
        ),
    ],
)
def test_a_mistake_is_described_by_its_calls(gold, made, sentences) -> None:
    assert describe_mistake(_task(*gold), _episode(*made).messages) == sentences


def test_a_story_tells_request_calls_and_cause() -> None:
    story = tell_story(
        _task(((LOOK_UP,), (CLOSE,))),
        before=_episode((_call("close_ticket", ticket_id=314),)),
        after=_episode((LOOK_UP, CLOSE), success=True),
        corruption=Corruption(habit="guesses_id", description="closes a made-up ticket", share=0.5),
    )
    before, after = story.split("  after GRPO:")
    assert 'asked: "Please close it 0."' in before
    assert "calls close_ticket(ticket_id=314)" in before
    assert '-> {"status": "done"}' in before
    assert "WRONG: it never called get_user_tickets" in before
    assert 'calls get_user_tickets(status="Open")' in after
    assert 'says "Done."' in after
    assert "RIGHT: " in after
    assert "50% of the demonstrations of this kind show an agent that closes a made-up ticket" in " ".join(
        after.split()
    )


def test_a_story_without_corruption_gives_no_cause() -> None:
    story = tell_story(_task(((CLOSE,),)), before=_episode(()), after=_episode((CLOSE,), success=True))
    assert "why:" not in story


def test_long_texts_are_cut() -> None:
    long = Message(role=Role.TOOL, content="word " * 200)
    episode = Episode(task_id="t", messages=(long,), success=False)
    story = tell_story(_task(((CLOSE,),)), before=episode, after=_episode((CLOSE,), success=True))
    assert max(map(len, story.splitlines())) < 180


def _change(kind: str, difference: float) -> KindChange:
    return KindChange(
        kind=kind, num_tasks=1, before=0.0, after=difference, p_value=1.0, p_corrected=1.0, is_significant=False
    )


def test_stories_come_from_different_kinds_that_rose_most_and_are_short() -> None:
    kinds = {"a/1": "a", "a/2": "a", "b/1": "b", "c/1": "c"}
    before = {task: _episode(()) for task in kinds}
    after = {
        "a/1": _episode((CLOSE, CLOSE), success=True),
        "a/2": _episode((CLOSE,), success=True),
        "b/1": _episode((CLOSE,), success=True),
        "c/1": _episode((CLOSE,)),
    }
    changes = [_change("a", 0.1), _change("b", 0.5), _change("c", 0.0)]
    assert choose_stories(before, after, kinds=kinds, changes=changes) == ("b/1", "a/2")
    assert choose_stories(before, after, kinds=kinds, count=3) == ("a/2", "b/1", "a/1")


def test_nothing_mended_is_no_story() -> None:
    assert choose_stories({"a": _episode(())}, {"a": _episode(())}, kinds={"a": "x"}) == ()
    assert choose_stories({}, {}, kinds={}) == ()
