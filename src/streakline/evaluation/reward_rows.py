"""Reads the trajectories of a run with their rewards, written by this version or an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streakline.data.conversations import read_messages
from streakline.data.jsonl import parse_object
from streakline.errors import DataError
from streakline.evaluation.reward_fields import Fields
from streakline.types import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultNote:
    """Where one result came from."""

    tier: str
    similarity: float
    is_error: bool
    truncated: bool
    entry_id: str
    content: str
    """Text of the result; empty where it stands in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNote:
    """What the message of an assistant turn leaves out."""

    user_turn: int
    sample: int
    truncated: bool
    trained: bool
    malformed_calls: int
    closed_thinking: bool
    results: tuple[ResultNote, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of tokens as text, all of them trained or none."""

    text: str
    trained: bool
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """One episode as a run wrote it down."""

    where: str
    """File and line."""
    task_id: str
    kind: str
    group_member: int
    decoding: str
    """`sampled` or `greedy`; empty where the row does not say."""
    reward: float | None
    """Combined reward; None = unscored."""
    terms: Mapping[str, float | None]
    """Score by reward term; None = that one gave none."""
    notes: Mapping[str, str]
    """What a term says of its score; rows of earlier versions hold none."""
    termination: str
    detail: str
    tier: str
    """Worst tier of its results."""
    num_tokens: int
    untrained_turns: int
    messages: tuple[Message, ...]
    turns: Mapping[int, TurnNote]
    """Index of an assistant message -> what it leaves out."""
    results: Mapping[int, ResultNote]
    """Index of a tool message -> where it came from."""
    samples: tuple[tuple[Segment, ...], ...]
    missing: tuple[str, ...]
    """What the row does not hold, in words; rows of earlier versions hold neither turns nor tokens."""

    def value(self, name: str) -> float | None:
        """The combined reward by `reward`, else the score of a term; None = unscored, or it has no such term."""
        return self.reward if name == "reward" else self.terms.get(name)


def read_scored(paths: Iterable[Path]) -> tuple[list[ScoredRow], list[str]]:
    """Read all rows; gives also one sentence for each malformed line, which is skipped.

    Raises:
        DataError: If a file can't be read, or no line holds an episode.
    """
    rows, faults = [], []
    for path in paths:
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        try:
                            rows.append(_read_row(line, where=f"{path.name}, line {number}"))
                        except DataError as error:
                            faults.append(str(error))
        except OSError as error:
            raise DataError(f"Expected a readable file at {path}, but got: {error.strerror or error}") from error
    if not rows:
        raise DataError(f"Expected trajectories, but got none{f': {faults[0]}' if faults else ''}")
    return rows, faults


def _read_row(line: bytes, *, where: str) -> ScoredRow:
    row = Fields(parse_object(line, where=where), where)
    messages = read_messages(row.values.get("messages"), where=where)
    turns = [(one.place("message", messages), _turn(one), one.objects("results")) for one in row.objects("turns")]
    absent = {"turns": "tiers, similarities and malformed calls", "samples": "the tokens and which are trained"}
    return ScoredRow(
        where=where,
        task_id=row.text("task_id"),
        kind=row.text("kind"),
        group_member=int(row.number("group_member") or 0),
        decoding=row.text("decoding"),
        reward=row.number("reward"),
        terms=row.numbers("reward_terms"),
        notes=row.texts("reward_notes"),
        termination=row.text("termination") or "unknown",
        detail=row.text("detail"),
        tier=row.text("tier") or "unknown",
        num_tokens=int(row.number("num_tokens") or 0),
        untrained_turns=int(row.number("untrained_turns") or 0),
        messages=messages,
        turns={place: note for place, note, _ in turns if place is not None},
        results={
            place: _result(result)
            for _, _, results in turns
            for result in results
            if (place := result.place("message", messages)) is not None
        },
        samples=tuple(map(_segments, row.lists("samples"))),
        missing=tuple(words for name, words in absent.items() if name not in row.values),
    )


def _turn(row: Fields) -> TurnNote:
    return TurnNote(
        user_turn=int(row.number("user_turn") or 0),
        sample=int(row.number("sample") or 0),
        truncated=row.flag("truncated"),
        trained=row.flag("trained"),
        malformed_calls=int(row.number("malformed_calls") or 0),
        closed_thinking=row.flag("closed_thinking"),
        results=tuple(map(_result, row.objects("results"))),
    )


def _result(row: Fields) -> ResultNote:
    return ResultNote(
        tier=row.text("tier") or "unknown",
        similarity=row.number("similarity") or 0.0,
        is_error=row.flag("is_error"),
        truncated=row.flag("truncated"),
        entry_id=row.text("entry_id"),
        content=row.text("content"),
    )


def _segments(rows: Sequence[Fields]) -> tuple[Segment, ...]:
    return tuple(
        Segment(text=row.text("text"), trained=row.flag("trained"), num_tokens=int(row.number("num_tokens") or 0))
        for row in rows
    )
