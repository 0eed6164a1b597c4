"""BFCL's simulated applications, loaded safely: a fresh instance each, a frozen clock, plain JSON state.

The classes come from the `bfcl-eval` package, which is imported on first use (only the simulators themselves; the
package's model handlers, which pull vendor SDKs, are left alone). What they keep in module globals is kept from
leaking between instances. Semantics, faults included, are upstream's: scores must be comparable.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import importlib.util
import json
from collections.abc import Callable, ItemsView, Mapping
from datetime import datetime
from functools import cache
from inspect import isfunction, signature
from pathlib import Path
from types import ModuleType, SimpleNamespace

from streakline.environment.clock import FrozenDatetime
from streakline.environment.json_schema import to_json_schema
from streakline.errors import ConfigError, DataError, MissingDependencyError
from streakline.types import JSON, ToolSchema

INSTALL_COMMAND = "pip install '.[bfcl]' && pip install --no-deps -r requirements/no-deps.txt"
"""Installs `bfcl-eval` without its pins, which can't be met beside ours."""

SIMULATORS: Mapping[str, str] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""Simulator class -> its module, which is also the name of its schema file."""

_PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_BRIEF = "Tool description: "
"""What separates the description of the application from that of the tool in BFCL's schema files."""


def bfcl_folder() -> Path:
    """Folder of the installed `bfcl_eval` package, found without importing it; `MissingDependencyError` = none."""
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(f"Expected bfcl-eval to be installed, but got nothing: run `{INSTALL_COMMAND}`")
    return Path(spec.submodule_search_locations[0])


def create_simulator(name: str, *, scenario: Mapping[str, JSON], long_context: bool = False) -> object:
    """Make a fresh instance that shares nothing with the scenario, the module or other instances.

    An empty scenario leaves it at its own defaults; one that it can't load is a `DataError`, an unknown name a
    `ConfigError`. With `long_context` it pads its state as BFCL's category of that name does.
    """
    cls = _simulator_class(name)
    instance = cls()
    load = vars(cls).get("_load_scenario")
    if load is None:
        return instance
    try:
        load(instance, plain_copy(dict(scenario)), long_context=long_context)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise DataError(
            f"Expected a scenario that {name} can load, but got one that fails with {type(error).__name__}: {error}"
        ) from error
    return instance


@cache
def tool_functions(name: str) -> Mapping[str, Callable[..., object]]:
    """Public methods of a simulator by name, unbound: call as `function(instance, **arguments)`."""
    members = vars(_simulator_class(name)).items()
    return {key: value for key, value in members if isfunction(value) and not key.startswith("_")}


@cache
def mutable_defaults(name: str) -> Mapping[str, Mapping[str, object]]:
    """Defaults of a simulator's tools that calls can change, such as the list of a tweet's mentions: by tool and name.

    As they were at the first request. Python makes one object for all instances, so each needs a copy of its own.
    """
    return {
        tool: {
            parameter.name: plain_copy(parameter.default)
            for parameter in signature(function).parameters.values()
            if isinstance(parameter.default, list | dict | set)
        }
        for tool, function in tool_functions(name).items()
    }


@cache
def tool_schemas(name: str, *, brief: bool = False) -> tuple[ToolSchema, ...]:
    """Schemas of a simulator's tools, in the source's order, normalised to JSON Schema.

    `brief` leaves out the description of the application, which the source repeats in each tool.
    """
    return read_tool_schemas(bfcl_folder() / "data" / "multi_turn_func_doc" / f"{_module_name(name)}.json", brief=brief)


