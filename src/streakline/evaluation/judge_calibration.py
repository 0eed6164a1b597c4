"""A judge beside people: how far its scores are those that they gave to the same answers.

One labelled answer a line, as a conversation or in short::

    {"request": "...", "answer": "...", "reference": "...", "label": 4}
    {"task_id": "a/1", "messages": [...], "references": ["..."], "label": 4}

`messages` are in OpenAI's format (`data/conversations.py`); what would have been right may be left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from streakline.data.conversations import read_conversation
from streakline.data.jsonl import read_jsonl
from streakline.errors import DataError
from streakline.evaluation.intervals import Interval, mean_interval, wilson
from streakline.evaluation.tables import markdown_table
from streakline.rewards.judge.agreement import cohen_kappa, krippendorff_alpha
from streakline.rewards.judge.base import MAX_SCORE, Judge
from streakline.rewards.judge.case import JudgeCase, conversation_case
from streakline.rewards.judge.panel import JudgePanel
from streakline.types import JSON

_LABELS = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledCase:
    """An answer, and the score that a person gave it."""

    case: JudgeCase
    """What a judge is shown."""
    label: int
    """0 ... 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAgreement:
    """How two raters scored the answers that both scored. Scores between whole numbers are rounded, halves up."""

    count: int
    """Answers that both scored."""
    unscored: int
    """Answers that one of them did not."""
    exact: Interval | None
    """Share of equal scores; None = there is no answer that both scored."""
    within_one: Interval | None
    """Share of scores that differ by 1 at most."""
    kappa: float | None
    """Cohen's kappa; None = can't be said."""
    weighted_kappa: float | None
    """With quadratic weights."""
    alpha: float | None
    """Krippendorff's alpha, ordinal."""
    difference: Interval | None
    """Mean of second - first, before rounding; None = fewer than two answers."""
    confusion: tuple[tuple[int, ...], ...]
    """[score of the first][score of the second] answers."""


def read_labels(path: Path) -> tuple[LabelledCase, ...]:
    """Read labelled answers.

    Raises:
        DataError: The file is missing or empty, or a row is malformed; it names the line.
    """
    labelled = tuple(_labelled(row, where=f"{path}, line {number}") for number, row in read_jsonl(path))
    if not labelled:
        raise DataError(f"Expected {path} to hold at least one labelled answer, but got none")
    return labelled


def judge_labels(judge: Judge, labelled: Sequence[LabelledCase]) -> dict[str, list[float | None]]:
    """Scores of each answer by rater: the labels first, then the judge, or each judge of a panel and the panel.

    Raises:
        JudgeOutageError: The judge is out.
    """
    judgments = judge.judge_all([one.case for one in labelled])
    ratings: dict[str, list[float | None]] = {_LABELS: [float(one.label) for one in labelled]}
    if isinstance(judge, JudgePanel):
        columns = zip(*(judgment.parts for judgment in judgments), strict=True)
        for number, (part, column) in enumerate(zip(judge.judges, columns, strict=True), 1):
            ratings[f"{number}. {part.name}"] = list(column)
    ratings[judge.name] = [judgment.score for judgment in judgments]
    return ratings


def compare_raters(first: Sequence[float | None], second: Sequence[float | None]) -> RaterAgreement:
    """Compare two columns of scores of the same answers."""
    pairs = [(one, other) for one, other in zip(first, second, strict=True) if one is not None and other is not None]
    rounded = [(_rounded(one), _rounded(other)) for one, other in pairs]
    left, right = [one for one, _ in rounded], [other for _, other in rounded]
    confusion = [[0] * (MAX_SCORE + 1) for _ in range(MAX_SCORE + 1)]
    for one, other in rounded:
        confusion[one][other] += 1
    gaps = [abs(one - other) for one, other in rounded]
    differences = {str(place): [other - one] for place, (one, other) in enumerate(pairs)}
    count = len(pairs)
    return RaterAgreement(
        count=count,
        unscored=len(first) - count,
        exact=wilson(sum(gap == 0 for gap in gaps), trials=count) if count else None,
        within_one=wilson(sum(gap <= 1 for gap in gaps), trials=count) if count else None,
        kappa=cohen_kappa(left, right),
        weighted_kappa=cohen_kappa(left, right, weights="quadratic"),
        alpha=krippendorff_alpha([left, right]) if count else None,
        difference=mean_interval(differences) if count > 1 else None,
        confusion=tuple(map(tuple, confusion)),
    )


