"""BFCL's official checkers, called so that nothing a model wrote is evaluated and nothing stays behind.

Upstream evaluates calls as Python source and keeps the worlds in module globals under the model's name. Here the source
is rebuilt from parsed names and literals, a call that must not run becomes a call of a name that doesn't exist (an
error without effect, as upstream gives for one it can't parse), and every check has worlds of its own that are removed
afterwards. The single-turn checker's module is loaded apart, with a stand-in for the table of hosted models, whose
import would need every vendor's SDK.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from types import ModuleType, SimpleNamespace

from streakline.environment.clock import frozen_clock, parse_clock
from streakline.environment.live import call_fault
from streakline.environment.simulators import INSTALL_COMMAND, bfcl_folder, tool_functions
from streakline.errors import MissingDependencyError
from streakline.types import JSON, Task, ToolCall, ToolSchema

_MODEL_TABLE = "bfcl_eval.constants.model_config"
_AST_CHECKER = "bfcl_eval.eval_checker.ast_eval.ast_checker"
_MULTI_TURN = "bfcl_eval.eval_checker.multi_turn_eval"

NO_TOOL = "no_such_tool()"
"""Stands for a call that must not run: upstream answers with an error and no effect."""

_numbers = itertools.count()
_import_lock = threading.Lock()


def check_single_turn(
    calls: Sequence[ToolCall],
    *,
    functions: Sequence[JSON],
    accepted: Sequence[Mapping[str, JSON]],
    category: str,
    language: str,
) -> bool:
    """Ask upstream's syntax-tree checker whether the calls of one response are right.

    `functions` are the source's descriptions, with the source's types; `accepted` has an item a call, `{function:
    {parameter: [values]}}`; the category decides how many calls there are and whether their order matters.
    """
    checker, languages = _ast_checker()
    try:
        output = [{call.name: dict(call.arguments)} for call in calls]
        verdict = checker(list(functions), output, list(accepted), languages[language.upper()], category, "streakline")
    except Exception:  # upstream has no answer for some malformed values, which are thereby wrong
        return False
    return bool(verdict["valid"])


def check_multi_turn(task: Task, steps: Sequence[Sequence[Sequence[ToolCall]]]) -> bool:
    """Ask upstream's multi-turn checker whether [user turns][assistant turns with calls][calls] are right."""
    return check_sources(task, [rebuilt_source(task, steps)])[0]


def check_sources(
    task: Task,
    answers: Sequence[list[list[list[str]]]],
    *,
    gold: Sequence[list[str]] | None = None,
    as_read: bool = False,
) -> list[bool]:
    """Ask upstream's multi-turn checker about answers to one task, one after the other in the worlds that it keeps.

    Upstream evaluates the source that it is given, which must be that of `rebuilt_source` or one that can be trusted.
    `gold` is the source of the gold calls by user turn; None = rebuilt like an answer's. With `as_read` it compares
    results as a policy reads them here, for comparisons in one thread alone.
    """
    for name in task.simulators:
        tool_functions(name)  # gives the simulators' modules their frozen clock before upstream imports them
    checker, names = _multi_turn_checker()
    entry = {
        "id": task.id.rpartition("/")[2],
        "initial_config": dict(task.initial_state),
        "involved_classes": list(task.simulators),
    }
    if gold is None:
        gold = [[_source(call) for step in user_turn for call in step] for user_turn in task.gold]

    def is_valid(source: list[list[list[str]]], model: str) -> bool:
        try:
            return bool(checker(source, list(gold), entry, task.kind, model)["valid"])
        except Exception:  # such as a directory copied into itself, whose comparison never ends
            return False

    with frozen_clock(parse_clock(task.clock)), _worlds_apart(names, as_read=as_read) as model:
        return [is_valid(source, model) for source in answers]


@contextmanager
def _worlds_apart(names: dict[str, object], *, as_read: bool) -> Iterator[str]:
    """Give a model's name of its own, whose worlds leave upstream's globals afterwards."""
    model = f"streakline_{next(_numbers)}_"
    plain = names["json"]
    try:
        if as_read:  # upstream falls back on `repr` for what is no JSON, such as numbers of arbitrary precision
            names["json"] = SimpleNamespace(dumps=partial(json.dumps, default=str))
        yield model
    finally:
        if as_read:
            names["json"] = plain
        for name in [name for name in list(names) if name.startswith(model)]:
            del names[name]


def rebuilt_source(task: Task, steps: Sequence[Sequence[Sequence[ToolCall]]]) -> list[list[list[str]]]:
    """Write calls as the Python source that upstream evaluates: known names, literal arguments, nothing else.

    The nesting stays. Calls that the environment refused are replaced by one that has no effect.
    """
    source = []
    for index, user_turn in enumerate(steps):
        visible = task.visible_tools(index)
        source.append(
            [[NO_TOOL if is_refused(call, visible) else _source(call) for call in step] for step in user_turn]
        )
    return source


def is_refused(call: ToolCall, visible: Mapping[str, ToolSchema]) -> bool:
    """Whether the environment would not run a call where these tools are in sight."""
    try:
        return bool(call_fault(call, visible=visible))
    except (RecursionError, ValueError):  # too deep to go through, or an integer too long to write out
        return True


def _source(call: ToolCall) -> str:
    """Source of a call whose name is known to be a tool's.

    Upstream rewrites every `name(` by pattern, inside string literals too, so parentheses are written as escapes there.
    """
    try:
        arguments = repr(dict(call.arguments)).replace("(", "\\x28")
    except (RecursionError, ValueError):  # see `is_refused`
        return NO_TOOL
    return f"{call.name}(**{arguments})"


@cache
def _ast_checker() -> tuple[Callable[..., dict[str, object]], Mapping[str, object]]:
    bfcl_folder()
    with _import_lock:
        stand_in = ModuleType(_MODEL_TABLE)
        vars(stand_in)["MODEL_CONFIG_MAPPING"] = _AnyModel()
        real = sys.modules.get(_MODEL_TABLE)
        sys.modules[_MODEL_TABLE] = stand_in
        try:
            names = vars(_private_copy(_AST_CHECKER))
        finally:
            del sys.modules[_MODEL_TABLE]
            if real is not None:
                sys.modules[_MODEL_TABLE] = real
    languages = {language.name: language for language in names["Language"]}
    return names["ast_checker"], languages


class _AnyModel(dict[str, SimpleNamespace]):
    """Stands for the table of models: whichever is asked for keeps the dots in function names."""

    def __missing__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(underscore_to_dot=False)


def _private_copy(name: str) -> ModuleType:
    """Import a module without entering it in `sys.modules`, where another user may want the unchanged one."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise MissingDependencyError(f"Expected {name} in bfcl-eval, but got none: run `{INSTALL_COMMAND}`")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _multi_turn_checker() -> tuple[Callable[..., dict[str, object]], dict[str, object]]:
    """The checker, and the globals of the module in which it keeps its worlds."""
    checker = importlib.import_module(f"{_MULTI_TURN}.multi_turn_checker")
    worlds = importlib.import_module(f"{_MULTI_TURN}.multi_turn_utils")
    return vars(checker)["multi_turn_checker"], vars(worlds)