def read_tool_schemas(path: Path, *, brief: bool = False) -> tuple[ToolSchema, ...]:
    """Read a schema file of BFCL, one tool a line. See `tool_schemas`."""
    schemas = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"Expected a tool schema file at {path}, but got: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            description = str(row["description"])
            schema = ToolSchema(
                name=row["name"],
                description=description.partition(_BRIEF)[2] or description if brief else description,
                parameters=to_json_schema(row["parameters"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"Expected a tool schema at {path}:{number}, but got {type(error).__name__}: {error}"
            ) from error
        schemas.append(schema)
    return tuple(schemas)


def state_snapshot(instance: object) -> dict[str, JSON]:
    """Public attributes as plain JSON: what upstream's state comparison looks at, file trees included.

    Time stamps of files are private there, and so absent. Worlds are equal when their snapshots are.
    """
    return {name: to_plain(value) for name, value in sorted(vars(instance).items()) if not name.startswith("_")}


def state_digest(state: Mapping[str, JSON]) -> str:
    """SHA-256 of a state, equal for equal states: key order and 1 against 1.0 make no difference."""
    text = json.dumps(_unified(state), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def to_plain(value: object, *, _above: tuple[int, ...] = ()) -> JSON:
    """Turn any value of a simulator into plain JSON; what has no JSON form becomes its text.

    A directory that was copied into itself makes a tree that never ends; the second visit becomes `{"type": "cycle"}`.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if id(value) in _above:
        return {"type": "cycle"}
    above = (*_above, id(value))
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, _above=above) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, _above=above) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((to_plain(item, _above=above) for item in value), key=repr)
    return _node(value, above)


def _node(value: object, above: tuple[int, ...]) -> JSON:
    file, directory = _file_nodes()
    if isinstance(value, file):
        return {"type": "file", "name": vars(value)["name"], "content": to_plain(vars(value)["content"], _above=above)}
    if isinstance(value, directory):
        contents = to_plain(vars(value)["contents"], _above=above)
        return {"type": "directory", "name": vars(value)["name"], "contents": contents}
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _unified(value: JSON | Mapping[str, JSON]) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _unified(item) for key, item in value.items()}
    return [_unified(item) for item in value] if isinstance(value, list) else value


def plain_copy(value: object) -> object:
    """Deep copy, several times faster than `copy.deepcopy` for plain data. Aliases inside plain data are separated."""
    if isinstance(value, dict):
        return {key: plain_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_copy(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else copy.deepcopy(value)


def _module_name(name: str) -> str:
    if name not in SIMULATORS:
        raise ConfigError(f"Expected a simulator among {', '.join(sorted(SIMULATORS))}, but got {name!r}")
    return SIMULATORS[name]


@cache
def _module(module_name: str) -> ModuleType:
    bfcl_folder()
    try:
        module = importlib.import_module(f"{_PACKAGE}.{module_name}")
    except ImportError as error:
        raise MissingDependencyError(
            f"Expected the requirements of bfcl-eval's simulators to be installed, but got: {error}; "
            f"run `{INSTALL_COMMAND}`"
        ) from error
    _prepare(vars(module))
    return module


class _CopiedOnRead(dict[str, object]):
    """A table of padding whose records are copied when they are put into a state, so that calls don't change them."""

    def items(self) -> ItemsView[str, object]:  # type: ignore[override]  # the type of dict's own view has no name
        return {key: plain_copy(value) for key, value in super().items()}.items()


def _prepare(names: dict[str, object]) -> None:
    """Replace the clock and what leaks between instances in the names of a simulator's module."""
    if "deepcopy" in names:
        names["deepcopy"] = plain_copy
    for name, value in list(names.items()):
        if name.endswith("_EXTENSION") and isinstance(value, dict):
            names[name] = _CopiedOnRead(value)
    clock = names.get("datetime")  # the class in some modules, the standard module in others
    if isinstance(clock, ModuleType):
        names["datetime"] = SimpleNamespace(**{**vars(clock), "datetime": FrozenDatetime})
    elif clock is datetime:
        names["datetime"] = FrozenDatetime
        for name, value in list(names.items()):
            if isinstance(value, datetime):
                names[name] = FrozenDatetime(*value.timetuple()[:6], value.microsecond, value.tzinfo)


@cache
def _simulator_class(name: str) -> type[object]:
    cls: type[object] = vars(_module(_module_name(name)))[name]
    return cls


@cache
def _file_nodes() -> tuple[type[object], type[object]]:
    names = vars(_module("gorilla_file_system"))
    return names["File"], names["Directory"]
