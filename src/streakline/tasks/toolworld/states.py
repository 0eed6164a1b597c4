"""The small worlds of ToolWorld: what the scenario of each simulator holds at the start of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias

from streakline.tasks.toolworld.values import Split, Values, owner
from streakline.types import JSON

State: TypeAlias = "dict[str, dict[str, JSON]]"
"""Simulator -> parts of its scenario."""

_GALLONS_PER_LITER = 0.264172
"""The car's own figure, so that the amount equals what its conversion returns."""
_DOORS = ("driver", "passenger", "rear_left", "rear_right")
_BALANCE = 5_000_000.0
"""Enough for any order that is drawn."""


def file_state(files: Mapping[str, str], *, folders: Sequence[str] = ()) -> State:
    """A file system whose one folder holds these files, by name, and these empty folders."""
    contents: dict[str, JSON] = {name: {"type": "file", "content": content} for name, content in files.items()}
    contents.update({name: {"type": "directory", "contents": {}} for name in folders})
    return {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": contents}}}}


def ticket(number: int, *, title: str, user: str, status: str = "Open") -> JSON:
    """A ticket as the simulator keeps it, without a description."""
    return {"id": number, "title": title, "description": "", "status": status, "priority": 1, "created_by": user}


def ticket_state(*tickets: JSON, user: str, counter: int) -> State:
    """A ticket system with these tickets, in which `user` is logged in and the next ticket is number `counter`."""
    return {"TicketAPI": {"ticket_queue": list(tickets), "ticket_counter": counter, "current_user": user}}


def vehicle_state(values: Values) -> State:
    """A locked car with some fuel; its engine is off."""
    doors: dict[str, JSON] = dict.fromkeys(_DOORS, "locked")
    return {"VehicleControlAPI": {"fuelLevel": values.pick((2.0, 3.0, 4.0, 5.0)), "doorStatus": doors}}


def gallons(liters: float) -> float:
    """What the car's conversion returns."""
    return liters * _GALLONS_PER_LITER


@cache
def liter_amounts(split: Split) -> tuple[float, ...]:
    """Amounts of a split that fit the car's tank, and whose conversion is short to write."""
    amounts = (halves / 2 if halves % 2 else halves // 2 for halves in range(10, 340))
    return tuple(liters for liters in amounts if owner(liters) == split and len(str(gallons(liters))) <= 8)


def order(number: int, *, symbol: str, price: float, amount: int) -> dict[str, JSON]:
    """A pending order as the simulator keeps it, by its id."""
    fields: dict[str, JSON] = {"id": number, "order_type": "Buy", "symbol": symbol, "price": price, "amount": amount}
    return {str(number): {**fields, "status": "Pending"}}


def trading_state(
    values: Values,
    *,
    prices: Mapping[str, float],
    orders: Mapping[str, JSON] | None = None,
    watched: Sequence[str] = (),
) -> State:
    """An open market with these stocks, and a logged-in account with these orders and watched stocks."""
    return {
        "TradingBot": {
            "authenticated": True,
            "market_status": "Open",
            "account_info": {"account_id": values.digits(5), "balance": _BALANCE, "binding_card": values.digits(6)},
            "stocks": {symbol: {"price": price} for symbol, price in prices.items()},
            "orders": dict(orders or {}),
            "order_counter": values.digits(4),
            "watch_list": list(watched),
            "transaction_history": [],
        }
    }


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
