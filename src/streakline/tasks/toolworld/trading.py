"""Requests about stocks and orders (`TradingBot`)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, keep_first_call, replace_first_turn
from streakline.tasks.toolworld.values import Values, split_of
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
    values: Values,
    *,
    prices: Mapping[str, float],
    orders: Mapping[str, JSON] | None = None,
    watched: Sequence[str] = (),
) -> dict[str, dict[str, JSON]]:
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


def _cancel_order(values: Values) -> Draft:
    number, symbol, price = values.digits(4), values.symbol(), values.decimal(10, 999)
    orders = order(number, symbol=symbol, price=price, amount=values.number(10, 999))
    return Draft(
        values={"order": number},
        gold=(((call("cancel_order", order_id=number),),),),
        state=trading_state(values, prices={symbol: price}, orders=orders),
    )


def _buy_at_market(values: Values) -> Draft:
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


def _swap_watch(values: Values) -> Draft:
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
    ),
)