def render_calibration(ratings: Mapping[str, Sequence[float | None]]) -> str:
    """Tables that a person reads: each rater against the labels, raters against each other, confusions."""
    judges = [name for name in ratings if name != _LABELS]
    compared = {name: compare_raters(ratings[_LABELS], ratings[name]) for name in judges}
    sections = ["Against the labels, 95% intervals over answers", _table("judge", compared)]
    parts = judges[:-1]
    if parts:
        between = {f"{a} / {b}": compare_raters(ratings[a], ratings[b]) for a, b in combinations(parts, 2)}
        alpha = krippendorff_alpha([ratings[name] for name in parts])
        sections += [f"Between judges; Krippendorff's alpha of all {_number(alpha)}", _table("judges", between)]
    for name, found in compared.items():
        sections += [f"Confusion of {name}: rows are labels, columns its scores, rounded", _confusion(found)]
    return "\n\n".join(sections) + "\n"


def calibration_json(ratings: Mapping[str, Sequence[float | None]]) -> str:
    """The same against the labels, and all scores, as JSON."""
    compared = {name: asdict(compare_raters(ratings[_LABELS], ratings[name])) for name in ratings if name != _LABELS}
    return json.dumps({"against_labels": compared, "scores": {name: [*ratings[name]] for name in ratings}}, indent=2)


def _labelled(row: Mapping[str, JSON], *, where: str) -> LabelledCase:
    label = row.get("label")
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label <= MAX_SCORE:
        raise DataError(f"Expected `label` to be a whole number of 0 ... {MAX_SCORE} in {where}, but got {label!r}")
    given = row.get("references", row.get("reference"))
    references = given if isinstance(given, list) else [] if given is None else [given]
    if not all(isinstance(text, str) for text in references):
        raise DataError(f"Expected `references` to be texts in {where}, but got {references!r}")
    if "messages" not in row:
        short = (row.get("request"), row.get("answer"))
        if not all(isinstance(text, str) for text in short):
            raise DataError(f"Expected `messages`, or `request` and `answer` as texts, in {where}, but got {short!r}")
        messages = [{"role": role, "content": text} for role, text in zip(("user", "assistant"), short, strict=True)]
        row = {**row, "messages": [*messages]}
    conversation = read_conversation(json.dumps(row), where=where)
    case = conversation_case(conversation.task_id, conversation.messages, references=[str(text) for text in references])
    return LabelledCase(case=case, label=label)


def _table(title: str, compared: Mapping[str, RaterAgreement]) -> str:
    titles = [title, "n", "unscored", "exact", "within one", "kappa", "quadratic", "alpha", "mean difference"]
    rows = [
        [
            name,
            str(found.count),
            str(found.unscored),
            str(found.exact or "-"),
            str(found.within_one or "-"),
            _number(found.kappa),
            _number(found.weighted_kappa),
            _number(found.alpha),
            str(found.difference or "-"),
        ]
        for name, found in compared.items()
    ]
    return markdown_table(titles, rows)


def _confusion(found: RaterAgreement) -> str:
    scores = [str(score) for score in range(MAX_SCORE + 1)]
    return markdown_table(
        ["label", *scores], [[score, *map(str, row)] for score, row in zip(scores, found.confusion, strict=True)]
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _rounded(score: float) -> int:
    return int(score + 0.5)
