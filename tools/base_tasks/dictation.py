"""Requests that dictate calls word for word, over all tools: practice in format and copying."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

from base_tasks.stage import Stage
from base_tasks.tool_arguments import ARGUMENTS, CONSUMERS, READERS
from streakline.tasks.toolworld.catalogue import required_arguments, simulator_of, tool_catalogue
from streakline.tasks.toolworld.kinds import Draft, Kind, Plan
from streakline.tasks.toolworld.requests import REFUSAL
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON, ToolCall

_TOOLS = tuple(ARGUMENTS)
_SHAPES = (
    ("call {tool} with {arguments}", "{name} {value}", " and "),
    ("use {tool}: {arguments}", "{name} = {value}", ", "),
    ("do {tool} where {arguments}", "{name} is {value}", " and "),
    ("take {tool} {arguments}", "{name}: {value}", ", "),
    ("run {tool}({arguments})", "{name}={literal}", ", "),
    ("make the call {tool} {{{arguments}}}", '"{name}": {literal}', ", "),
)
"""How one call is dictated, how each argument, and what stands between two arguments."""
_BARE_SHAPES = ("call {tool}", "use {tool}", "do {tool}", "take {tool}", "run {tool}()", "make the call {tool} {{}}")
"""How one call without arguments is dictated, in the same order."""
_THEN = (", then {next}", ". Then {next}", ". After that {next}", "; next {next}")
"""What precedes a call that is to be made after the one before."""
_ALSO = (" and {next}", ", also {next}", " and also {next}")
"""What precedes a call that is to be made at the same time."""
_RESULTS = ("the result", "what you see", "that value")
"""What stands for a value that is read from the result of the call before."""
_SUPPLIES = ("The {name} is {value}.", "{value}", "Use {value}.", "With {name} {value}.")
"""How an argument that was asked for is given."""


def _dictated(values: Values) -> Draft:
    roll = values.rng.random()
    if roll < 0.08:
        return _incomplete(values)
    if roll < 0.18:
        return _unavailable(values)
    return _chained(values) if roll < 0.45 else _listed(values)


def _listed(values: Values) -> Draft:
    """One to three calls, one after the other or at the same time."""
    stage = Stage(values)
    tools = values.rng.sample(_TOOLS, values.pick((1, 1, 1, 2, 2, 3)))
    calls = [ToolCall(name=tool, arguments=ARGUMENTS[tool](stage)) for tool in tools]
    texts = [_text(call, values) for call in calls]
    if values.pick((True, False)):
        return _draft(stage, texts=[_joined(texts, _ALSO, values)], gold=((tuple(calls),),))
    return _draft(stage, texts=[_joined(texts, _THEN, values)], gold=(tuple((call,) for call in calls),))


def _chained(values: Values) -> Draft:
    """A call whose result holds an argument of the next."""
    stage = Stage(values)
    reader = values.pick(tuple(READERS))
    arguments, value = READERS[reader](stage)
    tool, parameter, others = values.pick(CONSUMERS[reader])
    read = ToolCall(name=reader, arguments=arguments)
    used = ToolCall(name=tool, arguments=_in_order(tool, {**others(stage), parameter: value}))
    texts = [_text(read, values), _text(used, values, stand_in={parameter: values.pick(_RESULTS)})]
    return _draft(stage, texts=[_joined(texts, _THEN, values)], gold=(((read,), (used,)),))


def _incomplete(values: Values) -> Draft:
    """A call with an argument missing: the policy asks for it."""
    stage = Stage(values)
    tool = values.pick(_needy_tools())
    call = ToolCall(name=tool, arguments=ARGUMENTS[tool](stage))
    missing = values.pick(required_arguments(tool_catalogue("short")[tool]))
    given = ToolCall(name=tool, arguments={name: value for name, value in call.arguments.items() if name != missing})
    supply = values.pick(_SUPPLIES).format(name=missing, value=_spoken(call.arguments[missing]))
    texts = [_sentence(_text(given, values)), supply]
    return _draft(stage, texts=texts, gold=((), ((call,),)), replies=(f"Which {missing}?", "Done."))


@cache
def _needy_tools() -> tuple[str, ...]:
    """Tools that can't be called without arguments. Asked late, so that an import needs no benchmark."""
    return tuple(tool for tool in _TOOLS if required_arguments(tool_catalogue("short")[tool]))


def _unavailable(values: Values) -> Draft:
    """A call of a tool that is not there."""
    stage = Stage(values)
    tool = values.pick(_TOOLS)
    call = ToolCall(name=tool, arguments=ARGUMENTS[tool](stage))
    text = _sentence(_text(call, values))
    return Draft(gold=((),), state=stage.state({simulator_of(tool)}), replies=(REFUSAL,), withheld=tool, texts=(text,))


def _draft(stage: Stage, *, texts: Sequence[str], gold: Plan, replies: tuple[str, ...] = ()) -> Draft:
    simulators = {simulator_of(call.name) for steps in gold for calls in steps for call in calls}
    return Draft(gold=gold, state=stage.state(simulators), replies=replies, texts=tuple(texts))


def _text(call: ToolCall, values: Values, *, stand_in: dict[str, str] | None = None) -> str:
    """The call in one of the shapes, with some arguments named by other words."""
    style = int(values.rng.random() * len(_SHAPES))
    if not call.arguments:
        return _BARE_SHAPES[style].format(tool=call.name)
    shape, pair, joint = _SHAPES[style]
    words = stand_in or {}
    pairs = [
        pair.format(name=name, value=words.get(name) or _spoken(value), literal=words.get(name) or json.dumps(value))
        for name, value in call.arguments.items()
    ]
    return shape.format(tool=call.name, arguments=joint.join(pairs))


def _in_order(tool: str, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
    """Arguments in the order of the schema."""
    properties = tool_catalogue("short")[tool].parameters["properties"]
    return {name: arguments[name] for name in properties if name in arguments} if isinstance(properties, dict) else {}


def _spoken(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _joined(texts: Sequence[str], joints: Sequence[str], values: Values) -> str:
    whole = texts[0]
    for text in texts[1:]:
        whole += values.pick(joints).format(next=text)
    return _sentence(whole)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


DICTATED = Kind(name="dictated", draft=_dictated)
"""The kind of all dictated requests."""
