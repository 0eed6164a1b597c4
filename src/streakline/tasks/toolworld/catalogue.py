"""The tools of ToolWorld by name, with long schemas (the benchmark's own) or short ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, TypeAlias

from streakline.environment.simulators import tool_schemas
from streakline.types import JSON, ToolSchema

SchemaLength: TypeAlias = Literal["short", "long"]

TOOLWORLD_SIMULATORS = ("GorillaFileSystem", "TicketAPI", "VehicleControlAPI", "TradingBot", "MessageAPI", "MathAPI")
"""Simulators whose tools occur, in the order in which tasks name them."""


@cache
def tool_catalogue(length: SchemaLength) -> Mapping[str, ToolSchema]:
    """All tools by name; `short` = the first sentence of the description, and types without descriptions."""
    schemas = (schema for name in TOOLWORLD_SIMULATORS for schema in tool_schemas(name, brief=length == "short"))
    return {schema.name: _shortened(schema) if length == "short" else schema for schema in schemas}


@cache
def tools_of(simulator: str) -> tuple[str, ...]:
    """Names of a simulator's tools."""
    return tuple(schema.name for schema in tool_schemas(simulator))


@cache
def simulator_of(tool: str) -> str:
    """Simulator that a tool belongs to."""
    return next(name for name in TOOLWORLD_SIMULATORS if tool in tools_of(name))


def required_arguments(schema: ToolSchema) -> list[str]:
    """Names of the arguments that a tool can't do without."""
    required = schema.parameters.get("required")
    return [str(name) for name in required] if isinstance(required, list) else []


def _shortened(schema: ToolSchema) -> ToolSchema:
    description = schema.description.partition(". ")[0].rstrip(". ") + "."
    return ToolSchema(name=schema.name, description=description, parameters=_without_prose(schema.parameters))


def _without_prose(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """JSON Schema without descriptions and defaults. A property that is itself called `description` stays."""
    kept: dict[str, JSON] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            kept[key] = {name: _without_prose(item) for name, item in value.items() if isinstance(item, dict)}
        elif key not in {"description", "default"}:
            kept[key] = _without_prose(value) if isinstance(value, dict) else value
    return kept
