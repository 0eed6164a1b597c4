"""The kinds of request of ToolWorld: what each asks for, the calls that are right, and the world it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streakline.tasks.toolworld.kinds import PHRASES, Draft, Kind, Steps, call, in_turn
from streakline.tasks.toolworld.states import (
    file_state,
    gallons,
    liter_amounts,
    message_state,
    order,
    ticket,
    ticket_state,
    trading_state,
    vehicle_state,
)
from streakline.tasks.toolworld.values import Values

REFUSAL = "I can't do that."
"""Closing text where the tool is missing."""


def _write_note(values: Values) -> Draft:
    file, text = values.file(), values.text()
    return Draft(
        values={"file": file, "text": text},
        gold=(in_turn(call("touch", file_name=file), call("echo", content=text, file_name=file)),),
        state=file_state({values.file(): values.word()}),
    )


def _file_away(values: Values) -> Draft:
    file, folder = values.file(), values.word()
    return Draft(
        values={"file": file, "folder": folder},
        gold=(in_turn(call("mkdir", dir_name=folder), call("mv", source=file, destination=folder)),),
        state=file_state({file: values.word()}),
    )


def _remove_file(values: Values) -> Draft:
    file = values.file()
    return Draft(
        values={"file": file},
        gold=(in_turn(call("rm", file_name=file)),),
        state=file_state({file: values.word(), values.file(): values.word()}),
    )


def _remove_unnamed(values: Values) -> Draft:
    named = _remove_file(values)
    return Draft(values=named.values, gold=((), *named.gold), state=named.state, replies=("Which file?", "Done."))


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


def _set_climate(values: Values) -> Draft:
    temperature, fan = values.decimal(16, 30), values.number(10, 99)
    return Draft(
        values={"temperature": temperature, "fan": fan},
        gold=(in_turn(call("adjustClimateControl", temperature=temperature, fanSpeed=fan)),),
        state=vehicle_state(values),
    )


def _start_engine(values: Values) -> Draft:
    steps = in_turn(call("pressBrakePedal", pedalPosition=1), call("startEngine", ignitionMode="START"))
    return Draft(gold=(steps,), state=vehicle_state(values))


def _fuel_in_liters(values: Values) -> Draft:
    liters = values.pick(liter_amounts(values.split))
    steps = in_turn(call("liter_to_gallon", liter=liters), call("fillFuelTank", fuelAmount=gallons(liters)))
    return Draft(values={"liters": liters}, gold=(steps,), state=vehicle_state(values))


def _cancel_order(values: Values) -> Draft:
    number, symbol, price = values.digits(4), values.symbol(), values.decimal(10, 999)
    orders = order(number, symbol=symbol, price=price, amount=values.number(10, 999))
    return Draft(
        values={"order": number},
        gold=(in_turn(call("cancel_order", order_id=number)),),
        state=trading_state(values, prices={symbol: price}, orders=orders),
    )


def _buy_at_market(values: Values) -> Draft:
    symbol, price, amount = values.symbol(), values.decimal(10, 999), values.number(10, 999)
    buy = call("place_order", order_type="Buy", symbol=symbol, price=price, amount=amount)
    return Draft(
        values={"symbol": symbol, "amount": amount},
        gold=(in_turn(call("get_stock_info", symbol=symbol), buy),),
        state=trading_state(values, prices={symbol: price}),
    )


def _swap_watch(values: Values) -> Draft:
    new, old = values.symbol(), values.symbol()
    prices = {symbol: values.decimal(10, 999) for symbol in (new, old)}
    return Draft(
        values={"new": new, "old": old},
        gold=(((call("add_to_watchlist", stock=new), call("remove_stock_from_watchlist", symbol=old)),),),
        state=trading_state(values, prices=prices, watched=(old,)),
    )


def _message_by_name(values: Values) -> Draft:
    name, user_id, text = values.name(), values.user_id(), values.text()
    steps = in_turn(call("get_user_id", user=name), call("send_message", receiver_id=user_id, message=text))
    state = message_state(values, users={name: user_id, values.name(): values.user_id()})
    return Draft(values={"name": name, "text": text}, gold=(steps,), state=state)


def _sum_then_scale(values: Values) -> Draft:
    # The tools change nothing: the right result must have been seen.
    first, second, total = values.addends()
    factor = values.number(11, 99)
    steps = in_turn(call("add", a=first, b=second), call("multiply", a=total, b=factor))
    return Draft(values={"first": first, "second": second, "factor": factor}, gold=(steps,))


def _refused(values: Values) -> tuple[Draft, Steps]:
    """An easy request without its tool, in the same words, and what would be right with it."""
    kind = values.pick(easy_kinds())
    asked = kind.draft(values)
    [[step]] = asked.gold
    text = kind.wording(asked, values)[0]
    return Draft(gold=((),), state=asked.state, replies=(REFUSAL,), withheld=step[0].name, texts=(text,)), (step,)


def _late_tool(values: Values) -> Draft:
    refused, steps = _refused(values)
    there = values.pick(PHRASES["late_tool"][values.split]).format(tool=refused.withheld)
    texts = (*refused.texts, there)
    return replace(refused, gold=((), steps), replies=(REFUSAL, "Done."), revealed=True, texts=texts)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="write_note", simulator="GorillaFileSystem", draft=_write_note),
        Kind(name="file_away", simulator="GorillaFileSystem", draft=_file_away),
        Kind(name="remove_file", simulator="GorillaFileSystem", draft=_remove_file, follows=True),
        Kind(name="remove_unnamed", simulator="GorillaFileSystem", draft=_remove_unnamed),
        Kind(name="open_ticket", simulator="TicketAPI", draft=_open_ticket, follows=True),
        Kind(name="close_open_ticket", simulator="TicketAPI", draft=_close_open_ticket),
        Kind(name="file_to_ticket", simulator="TicketAPI", draft=_file_to_ticket),
        Kind(name="set_climate", simulator="VehicleControlAPI", draft=_set_climate, follows=True),
        Kind(name="start_engine", simulator="VehicleControlAPI", draft=_start_engine),
        Kind(name="fuel_in_liters", simulator="VehicleControlAPI", draft=_fuel_in_liters),
        Kind(name="cancel_order", simulator="TradingBot", draft=_cancel_order, follows=True),
        Kind(name="buy_at_market", simulator="TradingBot", draft=_buy_at_market),
        Kind(name="swap_watch", simulator="TradingBot", draft=_swap_watch),
        Kind(name="message_by_name", simulator="MessageAPI", draft=_message_by_name),
        Kind(name="sum_then_scale", simulator="MathAPI", draft=_sum_then_scale),
        Kind(name="missing_tool", draft=lambda values: _refused(values)[0]),
        Kind(name="late_tool", draft=_late_tool),
    )
}
"""Kinds of request by name."""


def easy_kinds() -> list[Kind]:
    """Kinds of one easy call, which may follow others and be asked without their tool."""
    return [kind for kind in KINDS.values() if kind.follows]
