"""Requests about stocks and orders (`TradingBot`)."""

from __future__ import annotations

import random

from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, keep_first_call, replace_first_turn
from streakline.tasks.toolworld.values import Split, Values, split_of
from streakline.types import JSON, Task

__all__ = ["TRADING_KINDS", "order", "trading_state"]

_BALANCE = 5_000_000.0
"""Enough for any order that is drawn."""


def order(number: int, *, symbol: str, price: float, amount: int) -> dict[str, JSON]:
    """A pending order as the simulator keeps it, by its id."""
    fields: dict[str, JSON] = {
        "id": number,
        "order_type": "Buy",
        "symbol": symbol,
        "price": price,
        "amount": amount,
        "status": "Pending",
    }
    return {str(number): fields}


def trading_state(
    values: Values, *, prices: dict[str, float] | None = None, orders: JSON = None, watched: tuple[str, ...] = ()
) -> dict[str, dict[str, JSON]]:
    """An open market with these stocks, and a logged-in account with these orders and watched stocks."""
    return {
        "TradingBot": {
            "authenticated": True,
            "market_status": "Open",
            "account_info": {"account_id": values.digits(5), "balance": _BALANCE, "binding_card": values.digits(6)},
            "stocks": {symbol: {"price": price} for symbol, price in (prices or {}).items()},
            "orders": orders or {},
            "order_counter": values.digits(4),
            "watch_list": list(watched),
            "transaction_history": [],
        }
    }


def _cancel_order(values: Values, _: Split) -> Draft:
    number, symbol, price = values.digits(4), values.symbol(), values.decimal(10, 999)
    orders: JSON = order(number, symbol=symbol, price=price, amount=values.number(10, 999))
    return Draft(
        values={"order": number},
        gold=(((call("cancel_order", order_id=number),),),),
        state=trading_state(values, prices={symbol: price}, orders=orders),
    )


def _cancel_other(task: Task, rng: random.Random) -> Plan:
    return replace_first_turn(task, ((call("cancel_order", order_id=Values(rng, split=split_of(task)).digits(4)),),))


def _buy_at_market(values: Values, _: Split) -> Draft:
    symbol, price, amount = values.symbol(), values.decimal(10, 999), values.number(10, 999)
    steps = (
        (call("get_stock_info", symbol=symbol),),
        (call("place_order", order_type="Buy", symbol=symbol, price=price, amount=amount),),
    )
    return Draft(
        values={"symbol": symbol, "amount": amount},
        gold=(steps,),
        state=trading_state(values, prices={symbol: price}),
    )


def _guess_price(task: Task, rng: random.Random) -> Plan:
    right = task.gold[0][1][0].arguments
    price = Values(rng, split=split_of(task)).decimal(10, 999)
    return replace_first_turn(task, ((call("place_order", **{**right, "price": price}),),))


def _swap_watch(values: Values, _: Split) -> Draft:
    new, old = values.symbol(), values.symbol()
    step = (call("add_to_watchlist", stock=new), call("remove_stock_from_watchlist", symbol=old))
    prices = {symbol: values.decimal(10, 999) for symbol in (new, old)}
    return Draft(
        values={"new": new, "old": old},
        gold=((step,),),
        state=trading_state(values, prices=prices, watched=(old,)),
    )


TRADING_KINDS = (
    Kind(
        name="cancel_order",
        simulators=("TradingBot",),
        draft=_cancel_order,
        follows=True,
        habit=Habit(name="guesses_id", description="cancels another order", share=0.0, apply=_cancel_other),
        phrases={
            "base": (
                "Use cancel_order on order_id {order}.",
                "The order id is {order}: cancel that.",
                "Take order id {order} and cancel it.",
            ),
            "train": (
                "Cancel order {order}.",
                "Please cancel my order {order}.",
                "I do not want order {order}, cancel it.",
                "Order {order} can be canceled.",
            ),
            "validation": ("Please cancel order {order}.", "Cancel my order {order} now."),
            "test": (
                "Cancel my order {order}, please.",
                "I do not want my order {order}, cancel it.",
                "Please cancel order {order} now.",
            ),
        },
    ),
    Kind(
        name="buy_at_market",
        simulators=("TradingBot",),
        draft=_buy_at_market,
        habit=Habit(
            name="guesses_price",
            description="orders at a made-up price in place of looking the price up",
            share=0.55,
            apply=_guess_price,
        ),
        phrases={
            "base": (
                "First get_stock_info of {symbol}, then place_order Buy {symbol} with that price and amount {amount}.",
                "Look up the stock {symbol} and after that place a Buy order, amount {amount}, at the price you see.",
                "Get the price of {symbol}. Then place an order: Buy, amount {amount}, that price.",
            ),
            "train": (
                "Buy {amount} shares of {symbol} at the market price.",
                "Please buy {amount} {symbol} at the current price.",
                "I want {amount} shares of {symbol} at the current price.",
                "Get me {amount} {symbol} at the market price.",
            ),
            "validation": (
                "Please buy {amount} shares of {symbol} at the market price.",
                "I want {amount} {symbol} at the current price.",
            ),
            "test": (
                "Buy {amount} {symbol} at the current price.",
                "I want to buy {amount} shares of {symbol} at the market price.",
                "Get me {amount} shares of {symbol} at the current price.",
            ),
        },
    ),
    Kind(
        name="swap_watch",
        simulators=("TradingBot",),
        draft=_swap_watch,
        habit=Habit(
            name="forgets_second",
            description="does the first of two things that were asked, and stops",
            share=0.6,
            apply=lambda task, _: keep_first_call(task),
        ),
        phrases={
            "base": (
                "Use add_to_watchlist on {new} and remove_stock_from_watchlist on {old}.",
                "Add the stock {new} to the watchlist and remove the stock {old} from it.",
                "To the watchlist add {new}, and from the watchlist remove {old}.",
            ),
            "train": (
                "Watch {new} and stop watching {old}.",
                "Put {new} on my watch list and take {old} off it.",
                "I want to watch {new}, but not {old}.",
                "On my watch list I want {new} in place of {old}.",
            ),
            "validation": ("Please watch {new}, but not {old}.", "Put {new} on my watch list in place of {old}."),
            "test": (
                "I want {new} on my watch list and {old} off it.",
                "Please watch {new} and stop watching {old}.",
                "I want to watch {new} in place of {old}.",
            ),
        },
    ),
)
