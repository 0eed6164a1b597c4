"""Requests about support tickets (`TicketAPI`)."""

from __future__ import annotations

import random

from streakline.tasks.toolworld.files import file_state
from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, replace_first_turn
from streakline.tasks.toolworld.values import Split, Values, split_of
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


def _open_ticket(values: Values, _: Split) -> Draft:
    title, priority = values.text(), values.pick((2, 3, 4, 5))
    return Draft(
        values={"title": title, "priority": priority},
        gold=(((call("create_ticket", title=title, priority=priority),),),),
        state=ticket_state(user=values.word(), counter=values.digits(3)),
    )


def _close_open_ticket(values: Values, _: Split) -> Draft:
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


def _file_to_ticket(values: Values, _: Split) -> Draft:
    file, title = values.file(), values.text()
    return Draft(
        values={"file": file},
        gold=(((call("cat", file_name=file),), (call("create_ticket", title=title),)),),
        state={**file_state({file: title}), **ticket_state(user=values.word(), counter=values.digits(3))},
    )


def _use_file_name(task: Task, _: random.Random) -> Plan:
    return replace_first_turn(task, ((call("create_ticket", title=task.gold[0][0][0].arguments["file_name"]),),))


def _other_priority(task: Task, _: random.Random) -> Plan:
    return replace_first_turn(task, ((call("create_ticket", title=task.gold[0][0][0].arguments["title"]),),))


TICKET_KINDS = (
    Kind(
        name="open_ticket",
        simulators=("TicketAPI",),
        draft=_open_ticket,
        follows=True,
        habit=Habit(name="drops_priority", description="leaves the priority out", share=0.0, apply=_other_priority),
        phrases={
            "base": (
                "Use create_ticket with title {title} and priority {priority}.",
                "Create a ticket, its title is {title} and its priority is {priority}.",
                "The title is {title}, the priority is {priority}: create this ticket.",
            ),
            "train": (
                "Open a ticket {title} with priority {priority}.",
                "Please open a priority {priority} ticket about {title}.",
                "I need a ticket about {title}, priority {priority}.",
                "New ticket: {title}, priority {priority}.",
            ),
            "validation": (
                "Please open a ticket about {title}, priority {priority}.",
                "I need a priority {priority} ticket {title}.",
            ),
            "test": (
                "Open a ticket about {title} with priority {priority}.",
                "I need a new ticket {title}, priority {priority}.",
                "Please open a new priority {priority} ticket: {title}.",
            ),
        },
    ),
    Kind(
        name="close_open_ticket",
        simulators=("TicketAPI",),
        draft=_close_open_ticket,
        habit=Habit(
            name="guesses_id",
            description="closes a made-up ticket id in place of looking the open ticket up",
            share=0.5,
            apply=_guess_ticket,
        ),
        phrases={
            "base": (
                "First get_user_tickets with status Open, then close_ticket with the id.",
                "Look up the user tickets with status Open and after that close the id you see.",
                "List tickets with status Open. Then close the one that is listed.",
            ),
            "train": (
                "Close my open ticket.",
                "Please close the ticket I have open.",
                "I am done with my open ticket, close it.",
                "My open ticket can be closed.",
            ),
            "validation": ("Please close my open ticket.", "I am done with the ticket I have open."),
            "test": (
                "Close the ticket I have open.",
                "My open ticket is done, please close it.",
                "The ticket I have open can be closed.",
            ),
        },
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
        phrases={
            "base": (
                "First cat {file}, then create_ticket with that text as the title.",
                "Read {file} and after that create a ticket with the title you read.",
                "Show {file}. Then use its text as the title and create a ticket.",
            ),
            "train": (
                "Open a ticket about what {file} says.",
                "Turn the text in {file} into a ticket.",
                "Make a ticket from the note {file}.",
                "The note {file} says what my ticket is about, open it.",
            ),
            "validation": ("Turn the note {file} into a ticket.", "Please open a ticket about the text in {file}."),
            "test": (
                "Make a ticket from what {file} says.",
                "Open a ticket about the note {file}.",
                "Please turn what {file} says into a ticket.",
            ),
        },
    ),
)
