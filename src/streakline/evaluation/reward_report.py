"""The ends of a run as plain text: which trajectories got most and least, and why."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streakline.evaluation.reward_choice import Ranking
from streakline.evaluation.reward_reasons import Share, best_values, number, reason, summarise
from streakline.evaluation.reward_rows import ResultNote, ScoredRow
from streakline.evaluation.tables import markdown_table
from streakline.types import Message, Role, ToolCall

_WIDTH: Final = 100
_MAX_TEXT: Final = 240
_UNSCORED_SHOWN: Final = 20
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, marks of direction and of no width, lone surrogates: a model may write them to mislead a reader
or a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What is shown of a run."""

    title: str
    """Name of the run."""
    files: tuple[str, ...]
    config_digest: str
    """SHA-256 of the run's configuration; empty = there is none."""
    rows: tuple[ScoredRow, ...]
    """All trajectories that were chosen from."""
    ranking: Ranking
    sort: str
    """`reward`, or the term that decides what is high."""
    faults: tuple[str, ...]
    """What was skipped, a sentence each."""

    @property
    def best(self) -> Mapping[str, float]:
        """Best value of each term."""
        return best_values(self.rows)

    @property
    def summary(self) -> Mapping[str, Mapping[str, Share]]:
        """How often what occurs."""
        return summarise(self.rows)

    @property
    def sections(self) -> Mapping[str, tuple[ScoredRow, ...]]:
        """Title -> the rows below it; sections without rows are left out."""
        named = {
            f"Highest by {self.sort}": self.ranking.highest,
            f"Lowest by {self.sort}": self.ranking.lowest,
            f"Without a value of {self.sort}": self.ranking.unscored[:_UNSCORED_SHOWN],
        }
        return {title: rows for title, rows in named.items() if rows}

    @property
    def facts(self) -> tuple[str, ...]:
        """The head of the report, a line each."""
        tasks, kinds = ({row.task_id for row in self.rows}, {row.kind for row in self.rows})
        missing = {words: sum(words in row.missing for row in self.rows) for row in self.rows for words in row.missing}
        unscored = len(self.ranking.unscored)
        return (
            f"{len(self.rows)} trajectories of {len(tasks)} tasks in {len(kinds)} kinds, {unscored} of them unscored"
            if self.sort == "reward"
            else f"{len(self.rows)} trajectories of {len(tasks)} tasks, {unscored} of them without `{self.sort}`",
            f"from {', '.join(self.files)}",
            *((f"configuration {self.config_digest[:12]}",) if self.config_digest else ()),
            *(f"{count} rows do not hold {words}: an earlier version wrote them" for words, count in missing.items()),
            *self.faults,
        )


def printable(text: str, *, limit: int | None = None) -> str:
    r"""Text with escapes in place of what does not show, cut to `limit` characters with a note of how many are gone.

    Example:
        >>> printable("a\x1b[2J\u202eb", limit=100)
        'a\\x1b[2J\\u202eb'
    """
    left_out = 0 if limit is None else max(0, len(text) - limit)
    kept = _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text[: len(text) - left_out])
    return f"{kept} [... {left_out} characters]" if left_out else kept


def signature(call: ToolCall) -> str:
    """A call as a line of code."""
    arguments = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(arguments)})"


def result_words(note: ResultNote | None) -> tuple[str, ...]:
    """Tier with similarity, then flags of a result; empty = nothing is known."""
    if note is None:
        return ()
    close = f" {number(note.similarity)}" if note.tier not in ("live", "exact", "miss") else ""
    flags = (word for word, is_so in (("error", note.is_error), ("shortened", note.truncated)) if is_so)
    return (f"{note.tier}{close}", *flags)


def turn_words(row: ScoredRow, place: int) -> tuple[str, ...]:
    """What is odd about an assistant turn."""
    note = row.turns.get(place)
    if note is None:
        return ()
    malformed = f"{note.malformed_calls} call{'s' if note.malformed_calls > 1 else ''} could not be read"
    odd = {
        "cut off": note.truncated,
        malformed: bool(note.malformed_calls),
        "thinking left open": note.closed_thinking,
        "not trained": not note.trained,
    }
    return tuple(word for word, is_so in odd.items() if is_so)


def render_text(shown: Inspection) -> str:
    """The whole report, readable at 100 columns."""
    parts = [printable(shown.title), *(_line("  ", fact) for fact in shown.facts)]
    parts += ["", "By what trajectories have in common", "", _table(shown.summary)]
    for title, rows in shown.sections.items():
        parts += ["", title]
        brief = title.startswith("Without")
        for place, row in enumerate(rows, 1):
            shorter = (*_head(row, place=place, shown=shown), *_notes(row))
            parts += ["", *(shorter if brief else _episode(row, place=place, shown=shown))]
    hidden = len(shown.ranking.unscored) - _UNSCORED_SHOWN
    return "\n".join([*parts, *([f"   and {hidden} more"] if hidden > 0 else [])]) + "\n"


def _table(summary: Mapping[str, Mapping[str, Share]]) -> str:
    rows: list[tuple[str, ...]] = []
    for question, shares in summary.items():
        rows += [
            (f"{question}: {printable(name, limit=40)}", str(one.count), f"{one.share:.1%}", number(one.mean_reward))
            for name, one in shares.items()
        ]
    return markdown_table(("", "trajectories", "share", "mean reward"), rows)


def _head(row: ScoredRow, *, place: int, shown: Inspection) -> Iterator[str]:
    who = ", ".join(filter(None, (row.kind, row.decoding, f"member {row.group_member}", row.where)))
    value = "" if shown.sort == "reward" else f", {shown.sort} {number(row.value(shown.sort))}"
    yield _line(f"{place:2}. ", f"reward {number(row.reward)}{value}: {row.task_id} ({who})")
    yield _line("    why     ", reason(row, best=shown.best))


def _episode(row: ScoredRow, *, place: int, shown: Inspection) -> Iterator[str]:
    yield from _head(row, place=place, shown=shown)
    yield _line("    terms   ", ", ".join(f"{name} {number(value)}" for name, value in row.terms.items()))
    yield from _notes(row)
    for at, message in enumerate(row.messages):
        yield from _message(row, at, message)


def _notes(row: ScoredRow) -> Iterator[str]:
    return (_line("    note    ", f"{name}: {text}") for name, text in row.notes.items())


def _message(row: ScoredRow, at: int, message: Message) -> Iterator[str]:
    if message.role is not Role.ASSISTANT:
        words = result_words(row.results.get(at))
        name = "result" if message.role is Role.TOOL else message.role.value
        yield _line(f"    {name:8}", f"[{', '.join(words)}] {message.content}" if words else message.content)
        return
    if message.thinking:
        yield _line("    thinks  ", message.thinking)
    yield from (_line("    calls   ", signature(call)) for call in message.tool_calls)
    if message.content:
        yield _line("    says    ", message.content)
    if odd := turn_words(row, at):
        yield _line("    turn    ", ", ".join(odd))


def _line(label: str, text: str) -> str:
    """One labelled paragraph of at most some 240 characters, the lines below the first indented."""
    flat = printable(" ".join(text[: 4 * _MAX_TEXT].split()), limit=_MAX_TEXT)
    if len(text) > 4 * _MAX_TEXT:
        flat = f"{flat.partition(' [...')[0]} [... {len(text) - _MAX_TEXT} characters]"
    wrapped: Sequence[str] = textwrap.wrap(
        flat, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False
    )
    return "\n".join(wrapped) or label.rstrip()
