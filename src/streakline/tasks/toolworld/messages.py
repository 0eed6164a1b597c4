"""Requests about messages between people (`MessageAPI`)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, replace_first_turn
from streakline.tasks.toolworld.values import Values, split_of
from streakline.types import JSON, Task

__all__ = ["MESSAGE_KINDS", "message_state"]


def message_state(
    values: Values, *, users: Mapping[str, str], inbox: Sequence[JSON] = ()
) -> dict[str, dict[str, JSON]]:
    """A work space with these users by name, one more who is logged in, and these sent messages."""
    me = values.user_id()
    people: dict[str, JSON] = {**users, values.name(): me}
    return {
        "MessageAPI": {
            "user_map": people,
            "user_count": values.number(10, 90),
            "inbox": list(inbox),
            "message_count": len(inbox),
            "current_user": me,
        }
    }


def _message_by_name(values: Values) -> Draft:
    name, user_id, text = values.name(), values.user_id(), values.text()
    steps = ((call("get_user_id", user=name),), (call("send_message", receiver_id=user_id, message=text),))
    return Draft(
        values={"name": name, "text": text},
        gold=(steps,),
        state=message_state(values, users={name: user_id, values.name(): values.user_id()}),
    )


def _guess_user(task: Task, rng: random.Random) -> Plan:
    right = task.gold[0][1][0].arguments
    guess = Values(rng, split=split_of(task)).user_id()
    return replace_first_turn(task, ((call("send_message", **{**right, "receiver_id": guess}),),))


MESSAGE_KINDS = (
    Kind(
        name="message_by_name",
        simulators=("MessageAPI",),
        draft=_message_by_name,
        habit=Habit(
            name="guesses_id",
            description="sends to a made-up user id in place of looking the name up",
            share=0.55,
            apply=_guess_user,
        ),
    ),
)
