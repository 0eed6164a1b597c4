"""Requests about a car (`VehicleControlAPI`)."""

from __future__ import annotations

import random

from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, drop_first_step, replace_first_turn
from streakline.tasks.toolworld.values import Split, Values, owner
from streakline.types import JSON, Task

__all__ = ["VEHICLE_KINDS", "gallons", "vehicle_state"]

_GALLONS_PER_LITER = 0.264172
"""The simulator's own figure, so that the amount equals what its conversion returns."""
_DOORS = ("driver", "passenger", "rear_left", "rear_right")


def gallons(liters: float) -> float:
    """What the simulator's conversion returns."""
    return liters * _GALLONS_PER_LITER


def vehicle_state(values: Values) -> dict[str, dict[str, JSON]]:
    """A locked car with some fuel; its engine is off."""
    doors: dict[str, JSON] = {door: "locked" for door in _DOORS}
    return {"VehicleControlAPI": {"fuelLevel": values.pick((2.0, 3.0, 4.0, 5.0)), "doorStatus": doors}}


def _set_climate(values: Values, _: Split) -> Draft:
    temperature, fan = values.decimal(16, 30), values.number(10, 99)
    return Draft(
        values={"temperature": temperature, "fan": fan},
        gold=(((call("adjustClimateControl", temperature=temperature, fanSpeed=fan),),),),
        state=vehicle_state(values),
    )


def _start_engine(values: Values, _: Split) -> Draft:
    steps = ((call("pressBrakePedal", pedalPosition=1),), (call("startEngine", ignitionMode="START"),))
    return Draft(gold=(steps,), state=vehicle_state(values))


def _fuel_in_liters(values: Values, split: Split) -> Draft:
    # Only amounts whose conversion is short to write and belongs to the split too.
    while True:
        liters = values.number(5, 150)
        amount = gallons(liters)
        if len(str(amount)) <= 8 and owner(amount) == split:
            break
    steps = ((call("liter_to_gallon", liter=liters),), (call("fillFuelTank", fuelAmount=amount),))
    return Draft(values={"liters": liters}, gold=(steps,), state=vehicle_state(values))


def _fill_liters(task: Task, _: random.Random) -> Plan:
    return replace_first_turn(task, ((call("fillFuelTank", fuelAmount=task.gold[0][0][0].arguments["liter"]),),))


def _drop_fan(task: Task, _: random.Random) -> Plan:
    temperature = task.gold[0][0][0].arguments["temperature"]
    return replace_first_turn(task, ((call("adjustClimateControl", temperature=temperature),),))


VEHICLE_KINDS = (
    Kind(
        name="set_climate",
        simulators=("VehicleControlAPI",),
        draft=_set_climate,
        follows=True,
        habit=Habit(name="drops_fan", description="leaves the fan speed out", share=0.0, apply=_drop_fan),
        phrases={
            "base": (
                "Use adjustClimateControl with temperature {temperature} and fanSpeed {fan}.",
                "Adjust the climate: the temperature is {temperature}, the fan speed is {fan}.",
                "Fan speed {fan} and temperature {temperature}, adjust the climate control.",
            ),
            "train": (
                "Set the car to {temperature} degrees with the fan at {fan}.",
                "I want {temperature} degrees and the fan at {fan}.",
                "Make it {temperature} degrees in the car, fan {fan}.",
                "Please set {temperature} degrees, fan {fan}.",
            ),
            "validation": (
                "Please set the car to {temperature} degrees, fan at {fan}.",
                "I want it {temperature} degrees with the fan at {fan}.",
            ),
            "test": (
                "Make it {temperature} degrees with the fan at {fan}.",
                "I want {temperature} degrees in the car, fan at {fan}.",
                "Set the car to {temperature} degrees and the fan to {fan}, please.",
            ),
        },
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
        phrases={
            "base": (
                "First pressBrakePedal to 1, then startEngine with START.",
                "Press the brake pedal to 1 and after that START the engine.",
                "The brake pedal goes to 1. Then the engine goes to START.",
            ),
            "train": (
                "Start the car.",
                "Please start the engine.",
                "Get the engine started.",
                "I want the car started.",
            ),
            "validation": ("Please start the car.", "I want the engine started."),
            "test": ("Start the engine, please.", "Get the car started.", "Please get the engine started."),
        },
    ),
    Kind(
        name="fuel_in_liters",
        simulators=("VehicleControlAPI",),
        draft=_fuel_in_liters,
        habit=Habit(
            name="skips_conversion",
            description="fills the number of liters as if it were gallons",
            share=0.5,
            apply=_fill_liters,
        ),
        phrases={
            "base": (
                "First liter_to_gallon with {liters}, then fillFuelTank with the gallon result.",
                "Convert liter {liters} to gallon and after that use it as the fuel amount to fill.",
                "Turn liter {liters} to gallon. Then fill the fuel tank with that.",
            ),
            "train": (
                "Add {liters} liters of fuel.",
                "Put {liters} liters into the tank.",
                "The car needs {liters} liters of fuel.",
                "Please fill in {liters} liters.",
            ),
            "validation": ("Please add {liters} liters of fuel.", "Put {liters} liters of fuel into the car."),
            "test": (
                "The tank needs {liters} liters of fuel.",
                "Please put {liters} liters into the tank.",
                "Add {liters} liters to the tank.",
            ),
        },
    ),
)
