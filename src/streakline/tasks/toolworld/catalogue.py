"""The tools of ToolWorld by name, with long schemas (the benchmark's own) or short ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from streakline.environment.simulators import tool_schemas
from streakline.types import JSON, ToolSchema

__all__ = ["TOOLWORLD_SIMULATORS", "SchemaLength", "simulator_of", "tool_catalogue", "tools_of"]

SchemaLength: TypeAlias = Literal["short", "long"]

TOOLWORLD_SIMULATORS = ("GorillaFileSystem", "TicketAPI", "VehicleControlAPI", "TradingBot", "MessageAPI", "MathAPI")
"""Simulators whose tools occur, in the order in which tasks name them."""


@lru_cache(maxsize=None)
def tool_catalogue(length: SchemaLength) -> Mapping[str, ToolSchema]:
    """All tools by name.

    Args:
        length: `long` = schemas as the benchmark has them; `short` = the first sentence of the description, and types
            without descriptions.
    """
    schemas = (schema for name in TOOLWORLD_SIMULATORS for schema in tool_schemas(name, brief=length == "short"))
    return {schema.name: _shortened(schema) if length == "short" else schema for schema in schemas}


@lru_cache(maxsize=None)
def tools_of(simulator: str) -> tuple[str, ...]:
    """Names of a simulator's tools."""
    return tuple(schema.name for schema in tool_schemas(simulator))


@lru_cache(maxsize=None)
def simulator_of(tool: str) -> str:
    """Simulator that a tool belongs to."""
    return next(name for name in TOOLWORLD_SIMULATORS if tool in tools_of(name))


def _shortened(schema: ToolSchema) -> ToolSchema:
    description = schema.description.partition(". ")[0].rstrip(". ") + "."
    parameters = _without_descriptions(dict(schema.parameters))
    assert isinstance(parameters, dict)
    return ToolSchema(name=schema.name, description=description, parameters=parameters)


def _without_descriptions(schema: JSON) -> JSON:
    """JSON Schema without prose. A property that is itself called `description` stays."""
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, JSON] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            kept[key] = {name: _without_descriptions(item) for name, item in value.items()}
        elif key not in {"description", "default"}:
            kept[key] = _without_descriptions(value)
    return kept
