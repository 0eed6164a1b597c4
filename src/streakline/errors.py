"""Errors that streakline raises on purpose.

One root, `StreaklineError`; each child also inherits the standard-library error that it refines, so that
`except ValueError` keeps working for a caller who does not know us. A failed rollout is not an error: it is a
`Termination` on its trajectory.

To add one: inherit `StreaklineError` and the closest built-in, keep the constructor of the built-in (so that the
error stays picklable), and say in the docstring who should do what about it.
"""


class StreaklineError(Exception):
    """Root of all errors raised on purpose."""


class ConfigError(StreaklineError, ValueError):
    """An option, or a combination of options, is outside what it can be. Change the configuration."""


class DataError(StreaklineError, ValueError):
    """A dataset, a checkpoint or a stored file is missing or malformed. The message names the file and the row."""


class CacheError(StreaklineError, ValueError):
    """A tool call has no canonical form, or a cache file can't be used. Rebuild the cache where the message says so."""


class RecordError(StreaklineError, ValueError):
    """A record between stages breaks one of its invariants: a fault in the stage that built it."""


class EngineError(StreaklineError, RuntimeError):
    """A rollout engine failed as a whole (not a single rollout, which is recorded on its trajectory)."""


class JudgeOutageError(StreaklineError, ConnectionError):
    """A judge answers no more, or has spent its budget. A training run saves itself and ends; go on when it is back."""

    judgments: tuple[object, ...] = ()
    """What the judge made of each of the answers all the same; empty = it doesn't say."""


class MissingDependencyError(StreaklineError, ImportError):
    """An optional package is not installed. The message gives the command that installs it."""
