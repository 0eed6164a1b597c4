"""The store: recorded results in one SQLite file that several processes may write at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from streakline.cache.canonical import canonical_text
from streakline.cache.database import (
    check,
    connect,
    damaged,
    fault,
    faults_named,
    read_meta,
    text_checksum,
    write_meta,
)
from streakline.cache.entries import (
    STORED_COLUMNS,
    Row,
    StoredRow,
    from_row,
    merged,
    row_checksum,
    stored_digest,
    to_row,
    tool_text,
)
from streakline.cache.entries import Entry as Entry
from streakline.cache.entries import NewEntry as NewEntry
from streakline.cache.state import ToolKind, ToolTraits
from streakline.errors import CacheError
from streakline.types import JSON

_MODULUS = 2**256
_REMEMBERED_ENTRIES = 65536
_REMEMBERED_CHARACTERS = 4096
_SELECT = f"SELECT {STORED_COLUMNS} FROM entries"  # noqa: S608
_BEST_FIRST = "ORDER BY times DESC, id"
# Two rows without order say whether there is a conflict, for less than it takes to set up a sort.
_TWO_BY_KEY = f"{_SELECT} WHERE key = ? LIMIT 2"
_BEST_BY_KEY = f"{_SELECT} WHERE key = ? {_BEST_FIRST} LIMIT 1"
_IS_KEY = "SELECT 1 FROM entries WHERE key = ? LIMIT 1"
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
        self._served: dict[bytes, Entry] = {}

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def add(self, entries: Iterable[NewEntry]) -> AddReport:
        """Record entries: all of them, or none where it raises.

        A tool that isn't known is entered as pure and without schema.

        Raises:
            CacheError: an entry can't be stored, the store is read-only, or the file can't be written (disk full).
        """
        rows = [to_row(entry) for entry in entries]
        added = duplicates = conflicts = 0
        with self._transaction():
            digest = int(self._meta("digest"), 16)
            next_id = self.last_id + 1
            for row in rows:
                change, is_new, is_conflict = self._put(row, next_id)
                digest += change
                next_id += is_new
                added += is_new
                duplicates += not is_new
                conflicts += is_conflict
            digest += sum(self._enter_tool(tool) for tool in {row.tool for row in rows})
            sources = {(row.source,) for row in rows if row.source != '""'}
            self._connection.executemany("INSERT OR IGNORE INTO sources VALUES (?)", sources)
            write_meta(self._connection, "digest", f"{digest % _MODULUS:064x}")
        return AddReport(added=added, duplicates=duplicates, conflicts=conflicts)

    def set_tool(self, name: str, record: ToolRecord) -> None:
        """Enter what is known of a tool, in place of what was."""
        with self._transaction():
            self._set_tools({name: record})

    def update_tools(self, change: Callable[[dict[str, ToolRecord]], Mapping[str, ToolRecord]]) -> None:
        """Enter the records that `change` gives for those that are known, with no other writer in between."""
        with self._transaction():
            self._set_tools(change(self.tools()))

    def exact(self, key: bytes) -> Entry | None:
        """Find the result recorded under an exact key; of several the first in order."""
        entry = self._served.get(key)
        if entry is not None:
            return entry
        try:
            rows = self._connection.execute(_TWO_BY_KEY, (key,)).fetchall()
            if len(rows) > 1:
                rows = self._connection.execute(_BEST_BY_KEY, (key,)).fetchall()
        except sqlite3.Error as error:
            raise fault(self.path, error) from error
        if not rows:
            return None
        entry = self._decoded(rows[0])
        if self.read_only:  # Else the next one who looks may have to find another.
            self._remember(key, entry)
        return entry

    def exact_many(self, keys: Iterable[bytes]) -> dict[bytes, Entry]:
        """Find the results of many exact keys; a key without one is left out."""
        found = ((key, self.exact(key)) for key in dict.fromkeys(keys))
        return {key: entry for key, entry in found if entry is not None}

    def same_call(self, call: bytes, *, before: int | None = None) -> list[Entry]:
        """Find what was recorded for a call in any state, in order; `before` leaves out that id and later ones."""
        limit = self.last_id + 1 if before is None else before
        return [
            self._decoded(row) for row in self._rows(f"{_SELECT} WHERE call = ? AND id < ? {_BEST_FIRST}", call, limit)
        ]

    def get(self, entry_id: int) -> Entry:
        """Give an entry by its id; raises `CacheError` where there is none."""
        for row in self._rows(f"{_SELECT} WHERE id = ?", entry_id):
            return self._decoded(row)
        raise CacheError(f"Expected `entry_id` to be that of an entry of `{self.path}`, but got {entry_id}")

    def get_many(self, ids: Iterable[int]) -> list[Entry]:
        """Give entries by their ids, in the order of these."""
        return [self.get(entry_id) for entry_id in ids]

    def iterate(self, tool: str | None = None, *, after_id: int = 0) -> Iterator[Entry]:
        """Go through the entries, or those of one tool, by id; `after_id` leaves out that id and earlier ones."""
        if tool is None:
            for row in self._rows(f"{_SELECT} WHERE id > ? ORDER BY id", after_id):
                yield self._decoded(row)
            return
        # Ids first: to sort whole rows, SQLite would copy all results of the tool.
        ids = list(
            self._rows("SELECT id FROM entries WHERE tool = ? AND id > ? ORDER BY id", tool_text(tool), after_id)
        )
        for (entry_id,) in ids:
            yield self.get(entry_id)

    def most_frequent(self, tool: str) -> Entry | None:
        """Give the tool's result that is first in order; None = nothing was recorded for it."""
        for row in self._rows(f"{_SELECT} WHERE tool = ? {_BEST_FIRST} LIMIT 1", tool_text(tool)):
            return self._decoded(row)
        return None

    def tools(self) -> dict[str, ToolRecord]:
        """Give what is known of each tool, by name."""
        found = {}
        for name, record, checksum in self._rows("SELECT name, record, checksum FROM tools ORDER BY name"):
            if text_checksum(name, record) != checksum:
                raise damaged(self.path, "a damaged tool record")
            found[json.loads(name)] = _parsed_record(record)
        return found

    def sources(self) -> set[str]:
        """Give all sources from which entries were added, also those that held duplicates alone."""
        return {json.loads(name) for (name,) in self._rows("SELECT name FROM sources")}

    @property
    def num_entries(self) -> int:
        """How many results are recorded, not counting how often."""
        return self._number("SELECT count(*) FROM entries")

    @property
    def last_id(self) -> int:
        """Id of the entry that was recorded last; 0 = there is none."""
        return self._number("SELECT coalesce(max(id), 0) FROM entries")

    @property
    def newest(self) -> float:
        """Unix time of the newest result; 0 = there is none."""
        for (value,) in self._rows("SELECT coalesce(max(recorded_at), 0.0) FROM entries"):
            return float(value)
        raise damaged(self.path, "no time")

    def digest(self) -> str:
        """Give 64 hexadecimal digits that say what the store holds.

        It is the sum, modulo 2**256, of the SHA-256 of each row and of each tool's record: equal for equal contents,
        in whatever order they came. It is kept, not computed.
        """
        with faults_named(self.path):
            return self._meta("digest")

    def compute_digest(self) -> str:
        """Compute `digest` from all rows, which checks each of them."""
        total = sum(self._digest(row) for row in self._rows(_SELECT))
        total += sum(_tool_digest(tool_text(name), _record_text(record)) for name, record in self.tools().items())
        return f"{total % _MODULUS:064x}"

    def verify(self) -> None:
        """Check the whole file with all contents; raises `CacheError` at the first damage."""
        with faults_named(self.path):
            check(self._connection, self.path)
        if self.compute_digest() != self.digest():
            raise damaged(self.path, "rows that its digest doesn't count")

    def _remember(self, key: bytes, entry: Entry) -> None:
        """Keep what was served: the members of a group make the same calls."""
        if len(entry.result) <= _REMEMBERED_CHARACTERS:
            if len(self._served) == _REMEMBERED_ENTRIES:
                self._served.clear()
            self._served[key] = entry

    def _set_tools(self, records: Mapping[str, ToolRecord]) -> None:
        digest = int(self._meta("digest"), 16)
        for name, record in records.items():
            text, new = tool_text(name), _record_text(record)
            old = self._connection.execute("SELECT record FROM tools WHERE name = ?", (text,)).fetchone()
            digest += _tool_digest(text, new) - (_tool_digest(text, old[0]) if old else 0)
            self._connection.execute(
                "INSERT OR REPLACE INTO tools VALUES (?, ?, ?)", (text, new, text_checksum(text, new))
            )
        write_meta(self._connection, "digest", f"{digest % _MODULUS:064x}")

    def _put(self, row: Row, new_id: int) -> tuple[int, bool, bool]:
        """Insert a row or count it; gives the change of the digest, whether it is new, and whether in conflict."""
        same = key_is_there = self._connection.execute(_IS_KEY, (row.key,)).fetchone()
        if key_is_there is not None:
            same = self._connection.execute(_SAME_RESULT, (row.key, row.result_digest)).fetchone()
        if same is None:
            digest = row.digest
            self._connection.execute(_INSERT, (new_id, row_checksum(digest, new_id), *row))
            return digest, True, key_is_there is not None
        old = self._decoded(same)
        joined = merged(old, row)
        digest = joined.digest
        values = (joined.times, joined.recorded_at, joined.source, row_checksum(digest, old.id), old.id)
        self._connection.execute(_UPDATE, values)
        return digest - self._digest(same), False, False

    def _enter_tool(self, text: str) -> int:
        """Enter a tool that isn't known; gives the change of the digest."""
        record = _record_text(ToolRecord())
        values = (text, record, text_checksum(text, record))
        cursor = self._connection.execute("INSERT OR IGNORE INTO tools VALUES (?, ?, ?)", values)
        return _tool_digest(text, record) if cursor.rowcount else 0

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

    def _rows(self, sql: str, *values: object) -> Iterator[Any]:
        with faults_named(self.path):
            # Not `yield from`: it would close the cursor of a reader who stopped early, maybe after the connection.
            for row in self._connection.execute(sql, values):  # noqa: UP028
                yield row

    def _number(self, sql: str) -> int:
        for (value,) in self._rows(sql):
            return int(value)
        raise damaged(self.path, "no number")

    def _meta(self, name: str) -> str:
        return read_meta(self._connection, self.path, name)

    def _decoded(self, row: StoredRow) -> Entry:
        entry = from_row(row)
        if entry is None:
            raise damaged(self.path, f"a damaged entry {row[0]}")
        return entry

    def _digest(self, row: StoredRow) -> int:
        digest = stored_digest(row)
        if digest is None:
            raise damaged(self.path, f"a damaged entry {row[0]}")
        return digest


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
