"""What a tool's results depend on, and the rolling digest of a state that calls have written to.

A file system's `ls` has no result without its history. The digest of a state starts from what the state was, and
each successful write moves it on: two episodes in which the same writes led to a call share its exact result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import final

from streakline.cache.canonical import canonical_arguments, canonical_text
from streakline.errors import CacheError
from streakline.types import JSON


class ToolKind(StrEnum):
    """What the result of a call depends on."""

    PURE = "pure"
    """The call alone."""
    STATEFUL = "stateful"
    """The call and a state that other calls may have written to."""
    VOLATILE = "volatile"
    """More than can be recorded: the time, chance, the outside world."""


@dataclass(frozen=True, kw_only=True)
class ToolTraits:
    """How a tool's results may be reused."""

    kind: ToolKind = ToolKind.PURE
    """What a result depends on."""
    state: str = ""
    """Name of the state that a stateful tool shares with others, such as a simulator's class; empty = none."""
    writes: bool = False
    """Whether a successful call changes the state."""

    def __post_init__(self) -> None:
        """Check that stateful tools alone have a state."""
        if (self.kind == ToolKind.STATEFUL) != bool(self.state):
            raise CacheError(f"Expected `state` to be given for stateful tools alone, but got {self}")
        if self.writes and not self.state:
            raise CacheError(f"Expected `writes` to be False without `state`, but got {self}")


def initial_digest(value: JSON) -> bytes:
    """Hash a state as it is before any call to 32 bytes, equal for equal JSON (key order, 1 and 1.0)."""
    return sha256(canonical_text(canonical_arguments({"state": value})).encode("ascii")).digest()


@final
class StateTracker:
    """The digests of all states of one episode, by name.

    Args:
        initial: What each state was at the start, or its digest. A state that isn't named starts as null.
    """

    def __init__(self, initial: Mapping[str, JSON | bytes]) -> None:
        self._digests = {
            name: value if isinstance(value, bytes) else initial_digest(value) for name, value in initial.items()
        }

    def digest(self, traits: ToolTraits) -> bytes:
        """Give the digest of the state that a call would meet now; empty for a tool without state."""
        if not traits.state:
            return b""
        return self._digests.get(traits.state) or initial_digest(None)

    def digests(self) -> dict[str, bytes]:
        """Give the digest of each state that is known so far."""
        return dict(self._digests)

    def record(self, traits: ToolTraits, call_key: bytes, *, is_error: bool) -> None:
        """Note a call: a successful write moves its state on to SHA-256(digest + key), nothing else does."""
        if traits.writes and not is_error:
            self._digests[traits.state] = sha256(self.digest(traits) + call_key).digest()
