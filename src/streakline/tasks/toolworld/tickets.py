"""Requests about support tickets (`TicketAPI`)."""

from __future__ import annotations

from streakline.tasks.toolworld.files import file_state
from streakline.tasks.toolworld.kinds import Draft, Kind, State, call, in_turn
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON


def ticket(number: int, *, title: str, user: str, status: str = "Open") -> JSON:
    """A ticket as the simulator keeps it, without a description."""
    return {"id": number, "title": title, "description": "", "status": status, "priority": 1, "created_by": user}


def ticket_state(*tickets: JSON, user: str, counter: int) -> State:
    """A ticket system with these tickets, in which `user` is logged in and the next ticket is number `counter`."""
    return {"TicketAPI": {"ticket_queue": list(tickets), "ticket_counter": counter, "current_user": user}}


def _open_ticket(values: Values) -> Draft:
    title, priority = values.text(), values.pick((2, 3, 4, 5))
    return Draft(
        values={"title": title, "priority": priority},
        gold=(in_turn(call("create_ticket", title=title, priority=priority)),),
        state=ticket_state(user=values.word(), counter=values.digits(3)),
    )


def _close_open_ticket(values: Values) -> Draft:
    user, mine, closed = values.word(), values.digits(3), values.digits(3)
    tickets = (
        ticket(closed, title=values.word(), user=user, status="Closed"),
        ticket(mine, title=values.word(), user=user),
    )
    return Draft(
        gold=(in_turn(call("get_user_tickets", status="Open"), call("close_ticket", ticket_id=mine)),),
        state=ticket_state(*tickets, user=user, counter=values.digits(3)),
    )


def _file_to_ticket(values: Values) -> Draft:
    file, title = values.file(), values.text()
    return Draft(
        values={"file": file},
        gold=(in_turn(call("cat", file_name=file), call("create_ticket", title=title)),),
        state={**file_state({file: title}), **ticket_state(user=values.word(), counter=values.digits(3))},
    )


TICKET_KINDS = (
    Kind(name="open_ticket", simulators=("TicketAPI",), draft=_open_ticket, follows=True),
    Kind(name="close_open_ticket", simulators=("TicketAPI",), draft=_close_open_ticket),
    Kind(name="file_to_ticket", simulators=("TicketAPI", "GorillaFileSystem"), draft=_file_to_ticket),
)
