"""A small world that grows around the calls dictated to the policy, so that each of them succeeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from streakline.tasks.toolworld.states import (
    State,
    file_state,
    message_state,
    order,
    ticket,
    ticket_state,
    trading_state,
    vehicle_state,
)
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON


@final
class Stage:
    """Draws arguments, and puts into the world what they refer to."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.me = values.word()
        self.files: dict[str, str] = {}
        self.folders: list[str] = []
        self.tickets: list[JSON] = []
        self.prices: dict[str, float] = {}
        self.orders: dict[str, JSON] = {}
        self.watch_list: list[str] = []
        self.users: dict[str, str] = {}
        self.inbox: list[JSON] = []

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
        self.files[name] = content or self.word()
        return name

    def folder(self) -> str:
        """An empty folder that exists."""
        self.folders.append(self.word())
        return self.folders[-1]

    def ticket(self) -> int:
        """An open ticket of the user who is logged in."""
        number = self.values.digits(3)
        self.tickets.append(ticket(number, title=self.word(), user=self.me))
        return number

    def stock(self, price: float = 0.0) -> str:
        """A stock that is traded."""
        symbol = self.values.symbol()
        self.prices[symbol] = price or self.values.decimal(10, 999)
        return symbol

    def watched(self) -> str:
        """A stock on the watch list."""
        self.watch_list.append(self.stock())
        return self.watch_list[-1]

    def order(self) -> int:
        """A pending order."""
        number = self.values.digits(5)
        self.orders.update(order(number, symbol=self.stock(), price=self.values.decimal(10, 99), amount=2))
        return number

    def user(self) -> tuple[str, str]:
        """Name and id of a user."""
        name, user_id = self.values.name(), self.values.user_id()
        self.users[name] = user_id
        return name, user_id

    def receiver(self) -> str:
        """Id of a user to whom a message was sent."""
        user_id = self.user()[1]
        self.inbox.append({user_id: self.word()})
        return user_id

    def state(self, simulators: set[str]) -> State:
        """Scenario of the given simulators; the maths tools have none."""
        state: State = {}
        # In the order of the table: that of a set changes from process to process, and the values drawn with it.
        for name, build in _BUILDERS.items():
            if name in simulators:
                state.update(build(self))
        return state

    def vehicle_state(self) -> State:
        """A car that is ready to be driven: the engine runs, the brake is pressed as far as starting it takes."""
        ready: dict[str, JSON] = {"engineState": "running", "brakePedalStatus": "pressed", "brakePedalForce": 1000.0}
        return {name: {**scenario, **ready} for name, scenario in vehicle_state(self.values).items()}


_BUILDERS: Mapping[str, Callable[[Stage], State]] = {
    "GorillaFileSystem": lambda stage: file_state(stage.files, folders=stage.folders),
    "MessageAPI": lambda stage: message_state(stage.values, users=stage.users, inbox=stage.inbox),
    "VehicleControlAPI": Stage.vehicle_state,
    "TradingBot": lambda stage: trading_state(
        stage.values, prices=stage.prices, orders=stage.orders, watched=stage.watch_list
    ),
    "TicketAPI": lambda stage: ticket_state(*stage.tickets, user=stage.me, counter=stage.values.digits(3)),
}
