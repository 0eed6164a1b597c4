"""What our grader means to do otherwise than BFCL's checkers, each with the rule that proves it of one answer.

A disagreement counts as intended only where upstream itself, asked about the same answer in another form that its
differing treatment should not tell apart, gives our verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from streakline.evaluation.bfcl_parity_leaves import Leaf, align_calls, parameters_of
from streakline.evaluation.bfcl_parity_sources import effect_free_source, literal_source, upstream_verdicts
from streakline.rewards.bfcl.official import described_functions
from streakline.rewards.bfcl.single_turn import assign_calls, is_accepted
from streakline.rewards.bfcl.upstream import check_single_turn
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
    REFUSED = "refused calls"
    """Upstream runs calls that the environment refuses: against the schema, before the tool is in sight, too costly."""
    AS_READ = "results as they are read"
    """Upstream compares numbers of arbitrary precision in more digits than the call asked for."""
    BARE_TEXT = "accepted texts outside lists"
    """Upstream reads an accepted text of a dictionary that stands in no list as a list of its characters."""


MEANING: Mapping[Difference, str] = {
    Difference.FRESH_STATE: "Each grading has worlds of its own. Proof: so does upstream, asked with new ones.",
    Difference.ORDER_FREE: "Calls and answers are matched as a whole. Proof: upstream accepts the calls in our order.",
    Difference.ONE_TABLE: "Types and texts count alike at every depth. Proof: upstream judges the very same values as "
    "we do where each is a parameter, and the answer as we do once they are written as accepted.",
    Difference.LITERALS_ONLY: "Arguments are values, not code. Proof: upstream rejects the same text as a literal.",
    Difference.REFUSED: "Calls that the environment refuses do nothing. Proof: upstream judges as we do once they, "
    "and no others, are replaced by one without effect.",
    Difference.AS_READ: "Results compare as the policy read them. Proof: so they do upstream, written in that form.",
    Difference.BARE_TEXT: "An accepted text stands for itself. Proof: upstream judges as we do once it is in a list.",
}


def explain(task: Task, steps: Sequence[Sequence[Sequence[ToolCall]]], *, ours: bool) -> Difference | None:
    """Prove which difference a disagreement is; None = it is none that is meant."""
    if task.kind in MULTI_TURN:
        return _explain_multi_turn(task, steps, ours=ours)
    return _explain_single_turn(task, steps[0][0], ours=ours) if task.answers and steps[0] else None


def _explain_multi_turn(task: Task, steps: Sequence[Sequence[Sequence[ToolCall]]], *, ours: bool) -> Difference | None:
    if upstream_verdicts(task, effect_free_source(task, steps)) == [ours]:
        return Difference.REFUSED
    return Difference.AS_READ if upstream_verdicts(task, literal_source(steps), as_read=True) == [ours] else None


def _explain_single_turn(task: Task, calls: Sequence[ToolCall], *, ours: bool) -> Difference | None:
    in_lists = [{name: _in_lists(accepted) for name, accepted in answer.items()} for answer in task.answers]
    if in_lists != list(task.answers) and _upstream(task, calls, accepted=in_lists) == ours:
        return Difference.BARE_TEXT
    if ours:
        ordered = _in_order(task, calls)
        if _upstream(task, ordered):
            return Difference.ORDER_FREE
        calls = ordered
    aligned = list(align_calls(task, calls))
    leaves = [leaf for _, found in aligned for leaf in found]
    as_parameters = [_upstream_takes(leaf) for leaf in leaves]
    if not leaves or as_parameters != [_we_take(leaf) for leaf in leaves] or all(as_parameters) != ours:
        return None
    rewritten = [call for call, _ in aligned]
    is_right = _upstream(task, rewritten) and _ours(task, rewritten) is not None
    return Difference.ONE_TABLE if is_right else None


def _ours(task: Task, calls: Sequence[ToolCall]) -> list[int] | None:
    functions = {name: parameters_of(task, name) for accepted in task.answers for name in accepted}
    return assign_calls(calls, answers=task.answers, functions=functions, language=language(task.kind), mode="lenient")


def _in_order(task: Task, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls in the order of the answers that they fit."""
    return [calls[index] for index in _ours(task, calls) or range(len(calls))]


def _upstream(task: Task, calls: Sequence[ToolCall], *, accepted: Sequence[Mapping[str, JSON]] | None = None) -> bool:
    return check_single_turn(
        calls,
        functions=described_functions(task.kind, None)[task.id],
        accepted=task.answers if accepted is None else accepted,
        category=task.kind,
        language=language(task.kind),
    )


def _upstream_takes(leaf: Leaf) -> bool:
    """Upstream's verdict on a value as the one parameter of a function."""
    name = {"number": "float", "object": "dict"}.get(leaf.kind, leaf.kind)
    schema: JSON = {"type": "dict", "properties": {"x": {**leaf.schema, "type": name}}, "required": []}
    return check_single_turn(
        [ToolCall(name="f", arguments={"x": leaf.value})],
        functions=[{"name": "f", "parameters": schema}],
        accepted=[{"f": {"x": list(leaf.options)}}],
        category="simple_python",
        language="python",
    )


def _we_take(leaf: Leaf) -> bool:
    return is_accepted(leaf.value, leaf.options, schema=leaf.schema, mode="lenient")


def _in_lists(accepted: JSON) -> JSON:
    """Accepted values with each text that is an entry of a dictionary, but in no list, in one. It may be left out."""
    if isinstance(accepted, list):
        return [_in_lists(option) for option in accepted]
    if isinstance(accepted, dict):
        return {key: [entry, ""] if isinstance(entry, str) else _in_lists(entry) for key, entry in accepted.items()}
    return accepted
