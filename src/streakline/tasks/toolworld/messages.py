"""Requests about messages between people (`MessageAPI`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streakline.tasks.toolworld.kinds import Draft, Kind, State, call, in_turn
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON


def message_state(values: Values, *, users: Mapping[str, str], inbox: Sequence[JSON] = ()) -> State:
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
    steps = in_turn(call("get_user_id", user=name), call("send_message", receiver_id=user_id, message=text))
    state = message_state(values, users={name: user_id, values.name(): values.user_id()})
    return Draft(values={"name": name, "text": text}, gold=(steps,), state=state)


MESSAGE_KINDS = (Kind(name="message_by_name", simulators=("MessageAPI",), draft=_message_by_name),)
