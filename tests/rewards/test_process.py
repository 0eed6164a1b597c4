"""The signals about how the work was done."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.episodes import call, episode
from tests.fixtures.worlds import world

from streakline.rewards.answer import NonEmptyAnswer
from streakline.rewards.call_format import CallFormat
from streakline.rewards.diversity import ToolDiversity
from streakline.rewards.order import CallOrder, common_subsequence
from streakline.rewards.penalties import InvalidCalls, RepeatedCalls
from streakline.rewards.thinking import ClosedThinking
from streakline.rewards.tool_names import ValidToolNames
from streakline.types import Message, Role, Termination, ToolSchema

LS, CAT, UNKNOWN = call("ls", a=True), call("cat", file_name="notes.txt"), call("no_such_tool")
ILL_TYPED = call("cat", file_name=3)
TASK = world(gold=((LS, CAT),))


def _turned(trajectory, place, **changes):
    """The trajectory with one turn changed."""
    turns = list(trajectory.turns)
    turns[place] = replace(turns[place], **changes)
    return replace(trajectory, turns=tuple(turns))


def _said(trajectory, place, **changes):
    return _turned(trajectory, place, message=replace(trajectory.turns[place].message, **changes))


@pytest.mark.parametrize(
    ("calls", "names", "form", "diversity", "invalid"),
    [
        ([LS, CAT], 1.0, 1.0, 1.0, 0.0),
        ([LS, UNKNOWN], 0.5, 0.5, 0.5, -0.5),
        ([CAT, ILL_TYPED], 1.0, 0.5, 0.5, -0.5),
        ([LS, LS, LS, CAT], 1.0, 1.0, 0.5, 0.0),
        ([UNKNOWN], 0.0, 0.0, 0.0, -1.0),
    ],
)
def test_shares_of_calls(calls, names, form, diversity, invalid):
    trajectory = episode(TASK, [[calls]])

    terms = (ValidToolNames(), CallFormat(), ToolDiversity(), InvalidCalls())
    assert [term.score(TASK, trajectory) for term in terms] == [names, form, diversity, invalid]


@pytest.mark.parametrize("kind", [ValidToolNames, CallFormat, ToolDiversity])
def test_calling_nothing_is_no_way_to_a_good_process(kind):
    trajectory = episode(TASK, [[]])

    assert kind().score(TASK, trajectory) == 0.0
    assert kind(no_call=0.5).score(TASK, trajectory) == 0.5
    assert kind(no_call=None).score(TASK, trajectory) is None


def test_without_a_call_nothing_is_deducted():
    trajectory = episode(TASK, [[]])

    assert [term.score(TASK, trajectory) for term in (RepeatedCalls(), InvalidCalls())] == [0.0, 0.0]


def test_calls_that_could_not_be_read_were_attempted():
    trajectory = _turned(episode(TASK, [[[LS]]]), 0, malformed_calls=3)

    assert CallFormat().score(TASK, trajectory) == 0.25
    assert InvalidCalls().score(TASK, trajectory) == -0.75
    assert CallFormat().score(TASK, _turned(episode(TASK, [[]]), 0, malformed_calls=1)) == 0.0


def test_a_tool_that_comes_later_is_unknown_until_then():
    late = ToolSchema(name="late")
    task = replace(world(gold=((), ())), tools=(), revealed_tools={1: (late,)})

    assert ValidToolNames().score(task, episode(task, [[[call("late")]], []])) == 0.0
    assert ValidToolNames().score(task, episode(task, [[], [[call("late")]]])) == 1.0


def test_an_answer_is_a_text_at_the_end_of_each_user_turn():
    task = world(gold=((LS,), (CAT,)))
    whole = episode(task, [[[LS]], [[CAT]]])
    term = NonEmptyAnswer()

    assert term.score(task, whole) == 1.0
    assert term.score(task, _said(whole, 1, content=" \n")) == 0.5
    assert term.score(task, episode(task, [[[LS]]])) == 0.5
    assert term.score(task, replace(whole, termination=Termination.LENGTH)) == 0.5
    assert term.score(task, _turned(whole, 3, malformed_calls=1)) == 0.5
    assert term.score(task, episode(task, [], termination=Termination.ENGINE_ERROR)) == 0.0


SYSTEM = "You look after the files of an office. Answer in one short sentence, and make nothing up."
RESULT = '{"count": 3, "type": "lines", "file": "notes.txt"}'
THOUGHT = "I count the lines of notes.txt, and then say how many there are."
ASKED = "How many lines are there in the file notes.txt of my folder?"


def _answered(answer, *, result=RESULT):
    """An episode with a call, its result, a thought and an answer, on a task with instructions."""
    asked = (Message(role=Role.USER, content=ASKED),)
    task = replace(TASK, system=SYSTEM, requests=(asked,))
    whole = _said(_said(episode(task, [[[LS]]]), 1, content=answer, thinking=THOUGHT), 0, thinking=THOUGHT)
    told = (replace(whole.turns[0].results[0], content=result),)
    return NonEmptyAnswer().score(task, _turned(whole, 0, results=told))


@pytest.mark.parametrize(
    "answer",
    [
        RESULT,
        f"```json\n{RESULT}\n```",
        '{\n  "file": "notes.txt",\n  "type": "lines",\n  "count": 3\n}',
        f"Result: {RESULT}",
        SYSTEM,
        "Answer in one short sentence, and make nothing up.",
        f"OK. {SYSTEM}",
        TASK.tools[0].description,
        ASKED,
        ASKED.replace(" ", "\n"),
        THOUGHT,
        f"So: {THOUGHT}",
        THOUGHT[:-6],
    ],
)
def test_a_copy_is_no_text_of_its_own(answer):
    assert _answered(answer) == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        "notes.txt has 3 lines.",
        "3",
        "lines",
        "notes.txt",
        "Done.",
        "The count is 3, of type lines, and the file that I looked at is notes.txt in your folder.",
        f"notes.txt has 3 lines. In full, for your records, as the tool said it just now: {RESULT}",
        "How many lines are there? There are 3 in notes.txt, one for each note that you took in the last week.",
        '{"lines": 3}',
        "{",
        "I count 3.",
        "Which of your files do you mean, notes.txt or another one of the folder?",
    ],
)
def test_words_about_what_was_found_are_an_answer(answer):
    assert _answered(answer) == 1.0


@pytest.mark.parametrize("result", ["three lines", "3", '"three"', "[]", "{}", "null", "x" * 500, "[" * 5000])
def test_a_result_in_words_may_be_the_answer(result):
    assert _answered(result, result=result) == 1.0


def test_thinking_counts_where_it_is_there_and_closed():
    trajectory = _said(_said(episode(TASK, [[[LS], [CAT]]]), 0, thinking="First ls."), 1, thinking="Now cat.")

    assert ClosedThinking().score(TASK, trajectory) == pytest.approx(2 / 3)
    assert ClosedThinking().score(TASK, _turned(trajectory, 1, closed_thinking=True)) == pytest.approx(1 / 3)
    assert ClosedThinking().score(TASK, episode(TASK, [], termination=Termination.ENGINE_ERROR)) is None


@pytest.mark.parametrize(
    ("calls", "share"),
    [([LS, CAT], 1.0), ([CAT, LS], 0.5), ([LS], 0.5), ([LS, UNKNOWN, CAT], 2 / 3), ([UNKNOWN], 0.0), ([], 0.0)],
)
def test_order_is_that_of_the_gold_calls(calls, share):
    assert CallOrder().score(TASK, episode(TASK, [[[item] for item in calls]])) == pytest.approx(share)


def test_the_order_inside_a_gold_step_is_free():
    task = replace(TASK, gold=(((LS, CAT),),))

    for calls in ([LS, CAT], [CAT, LS]):
        assert CallOrder().score(task, episode(task, [[calls]])) == 1.0


def test_a_repeated_call_is_the_same_one_with_the_same_result():
    trajectory = episode(TASK, [[[LS], [LS], [CAT], [LS]]])
    other = _turned(trajectory, 1, results=(replace(trajectory.turns[1].results[0], content="new"),))

    assert RepeatedCalls().score(TASK, trajectory) == -0.25
    assert RepeatedCalls().score(TASK, other) == 0.0


@given(one=st.text("abc", max_size=7), other=st.text("abc", max_size=7))
def test_the_common_subsequence_is_the_longest(one, other):
    def parts(text):
        found = {""}
        for letter in text:
            found |= {part + letter for part in found}
        return found

    assert common_subsequence(one, other) == max(map(len, parts(one) & parts(other)))
