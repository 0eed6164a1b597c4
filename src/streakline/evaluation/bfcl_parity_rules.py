"""What our grader means to do otherwise than BFCL's checkers, each with the rule that proves it of one answer.

A disagreement counts as intended only where upstream itself, asked about the same answer in another form that its
differing treatment should not tell apart, gives our verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from streakline.rewards.bfcl.coercion import kind, kind_of, same_scalar
from streakline.rewards.bfcl.languages import read_literal
from streakline.rewards.bfcl.official import described_functions
from streakline.rewards.bfcl.single_turn import assign_calls, is_accepted
from streakline.rewards.bfcl.upstream import check_single_turn, check_sources, rebuilt_source
from streakline.tasks.bfcl_source import MULTI_TURN, language
from streakline.types import JSON, Task, ToolCall


class Difference(StrEnum):
    """A difference that is meant."""

    FRESH_STATE = "fresh state"
    """Upstream keeps worlds between gradings, so that an answer is judged by what earlier ones left behind."""
    ORDER_FREE = "order-free matching"
    """Upstream gives each answer the first call that fits, and finds no match where that takes another's only one."""
    ONE_TABLE = "one table of types"
    """Upstream's rules for types and texts differ between a parameter and what is in a list or dictionary."""
    LITERALS_ONLY = "literal arguments only"
    """Upstream evaluates arguments as Python."""
    AS_READ = "results as they are read"
    """Upstream compares numbers of arbitrary precision in more digits than the call asked for."""


MEANING: Mapping[Difference, str] = {
    Difference.FRESH_STATE: "Each grading has worlds of its own. Proof: so does upstream, asked with new ones.",
    Difference.ORDER_FREE: "Calls and answers are matched as a whole. Proof: upstream accepts the calls in our order.",
    Difference.ONE_TABLE: "Types and texts count alike at every depth. Proof: upstream judges the very same values as "
    "we do where each is a parameter, and the answer as we do once they are written as accepted.",
    Difference.LITERALS_ONLY: "Arguments are values, not code. Proof: upstream rejects the same text as a literal.",
    Difference.AS_READ: "Results compare as the policy read them. Proof: so they do upstream, written in that form.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A value inside a list or dictionary that upstream's equality passes, but in another type or writing."""

    kind: str
    """Type that is declared for it, or else its accepted value's."""
    value: JSON
    """As it was answered."""
    accepted: JSON
    """As it is accepted."""


def explain(task: Task, steps: Sequence[Sequence[Sequence[ToolCall]]], *, ours: bool) -> Difference | None:
    """Prove which difference a disagreement is; None = it is none that is meant."""
    if task.kind in MULTI_TURN:
        as_read = check_sources(task, [rebuilt_source(task, steps)], as_read=True)[0]
        return Difference.AS_READ if as_read == ours else None
    return _explain_single_turn(task, steps[0][0], ours=ours) if task.answers and steps[0] else None


def _explain_single_turn(task: Task, calls: Sequence[ToolCall], *, ours: bool) -> Difference | None:
    if ours:
        ordered = _in_order(task, calls)
        if _upstream(task, ordered):
            return Difference.ORDER_FREE
        calls = ordered
    aligned = list(_aligned_calls(task, calls))
    leaves = [leaf for _, found in aligned for leaf in found]
    as_parameters = [_upstream_takes(leaf) for leaf in leaves]
    if not leaves or as_parameters != [_we_take(leaf) for leaf in leaves] or all(as_parameters) != ours:
        return None
    rewritten = [call for call, _ in aligned]
    is_right = _upstream(task, rewritten) and _ours(task, rewritten) is not None
    return Difference.ONE_TABLE if is_right else None


def _ours(task: Task, calls: Sequence[ToolCall]) -> list[int] | None:
    functions = {name: _parameters(task, name) for accepted in task.answers for name in accepted}
    return assign_calls(calls, answers=task.answers, functions=functions, language=language(task.kind), mode="lenient")


def _in_order(task: Task, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls in the order of the answers that they fit."""
    return [calls[index] for index in _ours(task, calls) or range(len(calls))]


def _upstream(task: Task, calls: Sequence[ToolCall]) -> bool:
    return check_single_turn(
        calls,
        functions=described_functions(task.kind, None)[task.id],
        accepted=task.answers,
        category=task.kind,
        language=language(task.kind),
    )


def _upstream_takes(leaf: Leaf) -> bool:
    """Upstream's verdict on a value as the one parameter of a function."""
    name = {"number": "float", "object": "dict"}.get(leaf.kind, leaf.kind)
    schema: JSON = {"type": "dict", "properties": {"x": {"type": name}}, "required": ["x"]}
    return check_single_turn(
        [ToolCall(name="f", arguments={"x": leaf.value})],
        functions=[{"name": "f", "parameters": schema}],
        accepted=[{"f": {"x": [leaf.accepted]}}],
        category="simple_python",
        language="python",
    )


def _we_take(leaf: Leaf) -> bool:
    return is_accepted(leaf.value, [leaf.accepted], schema={"type": leaf.kind}, mode="lenient")


def _parameters(task: Task, name: str) -> Mapping[str, JSON]:
    for function in described_functions(task.kind, None)[task.id]:
        if isinstance(function, dict) and function["name"] == name and isinstance(function["parameters"], dict):
            return function["parameters"]
    return {}


def _aligned_calls(task: Task, calls: Sequence[ToolCall]) -> Iterator[tuple[ToolCall, list[Leaf]]]:
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
    schemas, spoken = _inner(_parameters(task, call.name), "properties"), language(task.kind)
    arguments, leaves = dict(call.arguments), list[Leaf]()
    for name, value in call.arguments.items():
        schema, options = _inner(schemas, name), accepted.get(name)
        try:
            literal = read_literal(value, schema=schema, language=spoken)
        except ValueError:
            return None
        found = (_align(literal, option, schema) for option in (options if isinstance(options, list) else []))
        first = next((each for each in found if each is not None), None)
        if first is None:
            return None
        if isinstance(literal, list | dict) and first[1]:
            arguments[name] = first[0] if spoken == "python" else json.dumps(first[0])
            leaves += first[1]
    return replace(call, arguments=arguments), leaves


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
        leaf = Leaf(kind=kind(schema) or kind_of(option), value=value, accepted=option)
        return option, [] if is_same else [leaf]
    return None


def _align_entries(
    value: Mapping[str, JSON], option: Mapping[str, JSON], properties: Mapping[str, JSON]
) -> tuple[JSON, list[Leaf]] | None:
    entries, leaves = dict[str, JSON](), list[Leaf]()
    for key, item in value.items():
        wanted = option.get(key)
        options = wanted if isinstance(wanted, list) else [wanted]
        found = (_align(item, each, _inner(properties, key)) for each in options)
        first = next((each for each in found if each is not None), None)
        if first is None:
            return None
        entries[key] = first[0]
        leaves += first[1]
    return entries, leaves


def _inner(schema: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    found = schema.get(name)
    return found if isinstance(found, dict) else {}
