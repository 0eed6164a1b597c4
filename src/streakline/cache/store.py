"""The store: recorded results in one SQLite file that several processes may write at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from streakline.cache.canonical import canonical_text
from streakline.cache.database import check, connect, damaged, fault, faults_named, read_meta, text_checksum, write_meta
from streakline.cache.entries import STORED_COLUMNS, Row, StoredRow, from_row, merged, row_checksum, to_row, tool_text
from streakline.cache.entries import Entry as Entry
from streakline.cache.entries import NewEntry as NewEntry
from streakline.cache.state import ToolKind, ToolTraits
from streakline.errors import CacheError
from streakline.types import JSON

_MODULUS = 2**256
_PAGE = 1000
_SELECT = f"SELECT {STORED_COLUMNS} FROM entries"  # noqa: S608
_BEST_FIRST = "ORDER BY times DESC, id"
_SAME_RESULT = f"{_SELECT} WHERE key = ? AND result_digest = ?"
_INSERT = (
    f"INSERT INTO entries(id, checksum, {', '.join(Row._fields)}) "  # noqa: S608
    f"VALUES (?, ?{', ?' * len(Row._fields)})"
)
_UPDATE = "UPDATE entries SET times = ?, recorded_at = ?, source = ?, checksum = ? WHERE id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReport:
    """What became of the entries of one `add`."""

    added: int
    """New rows, conflicts among them."""
    duplicates: int
    """Entries whose call, state and result were there: their count was added."""
    conflicts: int
    """New rows whose call and state were there with another result."""


@dataclass(frozen=True, kw_only=True)
class ToolRecord:
    """What is known of a tool."""

    traits: ToolTraits = field(default_factory=ToolTraits)
    """How its results may be reused."""
    parameters: Mapping[str, JSON] | None = None
    """JSON Schema of its arguments; None = unknown."""


@final
class CacheStore:
    """Recorded tool results; `open` makes one, which serves one thread.

    Results are found by the exact key (`canonical.entry_key`), by the call in any state, by id and by tool. The order
    among several is: most often recorded first, then lowest id. Each row is checked when it is read; a damaged one
    raises `CacheError`.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._connection = connection

    @classmethod
    def open(cls, path: Path | str, *, read_only: bool = False) -> Self:
        """Open the cache at `path`, after a check of the whole file; where there is none, make an empty one.

        With `read_only` nothing is made or written, and what others write meanwhile isn't seen.

        Raises:
            CacheError: the file is missing (`read_only`), damaged, of another version, or no cache at all.
        """
        path = Path(path)
        return cls(path, connect(path, read_only=read_only), read_only=read_only)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, entries: Iterable[NewEntry]) -> AddReport:
        """Record entries: all of them, or none where it raises.

        A tool that isn't known is entered as pure and without schema.

        Raises:
            CacheError: an entry can't be stored, the store is read-only, or the file can't be written (disk full).
        """
        rows = [to_row(entry) for entry in entries]
        added = conflicts = 0
        with self._transaction():
            change, next_id = 0, self.last_id + 1
            for row in rows:
                old = self._fetch(_SAME_RESULT, row.key, row.result_digest)
                if old:
                    change += self._count(row, old[0])
                    continue
                conflicts += bool(self._fetch("SELECT 1 FROM entries WHERE key = ? LIMIT 1", row.key))
                change += row.digest
                self._connection.execute(_INSERT, (next_id + added, row_checksum(row.digest, next_id + added), *row))
                added += 1
            sources = {(row.source,) for row in rows if row.source != '""'}
            self._connection.executemany("INSERT OR IGNORE INTO sources VALUES (?)", sources)
            known = "SELECT 1 FROM tools WHERE name = ?"
            unknown = [text for text in {row.tool for row in rows} if not self._fetch(known, text)]
            self._enter_tools({json.loads(text): ToolRecord() for text in unknown}, change=change)
        return AddReport(added=added, duplicates=len(rows) - added, conflicts=conflicts)

    def set_tool(self, name: str, record: ToolRecord) -> None:
        """Enter what is known of a tool, in place of what was."""
        with self._transaction():
            self._enter_tools({name: record})

    def update_tools(self, change: Callable[[dict[str, ToolRecord]], Mapping[str, ToolRecord]]) -> None:
        """Enter the records that `change` gives for those that are known, with no other writer in between."""
        with self._transaction():
            self._enter_tools(change(self.tools()))

    def exact(self, key: bytes) -> Entry | None:
        """Find the result recorded under an exact key; of several the first in order."""
        # Two rows without order say whether there is a conflict, for less than it takes to set up a sort.
        found = self._entries("key = ? LIMIT 2", key)
        if len(found) > 1:
            found = self._entries(f"key = ? {_BEST_FIRST} LIMIT 1", key)
        return found[0] if found else None

    def same_call(self, call: bytes) -> list[Entry]:
        """Find what was recorded for a call in any state, in order."""
        return self._entries(f"call = ? {_BEST_FIRST}", call)

    def get(self, entry_id: int) -> Entry:
        """Give an entry by its id; raises `CacheError` where there is none."""
        found = self._entries("id = ?", entry_id)
        if not found:
            raise CacheError(f"Expected `entry_id` to be that of an entry of `{self.path}`, but got {entry_id}")
        return found[0]

    def iterate(self, tool: str | None = None) -> Iterator[Entry]:
        """Go through the entries, or those of one tool, by id."""
        if tool is not None:
            # Ids first: to sort whole rows, SQLite would copy all results of the tool.
            ids = self._fetch("SELECT id FROM entries WHERE tool = ? ORDER BY id", tool_text(tool))
            yield from (self.get(entry_id) for (entry_id,) in ids)
            return
        last = 0
        while page := self._entries(f"id > ? ORDER BY id LIMIT {_PAGE}", last):
            yield from page
            last = page[-1].id

    def most_frequent(self, tool: str) -> Entry | None:
        """Give the tool's result that is first in order; None = nothing was recorded for it."""
        found = self._entries(f"tool = ? {_BEST_FIRST} LIMIT 1", tool_text(tool))
        return found[0] if found else None

    def conflicts(self) -> dict[str, int]:
        """Count, by tool, the calls whose results differ in the same state."""
        differing = "SELECT tool FROM entries GROUP BY key HAVING count(*) > 1"
        found = self._fetch(f"SELECT tool, count(*) FROM ({differing}) GROUP BY tool")  # noqa: S608
        return {json.loads(name): count for name, count in found}

    def tools(self) -> dict[str, ToolRecord]:
        """Give what is known of each tool, by name."""
        found = {}
        for name, record, checksum in self._fetch("SELECT name, record, checksum FROM tools ORDER BY name"):
            if text_checksum(name, record) != checksum:
                raise damaged(self.path, "a damaged tool record")
            found[json.loads(name)] = _parsed_record(record)
        return found

    def sources(self) -> set[str]:
        """Give all sources from which entries were added, also those that held duplicates alone."""
        return {json.loads(name) for (name,) in self._fetch("SELECT name FROM sources")}

    @property
    def num_entries(self) -> int:
        """How many results are recorded, not counting how often."""
        return int(self._fetch("SELECT count(*) FROM entries")[0][0])

    @property
    def last_id(self) -> int:
        """Id of the entry that was recorded last; 0 = there is none."""
        return int(self._fetch("SELECT coalesce(max(id), 0) FROM entries")[0][0])

    @property
    def newest(self) -> float:
        """Unix time of the newest result; 0 = there is none."""
        return float(self._fetch("SELECT coalesce(max(recorded_at), 0.0) FROM entries")[0][0])

    def digest(self) -> str:
        """Give 64 hexadecimal digits that say what the store holds.

        It is the sum, modulo 2**256, of the SHA-256 of each row and of each tool's record: equal for equal contents,
        in whatever order they came. It is kept, not computed.
        """
        with faults_named(self.path):
            return self._meta("digest")

    def identity(self) -> dict[str, JSON]:
        """Say what the store holds, and under which ids: `digest` is the same in whatever order the entries came."""
        ids = np.array(self._fetch("SELECT id FROM entries ORDER BY call, id"), np.int64)
        return {"store": self.digest(), "order of entries": sha256(ids.data).hexdigest()}

    def verify(self) -> None:
        """Check the whole file with all contents; raises `CacheError` at the first damage."""
        with faults_named(self.path):
            check(self._connection, self.path)
            digest = sum(self._decoded(row)[1] for row in self._connection.execute(_SELECT))
        digest += sum(_tool_digest(tool_text(name), _record_text(record)) for name, record in self.tools().items())
        if f"{digest % _MODULUS:064x}" != self.digest():
            raise damaged(self.path, "rows that its digest doesn't count")

    def _enter_tools(self, records: Mapping[str, ToolRecord], *, change: int = 0) -> None:
        """Enter records, and move the digest on by theirs and by `change`."""
        digest = int(self._meta("digest"), 16) + change
        for name, record in records.items():
            text, new = tool_text(name), _record_text(record)
            old = self._fetch("SELECT record FROM tools WHERE name = ?", text)
            digest += _tool_digest(text, new) - (_tool_digest(text, old[0][0]) if old else 0)
            values = text, new, text_checksum(text, new)
            self._connection.execute("INSERT OR REPLACE INTO tools VALUES (?, ?, ?)", values)
        write_meta(self._connection, "digest", f"{digest % _MODULUS:064x}")

    def _count(self, row: Row, stored: StoredRow) -> int:
        """Count a result that is there; gives the change of the digest."""
        old, digest = self._decoded(stored)
        joined = merged(old, row)
        values = joined.times, joined.recorded_at, joined.source, row_checksum(joined.digest, old.id), old.id
        self._connection.execute(_UPDATE, values)
        return joined.digest - digest

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self.read_only:
            raise CacheError(f"Expected `{self.path}` to be open for writing, but got read_only=True")
        with faults_named(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _fetch(self, sql: str, *values: object) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:  # `faults_named` would take longer than most queries.
            raise fault(self.path, error) from error

    def _entries(self, which: str, *values: object) -> list[Entry]:
        return [self._decoded(row)[0] for row in self._fetch(f"{_SELECT} WHERE {which}", *values)]

    def _meta(self, name: str) -> str:
        return read_meta(self._connection, self.path, name)

    def _decoded(self, row: StoredRow) -> tuple[Entry, int]:
        decoded = from_row(row)
        if decoded is None:
            raise damaged(self.path, f"a damaged entry {row[0]}")
        return decoded


def _record_text(record: ToolRecord) -> str:
    traits, parameters = record.traits, record.parameters
    fields: dict[str, JSON] = {"kind": traits.kind.value, "state": traits.state, "writes": traits.writes}
    try:
        return canonical_text({**fields, "parameters": None if parameters is None else dict(parameters)})
    except (TypeError, ValueError) as error:
        raise CacheError(f"Expected `parameters` to be a JSON Schema, but got: {error}") from error


def _parsed_record(text: str) -> ToolRecord:
    fields = json.loads(text)
    traits = ToolTraits(kind=ToolKind(fields["kind"]), state=fields["state"], writes=fields["writes"])
    return ToolRecord(traits=traits, parameters=fields["parameters"])


def _tool_digest(name: str, record: str) -> int:
    return int.from_bytes(sha256(f"tool {name} {record}".encode("ascii")).digest(), "big")
