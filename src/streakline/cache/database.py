"""The SQLite file of a cache: made whole or not at all, checked when opened, its errors put in words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from streakline.errors import CacheError

SCHEMA_VERSION = 1

_APPLICATION_ID = 0x53544B43  # "STKC" in the file's header tells a cache from other SQLite files.
_BUSY_TIMEOUT_S = 60.0
_PAGE_CACHE_KIB = 65536
_STAMPED_BYTES = 2**26
"""Size from which on a file is only read, not checked again, where it is as it was."""
_SCHEMA = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT NOT NULL)",
    "CREATE TABLE tools(name TEXT PRIMARY KEY, record TEXT NOT NULL, checksum TEXT NOT NULL)",
    "CREATE TABLE sources(name TEXT PRIMARY KEY)",
    "CREATE TABLE entries(id INTEGER PRIMARY KEY, key BLOB NOT NULL, call BLOB NOT NULL, tool TEXT NOT NULL, "
    "arguments TEXT NOT NULL, is_error INTEGER NOT NULL, state BLOB NOT NULL, source TEXT NOT NULL, "
    "recorded_at REAL NOT NULL, times INTEGER NOT NULL, result_digest BLOB NOT NULL, checksum INTEGER NOT NULL, "
    "result TEXT NOT NULL)",
    "CREATE UNIQUE INDEX entries_by_key ON entries(key, result_digest)",
    "CREATE INDEX entries_by_call ON entries(call)",
    "CREATE INDEX entries_by_tool ON entries(tool, times DESC)",
)
_REBUILD = "to rebuild it, move the file away and run `python tools/build_cache.py`"
_DAMAGE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR}
_NO_ROOM = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a cache, and make it where there is none and it may be written.

    The whole file is checked, but for the rows' contents, which are checked when read. Read-only, the connection sees
    the cache as it is now for as long as it is open.

    Raises:
        CacheError: there is no such file, or it is damaged, of another version, or no cache at all.
    """
    if read_only and not path.exists():
        raise CacheError(f"Expected `{path}` to be a tool cache, but got no such file; {_REBUILD}")
    with faults_named(path):
        if not path.exists():
            _create(path)
        uri = f"{path.absolute().as_uri()}?{_mode(path, read_only=read_only)}"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        try:
            connection.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
            connection.execute("PRAGMA synchronous = NORMAL")  # In WAL, what was committed survives a kill.
            connection.execute("BEGIN")
            check(connection, path)
            if not read_only:
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
    return connection


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `CacheError` unless the file is a cache of this version and its tables and indices agree."""
    application = _pragma(connection, "application_id")
    if application != _APPLICATION_ID:
        raise damaged(path, f"another kind of file (application id {application})")
    version = _pragma(connection, "user_version")
    if version != SCHEMA_VERSION:
        raise damaged(path, f"schema version {version}")
    schema = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")]
    if schema != list(_SCHEMA):
        raise damaged(path, "other tables")
    _check_pages(connection, path)
    if read_meta(connection, path, "schema_version") != str(SCHEMA_VERSION):
        raise damaged(path, "two schema versions")


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Check all tables and indices, or that a large file is what it was when they were last checked."""
    stamp, digest = path.with_name(f"{path.name}.checked"), ""
    log = path.with_name(f"{path.name}-wal")
    if path.stat().st_size >= _STAMPED_BYTES and not (log.exists() and log.stat().st_size):
        with path.open("rb") as file:  # A thirtieth of the time.
            digest = file_digest(file, "sha256").hexdigest()
        if stamp.exists() and stamp.read_text(encoding="ascii", errors="replace") == digest:
            return
    # Among what it finds is an index that doesn't hold a row: a call would seem never to have been recorded.
    report = _pragma(connection, "integrity_check(1)")
    if report != "ok":
        raise damaged(path, f"damage ({report})")
    if digest:
        with suppress(OSError):
            stamp.write_text(digest, encoding="ascii")


def read_meta(connection: sqlite3.Connection, path: Path, name: str) -> str:
    """Read a value that `write_meta` wrote; raises `CacheError` where it isn't as written."""
    row = connection.execute("SELECT value, checksum FROM meta WHERE name = ?", (name,)).fetchone()
    if row is None or row[1] != text_checksum(name, row[0]):
        raise damaged(path, f"a damaged {name}")
    value: str = row[0]
    return value


def write_meta(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Write a value, inside the caller's transaction."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (name, value, text_checksum(name, value)))


def text_checksum(name: str, value: str) -> str:
    """Give the 16 hexadecimal digits that a named text is stored with."""
    return sha256(f"{name} {value}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def damaged(path: Path, found: str) -> CacheError:
    """Say in one line what was found in place of a cache, and how to get one."""
    expected = f"Expected `{path}` to be a whole tool cache of schema version {SCHEMA_VERSION}"
    return CacheError(f"{expected}, but got {' '.join(found.split())}; {_REBUILD}")


@contextmanager
def faults_named(path: Path) -> Iterator[None]:
    """Raise what SQLite or the system says as a `CacheError` of one line that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise fault(path, error) from error


def fault(path: Path, error: Exception) -> CacheError:
    """Put an error of SQLite or the system in words."""
    if isinstance(error, OSError | sqlite3.ProgrammingError):
        return CacheError(f"Expected to use `{path}`, but got: {error}")
    # Errors of the module itself, such as text that is no UTF-8, have no code: only damage leads to them.
    code = vars(error).get("sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    if code in _NO_ROOM:
        return CacheError(f"Expected room to write `{path}`, but got: {error}; what had been recorded is intact")
    if code & 0xFF in _DAMAGE:
        return damaged(path, f"damage ({error})")
    return CacheError(f"Expected to use `{path}`, but got: {error}")


def _mode(path: Path, *, read_only: bool) -> str:
    if not read_only:
        return "mode=rw"
    # SQLite keeps files of its own beside the cache. Where it can't, nobody writes, unless a log was left behind.
    log = path.with_name(f"{path.name}-wal")
    frozen = not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size)
    return "mode=ro&immutable=1" if frozen else "mode=ro"


def _create(path: Path) -> None:
    """Make an empty cache beside `path`, then give it its name: nobody ever opens half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent) as folder:
        new = Path(folder) / path.name
        with closing(sqlite3.connect(new, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            for statement in _SCHEMA:
                connection.execute(statement)
            write_meta(connection, "schema_version", str(SCHEMA_VERSION))
            write_meta(connection, "digest", f"{0:064x}")
            connection.execute("COMMIT")
        with suppress(FileExistsError):  # Another process was first.
            os.link(new, path)


def _pragma(connection: sqlite3.Connection, name: str) -> int | str:
    value: int | str = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
