"""A recorded result, and the row that it is stored as.

A row holds JSON as ASCII text alone. Its digest covers all that it says, its checksum the digest and the id, so that a
flipped bit is found when the row is read, never served.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from streakline.cache.canonical import call_key, canonical_text, entry_key, nfc
from streakline.errors import CacheError
from streakline.types import JSON

StoredRow: TypeAlias = tuple[int, bytes, bytes, float, int, str]
"""What `STORED_COLUMNS` selects."""

STORED_COLUMNS = (
    "id, key, state, recorded_at, checksum, "
    "'[' || tool || ',' || arguments || ',' || result || ',' || source || ',' || is_error || ',' || times || ']'"
)
"""One text in place of six columns: fetching and parsing each alone takes longer."""

_decode = json.JSONDecoder().raw_decode  # `json.loads` looks for white space too, which takes as long as parsing.


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """A result to be recorded."""

    tool: str
    """Name of the tool, compared in NFC."""
    arguments: dict[str, JSON]
    """As `canonical_arguments` gives them."""
    result: str
    """What the tool answered. Surrogates that form a pair come back as the character that they stand for."""
    is_error: bool = False
    """Whether the answer is an error."""
    state: bytes = b""
    """Digest of the state that the call met; empty for a pure tool."""
    source: str = ""
    """Where it was recorded, such as an episode's id; empty = unknown."""
    recorded_at: float
    """Unix seconds; of several recordings the newest."""
    count: int = 1
    """How often it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(NewEntry):
    """A recorded result."""

    id: int
    """1 for the first of a store, then on."""


class Row(NamedTuple):
    """An entry as it is stored, but for its id and checksum; the fields are named as the columns."""

    key: bytes
    call: bytes
    tool: str
    arguments: str
    is_error: int
    state: bytes
    source: str
    recorded_at: float
    times: int
    result_digest: bytes
    """[16] of the result and `is_error`: tells apart the results that were recorded under one key."""
    result: str

    @property
    def digest(self) -> int:
        """A 256-bit number that differs when anything in the row does."""
        text = f"[{self.tool},{self.arguments},{self.result},{self.source},{self.is_error},{self.times}]"
        return _digest(self.key, self.state, self.recorded_at, text)


def to_row(entry: NewEntry) -> Row:
    """Encode an entry; raises `CacheError` where it makes no sense or holds what JSON can't."""
    if entry.count < 1 or not math.isfinite(entry.recorded_at):
        raise CacheError(
            f"Expected `count` >= 1 and a finite `recorded_at`, but got {entry.count} and {entry.recorded_at}"
        )
    try:
        arguments = canonical_text(entry.arguments)
    except (TypeError, ValueError) as error:
        raise CacheError(f"Expected `arguments` of {entry.tool!r} to be canonical, but got: {error}") from error
    call, result, is_error = call_key(entry.tool, arguments), json.dumps(entry.result), int(entry.is_error)
    return Row(
        key=entry_key(call, entry.state),
        call=call,
        tool=tool_text(entry.tool),
        arguments=arguments,
        is_error=is_error,
        state=entry.state,
        source=json.dumps(entry.source),
        recorded_at=entry.recorded_at + 0.0,  # A float, and not -0.0, which SQLite doesn't keep.
        times=entry.count,
        result_digest=sha256(f"{is_error}{result}".encode("ascii")).digest()[:16],
        result=result,
    )


def from_row(stored: StoredRow) -> tuple[Entry, int] | None:
    """Decode what was stored, and give the digest that its `Row` had; None = it is damaged."""
    entry_id, key, state, recorded_at, checksum, text = stored
    try:
        digest = _digest(key, state, recorded_at, text)
    except (AttributeError, TypeError, UnicodeError):  # A damaged row may hold values of other types.
        return None
    if row_checksum(digest, entry_id) != checksum:
        return None
    (tool, arguments, result, source, is_error, count), _ = _decode(text)
    entry = Entry(
        id=entry_id,
        tool=tool,
        arguments=arguments,
        result=result,
        is_error=is_error == 1,
        state=state,
        source=source,
        recorded_at=recorded_at,
        count=count,
    )
    return entry, digest


def row_checksum(digest: int, entry_id: int) -> int:
    """Give the 63 bits that a row keeps of its digest, mixed with its id."""
    return (digest >> 193) ^ entry_id


def merged(old: Entry, new: Row) -> Row:
    """Join two recordings of one result, in either order: counts add up, the newest one says when and where."""
    age, source = min((-new.recorded_at, new.source), (-old.recorded_at, json.dumps(old.source)))
    return new._replace(recorded_at=0.0 - age, source=source, times=new.times + old.count)


def tool_text(tool: str) -> str:
    """Write a tool's name as it is stored."""
    return json.dumps(nfc(tool))


def _digest(key: bytes, state: bytes, recorded_at: float, text: str) -> int:
    head = f"{recorded_at!r} {state.hex()} "
    return int.from_bytes(sha256(key + (head + text).encode("ascii")).digest(), "big")
