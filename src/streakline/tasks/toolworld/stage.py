"""A small world that grows around the calls dictated to the policy, so that each of them succeeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from streakline.tasks.toolworld.files import file_state
from streakline.tasks.toolworld.messages import message_state
from streakline.tasks.toolworld.tickets import ticket, ticket_state
from streakline.tasks.toolworld.trading import order, trading_state
from streakline.tasks.toolworld.values import Values
from streakline.tasks.toolworld.vehicle import vehicle_state
from streakline.types import JSON

__all__ = ["Stage"]


@final
class Stage:
    """Draws arguments, and puts into the world what they refer to.

    Args:
        values: Source of everything that is drawn.
    """

    def __init__(self, values: Values) -> None:
        self.values = values
        self._user = values.word()
        self._files: dict[str, str] = {}
        self._folders: list[str] = []
        self._tickets: list[JSON] = []
        self._prices: dict[str, float] = {}
        self._orders: dict[str, JSON] = {}
        self._watched: list[str] = []
        self._users: dict[str, str] = {}
        self._inbox: list[JSON] = []

    def word(self) -> str:
        """A word of two or three syllables."""
        return self.values.word(self.values.pick((2, 2, 3)))

    def number(self) -> int:
        """An integer of two to six digits."""
        return self.values.digits(self.values.pick((2, 3, 4, 5, 6)))

    def numbers(self) -> list[JSON]:
        """Two to four integers of two or three digits."""
        return [self.values.digits(self.values.pick((2, 3))) for _ in range(self.values.pick((2, 3, 4)))]

    def file(self, content: str = "") -> str:
        """A file that exists."""
        name = self.values.file()
        self._files[name] = content or self.word()
        return name

    def folder(self) -> str:
        """An empty folder that exists."""
        self._folders.append(self.word())
        return self._folders[-1]

    def ticket(self) -> int:
        """An open ticket of the user who is logged in."""
        number = self.values.digits(3)
        self._tickets.append(ticket(number, title=self.word(), user=self._user))
        return number

    def stock(self, price: float = 0.0) -> str:
        """A stock that is traded."""
        symbol = self.values.symbol()
        self._prices[symbol] = price or self.values.decimal(10, 999)
        return symbol

    def watched(self) -> str:
        """A stock on the watch list."""
        self._watched.append(self.stock())
        return self._watched[-1]

    def order(self) -> int:
        """A pending order."""
        number = self.values.digits(5)
        self._orders.update(order(number, symbol=self.stock(), price=self.values.decimal(10, 99), amount=2))
        return number

    def user(self) -> tuple[str, str]:
        """Name and id of a user."""
        name, user_id = self.values.name(), self.values.user_id()
        self._users[name] = user_id
        return name, user_id

    def receiver(self) -> str:
        """Id of a user to whom a message was sent."""
        user_id = self.user()[1]
        self._inbox.append({user_id: self.word()})
        return user_id

    def state(self, simulators: set[str]) -> dict[str, dict[str, JSON]]:
        """Scenario of the given simulators."""
        state: dict[str, dict[str, JSON]] = {}
        # In the order of the table: that of a set changes from process to process, and the values drawn with it.
        for name, build in _BUILDERS.items():
            if name in simulators:
                state.update(build(self))
        return state

    def _files_state(self) -> dict[str, dict[str, JSON]]:
        return file_state(self._files, folders=self._folders)

    def _messages_state(self) -> dict[str, dict[str, JSON]]:
        return message_state(self.values, users=self._users, inbox=self._inbox)

    def _vehicle_state(self) -> dict[str, dict[str, JSON]]:
        # Ready to be driven: the engine runs, and the brake is pressed as far as starting it takes.
        ready: dict[str, JSON] = {"engineState": "running", "brakePedalStatus": "pressed", "brakePedalForce": 1000.0}
        return {name: {**scenario, **ready} for name, scenario in vehicle_state(self.values).items()}

    def _trading_state(self) -> dict[str, dict[str, JSON]]:
        return trading_state(self.values, prices=self._prices, orders=self._orders, watched=self._watched)

    def _tickets_state(self) -> dict[str, dict[str, JSON]]:
        return ticket_state(*self._tickets, user=self._user, counter=self.values.digits(3))


_BUILDERS: Mapping[str, Callable[[Stage], dict[str, dict[str, JSON]]]] = {
    "GorillaFileSystem": Stage._files_state,
    "MessageAPI": Stage._messages_state,
    "VehicleControlAPI": Stage._vehicle_state,
    "TradingBot": Stage._trading_state,
    "TicketAPI": Stage._tickets_state,
}
"""Simulator -> what makes its scenario; the maths tools have none."""
