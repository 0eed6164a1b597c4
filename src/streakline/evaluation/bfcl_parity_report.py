"""The comparison of our grades with BFCL's as tables, and as figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from streakline.evaluation.bfcl_parity import CategoryParity, GradedAnswer
from streakline.evaluation.bfcl_parity_rules import MEANING, Difference
from streakline.evaluation.tables import markdown_table
from streakline.tasks.bfcl_source import MULTI_TURN
from streakline.types import JSON

_SHOWN = 600
"""Characters of an answer in the report."""


def figures(found: Sequence[CategoryParity]) -> dict[str, JSON]:
    """`agreement_min`, the lowest agreement of a category, and how often each meant difference was met."""
    met = _met(found)
    return {
        "agreement_min": min(each.agreement for each in found),
        "intended_differences": {name.value: met[name] for name in Difference},
        "answers": sum(each.answers for each in found),
        "changed_right": {each.category: round(each.changed_right / max(1, each.changed), 4) for each in found},
        "unexplained": sum(len(each.unexplained) for each in found),
    }


def render_parity(found: Sequence[CategoryParity]) -> str:
    """The tables and examples that a person reads; the tables are valid Markdown."""
    unexplained = [graded for each in found for graded in each.unexplained]
    parts = [
        "Answers by category. `agree` is the share of agreements among those that no intended difference decides, "
        "`changed` that of the changed answers that upstream calls right.",
        _answer_table(found),
        "Disagreements by what they were proven to be; `other` = nothing was proven.",
        _difference_table(found),
        "Gold answers that are right, first without and then with the excluded tasks.",
        _gold_table(found),
        "Intended differences",
        *(_example(name, found) for name in Difference),
        f"Disagreements that no rule explains: {len(unexplained) or 'none'}",
        *map(_answer, unexplained[:20]),
    ]
    return "\n\n".join(parts) + "\n"


def _met(found: Sequence[CategoryParity]) -> Counter[Difference]:
    return sum((each.explained for each in found), Counter[Difference]())


def _answer_table(found: Sequence[CategoryParity]) -> str:
    rows = [
        (
            each.category,
            str(each.answers),
            *(f"{each.right[name] / max(1, each.answers):.1%}" for name in ("upstream", "lenient", "strict")),
            f"{each.changed_right / max(1, each.changed):.1%}",
            f"{each.agreement:.4%}",
        )
        for each in found
    ]
    return markdown_table(("category", "answers", "upstream", "lenient", "strict", "changed", "agree"), rows)


def _difference_table(found: Sequence[CategoryParity]) -> str:
    rows = [
        (each.category, *(str(each.explained[name]) for name in Difference), str(len(each.unexplained)))
        for each in found
    ]
    return markdown_table(("category", *(name.value.split()[0] for name in Difference), "other"), rows)


def _gold_table(found: Sequence[CategoryParity]) -> str:
    judges = ("upstream", "lenient", "strict")
    rows = [
        (
            each.category,
            str(each.gold),
            *(str(each.gold_right[name]) for name in judges),
            str(each.gold + each.excluded),
            *(str(each.gold_right[name] + each.excluded_right[name]) for name in judges),
        )
        for each in found
        if each.gold
    ]
    return markdown_table(("category", "tasks", *judges, "all", *judges), rows)


def _example(name: Difference, found: Sequence[CategoryParity]) -> str:
    shown = f"**{name}**, met {_met(found)[name]} times. {MEANING[name]}"
    examples = [each.examples[name] for each in found if name in each.examples]
    return f"{shown}\n\n{_answer(min(examples, key=lambda each: len(repr(each.steps))))}" if examples else shown


def _answer(graded: GradedAnswer) -> str:
    task, verdicts = graded.task, graded.verdicts
    said = {True: "right", False: "wrong"}
    lines = [
        f"    {task.id} ({graded.change}): upstream {said[verdicts['upstream']]}, lenient {said[verdicts['lenient']]}"
    ]
    calls = [[[[call.name, dict(call.arguments)] for call in step] for step in turn] for turn in graded.steps]
    if task.kind in MULTI_TURN:
        lines += [f"    user turn {index}: {_text(turn)}" for index, turn in enumerate(calls) if turn]
    else:
        lines += [f"    answer: {_text(calls[0])}", f"    accepted: {_text([dict(item) for item in task.answers])}"]
    return "\n".join(lines)


def _text(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
