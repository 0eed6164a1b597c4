"""Calls of gold, and those read from the trajectories of an evaluation."""

import dataclasses
import json

import pytest
from tests.fixtures.episodes import call
from tests.fixtures.worlds import world

from streakline.data.conversations import message_to_json
from streakline.errors import DataError
from streakline.evaluation.held_out_calls import gold_calls, read_calls
from streakline.types import Message, Role

LS, CD, PWD = call("ls"), call("cd", folder="archive"), call("pwd")


def said(role, content="...", *calls):
    return Message(role=role, content=content, tool_calls=calls)


FIRST = (said(Role.USER, "An old request."), said(Role.ASSISTANT, "", PWD), said(Role.TOOL), said(Role.USER, "Go."))
SECOND = (said(Role.USER, "Also this."),)
TASK = dataclasses.replace(world(gold=((LS, CD), (PWD,))), system="Be brief.", requests=(FIRST, SECOND))
TASKS = {TASK.id: TASK}


def row(*messages, task_id=TASK.id, system=True):
    opening = (said(Role.SYSTEM, "Be brief."),) if system else ()
    return json.dumps({"task_id": task_id, "messages": [message_to_json(item) for item in (*opening, *messages)]})


def read(tmp_path, *lines):
    path = tmp_path / "test.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return read_calls(path, tasks=TASKS)


def test_gold_calls_are_those_of_tasks_that_have_a_world_and_calls():
    others = (dataclasses.replace(TASK, simulators=()), dataclasses.replace(TASK, gold=((), ())), world())
    (episode,) = gold_calls([TASK, *others])
    assert episode.task is TASK
    assert episode.calls == ((LS, CD), (PWD,))


def test_executed_calls_are_read_by_the_user_turn_in_which_they_were_made(tmp_path):
    both = said(Role.ASSISTANT, "", LS, CD)
    answered = (*FIRST, both, said(Role.TOOL), said(Role.TOOL), said(Role.ASSISTANT, "Done."))
    cut = said(Role.ASSISTANT, "", PWD, CD)
    episodes, faults = read(tmp_path, row(*answered, *SECOND, cut, said(Role.TOOL)), "", row(*answered))
    assert [episode.calls for episode in episodes] == [((LS, CD), (PWD,)), ((LS, CD),)]
    assert faults == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "Expected a JSON object"),
        (row(*FIRST, said(Role.ASSISTANT), task_id="test/strange"), "Expected the id of a held-out task"),
        (
            row(*FIRST[1:], said(Role.ASSISTANT)),
            "Expected `messages` to hold the requests of test/world, but got others",
        ),
        (row(*FIRST, said(Role.ASSISTANT), system=False), "but got others"),
        (row(*FIRST, said(Role.ASSISTANT), *SECOND, *SECOND), "2 requests of test/world, but got more"),
    ],
)
def test_a_line_that_is_no_episode_of_a_task_is_named_and_skipped(tmp_path, line, fault):
    good = row(*FIRST, said(Role.ASSISTANT, "", LS), said(Role.TOOL))
    episodes, faults = read(tmp_path, good, line)
    assert [episode.calls for episode in episodes] == [((LS,),)]
    assert len(faults) == 1
    assert fault in faults[0]
    assert f"{tmp_path}/test.jsonl, line 2" in faults[0]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=f"Expected a readable file at {tmp_path}/none"):
        read_calls(tmp_path / "none", tasks=TASKS)
