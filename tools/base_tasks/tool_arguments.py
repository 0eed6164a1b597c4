"""Arguments with which each tool succeeds, for calls that are dictated word for word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from base_tasks.stage import Stage
from streakline.tasks.toolworld.states import gallons, liter_amounts
from streakline.types import JSON

Arguments: TypeAlias = dict[str, JSON]

_DOORS: tuple[JSON, ...] = ("driver", "passenger", "rear_left", "rear_right")
_STATUS_OPTIONS = ("fuel", "battery", "headlights", "parkingBrake", "brakePedal", "engine")
_LENGTHS: tuple[JSON, ...] = ("km", "m", "cm", "mm")
_UNITS: tuple[tuple[JSON, JSON], ...] = (("cm", "in"), ("m", "ft"), ("km", "miles"), ("kg", "lb"), ("lb", "kg"))


def _none(_: Stage) -> Arguments:
    return {}


def _one_file(stage: Stage) -> Arguments:
    return {"file_name": stage.file()}


def _two_numbers(stage: Stage) -> Arguments:
    return {"a": stage.number(), "b": stage.number()}


def _number_list(stage: Stage) -> Arguments:
    return {"numbers": stage.numbers()}


def _login(stage: Stage) -> Arguments:
    return {"username": stage.word(), "password": stage.word()}


def _units(stage: Stage) -> Arguments:
    unit_in, unit_out = stage.values.pick(_UNITS)
    return {"value": stage.number(), "unit_in": unit_in, "unit_out": unit_out}


def _climate(stage: Stage) -> Arguments:
    mode = stage.values.pick(("cool", "heat", "defrost"))
    return {"temperature": stage.values.decimal(16, 30), "fanSpeed": stage.values.number(10, 99), "mode": mode}


def _order(stage: Stage) -> Arguments:
    price, amount = stage.values.decimal(10, 999), stage.values.number(10, 999)
    return {"order_type": stage.values.pick(("Buy", "Sell")), "symbol": stage.stock(), "price": price, "amount": amount}


def _ticket_fields(stage: Stage) -> Arguments:
    updates = stage.values.pick(("title", "description"))
    return {"ticket_id": stage.ticket(), "updates": {updates: stage.word()}}


ARGUMENTS: Mapping[str, Callable[[Stage], Arguments]] = {
    **dict.fromkeys(("cat", "rm", "sort", "tail"), _one_file),
    **dict.fromkeys(("pwd", "ls", "du", "get_user_tickets", "ticket_get_login_status"), _none),
    **dict.fromkeys(("releaseBrakePedal", "find_nearest_tire_shop", "get_account_info", "get_current_time"), _none),
    **dict.fromkeys(("get_order_history", "get_watchlist", "get_transaction_history"), _none),
    **dict.fromkeys(("trading_get_login_status", "get_message_stats", "list_users", "view_messages_sent"), _none),
    **dict.fromkeys(("message_get_login_status",), _none),
    **dict.fromkeys(("add", "subtract", "multiply", "divide"), _two_numbers),
    **dict.fromkeys(("max_value", "min_value", "sum_values", "mean", "standard_deviation"), _number_list),
    **dict.fromkeys(("ticket_login", "trading_login"), _login),
    "rmdir": lambda stage: {"dir_name": stage.folder()},
    "mkdir": lambda stage: {"dir_name": stage.word()},
    "touch": lambda stage: {"file_name": stage.values.file()},
    "cp": lambda stage: {"source": stage.file(), "destination": stage.values.file()},
    "mv": lambda stage: {"source": stage.file(), "destination": stage.values.file()},
    "diff": lambda stage: {"file_name1": stage.file(), "file_name2": stage.file()},
    "echo": lambda stage: {"content": stage.word(), "file_name": stage.file()},
    "find": lambda stage: {"name": stage.word()},
    "grep": lambda stage: {"file_name": stage.file(), "pattern": stage.word()},
    "wc": lambda stage: {"file_name": stage.file(), "mode": stage.values.pick(("l", "w", "c"))},
    "create_ticket": lambda stage: {"title": stage.word(), "priority": stage.values.pick((1, 2, 3, 4, 5))},
    "get_ticket": lambda stage: {"ticket_id": stage.ticket()},
    "close_ticket": lambda stage: {"ticket_id": stage.ticket()},
    "resolve_ticket": lambda stage: {"ticket_id": stage.ticket(), "resolution": stage.word()},
    "edit_ticket": _ticket_fields,
    "activateParkingBrake": lambda stage: {"mode": stage.values.pick(("engage", "release"))},
    "adjustClimateControl": _climate,
    "displayCarStatus": lambda stage: {"option": stage.values.pick(_STATUS_OPTIONS)},
    "display_log": lambda stage: {"messages": [stage.word(), stage.word()]},
    "estimate_drive_feasibility_by_mileage": lambda stage: {"distance": stage.number()},
    "fillFuelTank": lambda stage: {"fuelAmount": stage.values.number(5, 40)},
    "gallon_to_liter": lambda stage: {"gallon": stage.values.digits(2)},
    "liter_to_gallon": lambda stage: {"liter": stage.values.digits(2)},
    "get_zipcode_based_on_city": lambda stage: {"city": stage.values.name()},
    "lockDoors": lambda stage: {"unlock": stage.values.pick((True, False)), "door": [stage.values.pick(_DOORS)]},
    "pressBrakePedal": lambda stage: {"pedalPosition": stage.values.pick((0.25, 0.5, 0.75, 1))},
    "setCruiseControl": lambda stage: {
        "speed": stage.values.pick((30, 45, 60, 75, 90)),
        "activate": True,
        "distanceToNextVehicle": stage.values.digits(3),
    },
    "setHeadlights": lambda stage: {"mode": stage.values.pick(("on", "off", "auto"))},
    "set_navigation": lambda stage: {"destination": stage.values.text()},
    "add_to_watchlist": lambda stage: {"stock": stage.stock()},
    "remove_stock_from_watchlist": lambda stage: {"symbol": stage.watched()},
    "cancel_order": lambda stage: {"order_id": stage.order()},
    "get_order_details": lambda stage: {"order_id": stage.order()},
    "get_stock_info": lambda stage: {"symbol": stage.stock()},
    "get_symbol_by_name": lambda stage: {"name": stage.values.name()},
    "get_available_stocks": lambda stage: {"sector": stage.values.name()},
    "filter_stocks_by_price": lambda stage: {
        "stocks": [stage.stock(), stage.stock()],
        "min_price": stage.values.digits(2),
        "max_price": stage.values.digits(3),
    },
    "notify_price_change": lambda stage: {"stocks": [stage.values.symbol()], "threshold": stage.values.digits(2)},
    "fund_account": lambda stage: {"amount": stage.number()},
    "withdraw_funds": lambda stage: {"amount": stage.number()},
    "place_order": _order,
    "add_contact": lambda stage: {"user_name": stage.values.name()},
    "get_user_id": lambda stage: {"user": stage.user()[0]},
    "message_login": lambda stage: {"user_id": stage.user()[1]},
    "send_message": lambda stage: {"receiver_id": stage.user()[1], "message": stage.word()},
    "delete_message": lambda stage: {"receiver_id": stage.receiver()},
    "search_messages": lambda stage: {"keyword": stage.word()},
    "absolute_value": lambda stage: {"number": -stage.number()},
    "round_number": lambda stage: {"number": stage.values.decimal(10, 999), "decimal_places": 0},
    "percentage": lambda stage: {"part": stage.number(), "whole": stage.number()},
    "power": lambda stage: {"base": stage.values.digits(2), "exponent": stage.values.pick((2, 3))},
    "square_root": lambda stage: {"number": stage.number(), "precision": stage.values.pick((3, 4, 5))},
    "logarithm": lambda stage: {"value": stage.number(), "base": 10, "precision": stage.values.pick((3, 4, 5))},
    "si_unit_conversion": lambda stage: {
        "value": stage.number(),
        "unit_in": stage.values.pick(_LENGTHS),
        "unit_out": stage.values.pick(_LENGTHS),
    },
    "imperial_si_conversion": _units,
}
"""Tool -> what draws its arguments.

