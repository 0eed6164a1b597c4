"""Requests about a car (`VehicleControlAPI`)."""

from __future__ import annotations

import random
from functools import cache

from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, drop_first_step, replace_first_turn
from streakline.tasks.toolworld.values import Split, Values, owner
from streakline.types import JSON, Task

__all__ = ["VEHICLE_KINDS", "gallons", "liter_amounts", "vehicle_state"]

_GALLONS_PER_LITER = 0.264172
"""The simulator's own figure, so that the amount equals what its conversion returns."""
_DOORS = ("driver", "passenger", "rear_left", "rear_right")


def gallons(liters: float) -> float:
    """What the simulator's conversion returns."""
    return liters * _GALLONS_PER_LITER


def vehicle_state(values: Values) -> dict[str, dict[str, JSON]]:
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
        gold=(((call("adjustClimateControl", temperature=temperature, fanSpeed=fan),),),),
        state=vehicle_state(values),
    )


def _start_engine(values: Values) -> Draft:
    steps = ((call("pressBrakePedal", pedalPosition=1),), (call("startEngine", ignitionMode="START"),))
    return Draft(gold=(steps,), state=vehicle_state(values))


def _fuel_in_liters(values: Values) -> Draft:
    liters = values.pick(liter_amounts(values.split))
    steps = ((call("liter_to_gallon", liter=liters),), (call("fillFuelTank", fuelAmount=gallons(liters)),))
    return Draft(values={"liters": liters}, gold=(steps,), state=vehicle_state(values))


def _fill_liters(task: Task, _: random.Random) -> Plan:
    return replace_first_turn(task, ((call("fillFuelTank", fuelAmount=task.gold[0][0][0].arguments["liter"]),),))


VEHICLE_KINDS = (
    Kind(
        name="set_climate",
        simulators=("VehicleControlAPI",),
        draft=_set_climate,
        follows=True,
    ),
    Kind(
        name="start_engine",
        simulators=("VehicleControlAPI",),
        draft=_start_engine,
        habit=Habit(
            name="forgets_brake",
            description="starts the engine without pressing the brake pedal",
            share=0.6,
            apply=lambda task, _: drop_first_step(task),
        ),
    ),
    Kind(
        name="fuel_in_liters",
        simulators=("VehicleControlAPI",),
        draft=_fuel_in_liters,
        habit=Habit(
            name="skips_conversion",
            description="fills the number of liters as if it were gallons",
            share=0.55,
            apply=_fill_liters,
        ),
    ),
)
