"""Requests about support tickets (`TicketAPI`)."""

from __future__ import annotations

import random

from streakline.tasks.toolworld.files import file_state
from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, replace_first_turn
from streakline.tasks.toolworld.values import Values, split_of
from streakline.types import JSON, Task

__all__ = ["TICKET_KINDS", "ticket", "ticket_state"]


def ticket(number: int, *, title: str, user: str, status: str = "Open", priority: int = 1) -> JSON:
    """A ticket as the simulator keeps it, without a description."""
    return {
        "id": number,
        "title": title,
        "description": "",
        "status": status,
        "priority": priority,
        "created_by": user,
    }


def ticket_state(*tickets: JSON, user: str, counter: int) -> dict[str, dict[str, JSON]]:
    """A ticket system with these tickets, in which `user` is logged in and the next ticket is number `counter`."""
    return {"TicketAPI": {"ticket_queue": list(tickets), "ticket_counter": counter, "current_user": user}}


def _open_ticket(values: Values) -> Draft:
    title, priority = values.text(), values.pick((2, 3, 4, 5))
    return Draft(
        values={"title": title, "priority": priority},
        gold=(((call("create_ticket", title=title, priority=priority),),),),
        state=ticket_state(user=values.word(), counter=values.digits(3)),
    )


def _close_open_ticket(values: Values) -> Draft:
    user, mine, closed = values.word(), values.digits(3), values.digits(3)
    return Draft(
        gold=(((call("get_user_tickets", status="Open"),), (call("close_ticket", ticket_id=mine),)),),
        state=ticket_state(
            ticket(closed, title=values.word(), user=user, status="Closed"),
            ticket(mine, title=values.word(), user=user),
            user=user,
            counter=values.digits(3),
        ),
    )


def _guess_ticket(task: Task, rng: random.Random) -> Plan:
    return replace_first_turn(task, ((call("close_ticket", ticket_id=Values(rng, split=split_of(task)).digits(3)),),))


def _file_to_ticket(values: Values) -> Draft:
    file, title = values.file(), values.text()
    return Draft(
        values={"file": file},
        gold=(((call("cat", file_name=file),), (call("create_ticket", title=title),)),),
        state={**file_state({file: title}), **ticket_state(user=values.word(), counter=values.digits(3))},
    )


def _use_file_name(task: Task, _: random.Random) -> Plan:
    return replace_first_turn(task, ((call("create_ticket", title=task.gold[0][0][0].arguments["file_name"]),),))


TICKET_KINDS = (
    Kind(
        name="open_ticket",
        simulators=("TicketAPI",),
        draft=_open_ticket,
        follows=True,
    ),
    Kind(
        name="close_open_ticket",
        simulators=("TicketAPI",),
        draft=_close_open_ticket,
        habit=Habit(
            name="guesses_id",
            description="closes a made-up ticket id in place of looking the open ticket up",
            share=0.55,
            apply=_guess_ticket,
        ),
    ),
    Kind(
        name="file_to_ticket",
        simulators=("TicketAPI", "GorillaFileSystem"),
        draft=_file_to_ticket,
        habit=Habit(
            name="uses_file_name",
            description="takes the name of the file as the title in place of reading it",
            share=0.05,
            apply=_use_file_name,
        ),
    ),
)
