"""Requests about stocks and orders (`TradingBot`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streakline.tasks.toolworld.kinds import Draft, Kind, State, call, in_turn
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON

_BALANCE = 5_000_000.0
"""Enough for any order that is drawn."""


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


_MARKET = ("TradingBot",)

TRADING_KINDS = (
    Kind(name="cancel_order", simulators=_MARKET, draft=_cancel_order, follows=True),
    Kind(name="buy_at_market", simulators=_MARKET, draft=_buy_at_market),
    Kind(name="swap_watch", simulators=_MARKET, draft=_swap_watch),
)