Left out: tools whose result is random, an error or long, and those after which other calls fail (`cd`, logging out).
"""


def _content(stage: Stage) -> tuple[Arguments, JSON]:
    text = stage.word()
    return {"file_name": stage.file(text)}, text


def _user_id(stage: Stage) -> tuple[Arguments, JSON]:
    name, user_id = stage.user()
    return {"user": name}, user_id


def _price(stage: Stage) -> tuple[Arguments, JSON]:
    price = stage.values.decimal(10, 999)
    return {"symbol": stage.stock(price)}, price


def _sum(stage: Stage) -> tuple[Arguments, JSON]:
    first, second, total = stage.values.addends()
    return {"a": first, "b": second}, total


def _gallons(stage: Stage) -> tuple[Arguments, JSON]:
    liters = stage.values.pick(liter_amounts(stage.values.split))
    return {"liter": liters}, gallons(liters)


READERS: Mapping[str, Callable[[Stage], tuple[Arguments, JSON]]] = {
    "cat": _content,
    "get_user_id": _user_id,
    "get_stock_info": _price,
    "get_watchlist": lambda stage: ({}, stage.watched()),
    "get_user_tickets": lambda stage: ({"status": "Open"}, stage.ticket()),
    "get_order_history": lambda stage: ({}, stage.order()),
    "liter_to_gallon": _gallons,
    "add": _sum,
}
"""Tool -> what draws its arguments, and the value that is read from its result."""

CONSUMERS: Mapping[str, tuple[tuple[str, str, Callable[[Stage], Arguments]], ...]] = {
    "cat": (
        ("mkdir", "dir_name", _none),
        ("touch", "file_name", _none),
        ("create_ticket", "title", _none),
        ("set_navigation", "destination", _none),
        ("send_message", "message", lambda stage: {"receiver_id": stage.user()[1]}),
        ("echo", "content", _one_file),
    ),
    "get_user_id": (
        ("send_message", "receiver_id", lambda stage: {"message": stage.word()}),
        ("message_login", "user_id", _none),
    ),
    "get_stock_info": (
        ("place_order", "price", _order),
        ("fund_account", "amount", _none),
    ),
    "get_watchlist": (
        ("remove_stock_from_watchlist", "symbol", _none),
        ("get_stock_info", "symbol", _none),
    ),
    "get_user_tickets": (
        ("close_ticket", "ticket_id", _none),
        ("get_ticket", "ticket_id", _none),
        ("resolve_ticket", "ticket_id", lambda stage: {"resolution": stage.word()}),
    ),
    "get_order_history": (
        ("cancel_order", "order_id", _none),
        ("get_order_details", "order_id", _none),
    ),
    "liter_to_gallon": (("fillFuelTank", "fuelAmount", _none),),
    "add": (
        ("multiply", "a", lambda stage: {"b": stage.number()}),
        ("subtract", "a", lambda stage: {"b": stage.number()}),
        ("fund_account", "amount", _none),
    ),
}
"""Tool that was read -> tools that can take the value, by which parameter, and what draws their other arguments."""
