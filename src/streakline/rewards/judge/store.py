"""Verdicts on disk, so that none is paid for twice, and what was spent on them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self, final

from streakline.errors import ConfigError, DataError

_BUSY_TIMEOUT_S = 60.0
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS verdicts(key BLOB PRIMARY KEY, score INTEGER NOT NULL, reason TEXT NOT NULL, "
    "checksum BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS spent(judge TEXT PRIMARY KEY, calls INTEGER NOT NULL, tokens INTEGER NOT NULL)",
)
_PAY = (
    "INSERT INTO spent VALUES (?, 1, 0) ON CONFLICT(judge) DO UPDATE SET calls = calls + 1 "
    "WHERE calls < ? AND tokens < ?"
)
_UNLIMITED = 2**62


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a judge may spend over all runs and processes that share its store."""

    max_calls: int | None = None
    """Requests, retries included; None = no limit."""
    max_tokens: int | None = None
    """Tokens of requests and replies; those under way when it is reached still count. None = no limit."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, limit in asdict(self).items():
            if limit is not None and (type(limit) is not int or limit < 0):
                raise ConfigError(
                    f"Expected `budget.{name}` to be a whole number of at least 0, or null in a file, but got {limit!r}"
                )


@final
class JudgeStore:
    """One SQLite file that several processes may use at once; an instance serves one thread.

    A damaged row counts as one that isn't there.

    Raises:
        DataError: The file can't be used.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        with self._faults_named():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
            try:
                self._write_ahead()
                self._connection.execute("PRAGMA synchronous = NORMAL")  # In WAL, what was committed survives a kill.
                for statement in _SCHEMA:
                    self._connection.execute(statement)
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def get(self, key: bytes) -> tuple[int, str] | None:
        """Score and reason of a request; None = it was not judged yet."""
        with self._faults_named():
            row = self._connection.execute(
                "SELECT score, reason, checksum FROM verdicts WHERE key = ?", (key,)
            ).fetchone()
        if row is None or row[2] != _checksum(key, row[0], row[1]):
            return None
        score, reason, _ = row
        return score, reason

    def put(self, key: bytes, *, score: int, reason: str) -> tuple[int, str]:
        """Keep a verdict; gives the one that counts: of two runs that asked at once, the first one's."""
        reason = reason.encode("utf-8", "replace").decode()
        row = (key, score, reason, _checksum(key, score, reason))
        with self._faults_named():
            self._connection.execute("INSERT OR IGNORE INTO verdicts VALUES (?, ?, ?, ?)", row)
        if (known := self.get(key)) is not None:
            return known
        with self._faults_named():  # What is there is damaged.
            self._connection.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)", row)
        return score, reason

    def pay_call(self, judge: str, *, budget: Budget) -> bool:
        """Count one call, if the budget has room for it."""
        limits = [
            _UNLIMITED if limit is None else min(limit, _UNLIMITED) for limit in (budget.max_calls, budget.max_tokens)
        ]
        if min(limits) < 1:
            return False
        with self._faults_named():
            return self._connection.execute(_PAY, (judge, *limits)).rowcount > 0

    def pay_tokens(self, judge: str, tokens: int) -> None:
        """Count the tokens of a call."""
        with self._faults_named():
            self._connection.execute("UPDATE spent SET tokens = tokens + ? WHERE judge = ?", (tokens, judge))

    def spent(self, judge: str) -> tuple[int, int]:
        """Calls and tokens so far."""
        with self._faults_named():
            row = self._connection.execute("SELECT calls, tokens FROM spent WHERE judge = ?", (judge,)).fetchone()
        calls, tokens = row or (0, 0)
        return calls, tokens

    def _write_ahead(self) -> None:
        # On a new file this does not wait for another process that does the same, whatever the time-out.
        deadline = time.monotonic() + _BUSY_TIMEOUT_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    @contextmanager
    def _faults_named(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise DataError(
                f"Expected to use `{self._path}` as the store of a judge, but got: {error}; "
                "if it is damaged, move it away: a new one is made"
            ) from error


def _checksum(key: bytes, score: object, reason: object) -> bytes:
    return sha256(key + repr((score, reason)).encode("utf-8", "surrogatepass")).digest()[:8]
