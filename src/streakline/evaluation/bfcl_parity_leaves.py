"""Where an answer differs from the accepted one in types and writing alone, inside lists and dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from streakline.evaluation.bfcl_parity_literals import write_literal
from streakline.rewards.bfcl.coercion import kind, kind_of, same_scalar
from streakline.rewards.bfcl.languages import read_literal
from streakline.rewards.bfcl.official import described_functions
from streakline.tasks.bfcl_source import language
from streakline.types import JSON, Task, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A value inside a list or dictionary that an accepted one is taken for, but in another type or writing."""

    kind: str
    """Type that is declared for it, or else its accepted value's."""
    value: JSON
    """As it was answered."""
    options: Sequence[JSON]
    """The accepted values; `""` among them = it may be left out."""

    @property
    def schema(self) -> dict[str, JSON]:
        """Of a parameter that has this type."""
        return {"type": self.kind, "items": {"type": "string"}} if self.kind == "array" else {"type": self.kind}


def parameters_of(task: Task, name: str) -> Mapping[str, JSON]:
    """Parameters of a function of the task, in the source's notation."""
    for function in described_functions(task.kind, None)[task.id]:
        if isinstance(function, dict) and function["name"] == name and isinstance(function["parameters"], dict):
            return function["parameters"]
    return {}


def align_calls(task: Task, calls: Sequence[ToolCall]) -> Iterator[tuple[ToolCall, list[Leaf]]]:
    """Each call with the values inside its arguments written as accepted, and what was rewritten."""
    for index, call in enumerate(calls):
        best: tuple[ToolCall, list[Leaf]] = (call, [])
        for answer in (*task.answers[index : index + 1], *task.answers):
            accepted = answer.get(call.name)
            if isinstance(accepted, dict) and (found := _aligned(task, call, accepted)):
                best = found
                break
        yield best


def _aligned(task: Task, call: ToolCall, accepted: Mapping[str, JSON]) -> tuple[ToolCall, list[Leaf]] | None:
    schemas, spoken = _inner(parameters_of(task, call.name), "properties"), language(task.kind)
    arguments, leaves = dict(call.arguments), list[Leaf]()
    for name, value in call.arguments.items():
        schema = _inner(schemas, name)
        try:
            literal = read_literal(value, schema=schema, language=spoken)
        except ValueError:
            return None
        found = _align_options(literal, accepted.get(name), schema)
        if found is None:
            return None
        [written, inside] = found
        if isinstance(literal, list | dict) and inside and written:
            arguments[name] = write_literal(written[0], schema=schema, language=spoken)
            leaves += inside
    return replace(call, arguments=arguments), leaves


def _align_options(value: JSON, options: JSON, schema: Mapping[str, JSON]) -> tuple[list[JSON], list[Leaf]] | None:
    """A value written as one of the accepted ones; an empty one that stands for nothing is left out."""
    accepted = options if isinstance(options, list) else [options]
    given = [option for option in accepted if option != ""]
    for option in given:
        found = _align(value, option, schema)
        if found is not None:
            return [found[0]], found[1]
    if len(given) == len(accepted) or not (value == [] or same_scalar(value, "", mode="lenient")):
        return None
    declared = kind(schema) or (kind_of(given[0]) if given else "string")
    return [], [Leaf(kind=declared, value=value, options=accepted)]


def _align(value: JSON, option: JSON, schema: Mapping[str, JSON]) -> tuple[JSON, list[Leaf]] | None:
    """A value written as an accepted one that Python's equality, or upstream's of texts, takes it for."""
    if isinstance(value, list) and isinstance(option, list) and len(value) == len(option):
        items = [_align(item, wanted, _inner(schema, "items")) for item, wanted in zip(value, option, strict=True)]
        if all(item is not None for item in items):
            return [item[0] for item in items if item], [leaf for item in items if item for leaf in item[1]]
        return None
    if isinstance(value, dict) and isinstance(option, dict):
        return _align_entries(value, option, _inner(schema, "properties"))
    if value == option or same_scalar(value, option, mode="lenient"):
        is_same = type(value) is type(option) and value == option
        leaf = Leaf(kind=kind(schema) or kind_of(option), value=value, options=[option])
        return option, [] if is_same else [leaf]
    return None


def _align_entries(
    value: Mapping[str, JSON], option: Mapping[str, JSON], properties: Mapping[str, JSON]
) -> tuple[JSON, list[Leaf]] | None:
    entries, leaves = dict[str, JSON](), list[Leaf]()
    for key, item in value.items():
        found = _align_options(item, option.get(key), _inner(properties, key))
        if found is None:
            return None
        [written, inside] = found
        entries.update((key, each) for each in written)
        leaves += inside
    return entries, leaves


def _inner(schema: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    found = schema.get(name)
    return found if isinstance(found, dict) else {}
