"""Requests about a car (`VehicleControlAPI`)."""

from __future__ import annotations

from functools import cache

from streakline.tasks.toolworld.kinds import Draft, Kind, State, call, in_turn
from streakline.tasks.toolworld.values import Split, Values, owner
from streakline.types import JSON

_GALLONS_PER_LITER = 0.264172
"""The simulator's own figure, so that the amount equals what its conversion returns."""
_DOORS = ("driver", "passenger", "rear_left", "rear_right")


def gallons(liters: float) -> float:
    """What the simulator's conversion returns."""
    return liters * _GALLONS_PER_LITER


def vehicle_state(values: Values) -> State:
    """A locked car with some fuel; its engine is off."""
    doors: dict[str, JSON] = dict.fromkeys(_DOORS, "locked")
    return {"VehicleControlAPI": {"fuelLevel": values.pick((2.0, 3.0, 4.0, 5.0)), "doorStatus": doors}}


@cache
def liter_amounts(split: Split) -> tuple[float, ...]:
    """Amounts of a split that fit the tank, and whose conversion is short to write."""
    amounts = (halves / 2 if halves % 2 else halves // 2 for halves in range(10, 340))
    return tuple(liters for liters in amounts if owner(liters) == split and len(str(gallons(liters))) <= 8)


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


_CAR = ("VehicleControlAPI",)

VEHICLE_KINDS = (
    Kind(name="set_climate", simulators=_CAR, draft=_set_climate, follows=True),
    Kind(name="start_engine", simulators=_CAR, draft=_start_engine),
    Kind(name="fuel_in_liters", simulators=_CAR, draft=_fuel_in_liters),
)
