"""The interface of everything that samples tokens: token ids in, token ids and log-probabilities out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from streakline.errors import RecordError
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One assistant turn to be sampled."""

    prompt_ids: tuple[int, ...]
    """[T] everything that the policy sees, generation prompt included; at least one token."""
    seed: int
    """Seed of this turn's draws, in [0, 2**63)."""
    max_new_tokens: int
    """Limit on sampled tokens, the terminator included; at least 1."""
    min_new_tokens: int = 0
    """Sampled tokens before which no terminator can be drawn; 0 = no such limit."""

    def __post_init__(self) -> None:
        """Check that there is something to continue and room to do so."""
        if not self.prompt_ids:
            raise RecordError("Expected `prompt_ids` to hold at least one token, but got none")
        if self.max_new_tokens < 1 or not 0 <= self.min_new_tokens <= self.max_new_tokens:
            raise RecordError(
                "Expected 0 <= `min_new_tokens` <= `max_new_tokens` and 1 <= `max_new_tokens`, "
                f"but got {self.min_new_tokens} and {self.max_new_tokens}"
            )


Respond: TypeAlias = Callable[[int, Completion], GenerationRequest | None]
"""Called with the row and what it generated; returns the row's next request, or None when the row is done."""


class RolloutEngine(ABC):
    """Samples assistant turns for many rows at once, each row going on as soon as its own tools have answered."""

    @abstractmethod
    def generate(self, requests: Sequence[GenerationRequest], respond: Respond, *, sampling: SamplingPolicy) -> None:
        """Run every row to its end.

        When row i finishes a generation, `respond(i, completion)` is called, from the calling thread. The request it
        returns holds the full prompt (normally an extension of everything so far) and continues the row; None ends it.
        The order in which rows respond is not defined, and rows never wait for each other's turns. An exception that
        `respond` raises ends the call. The limits on tokens that count are those of the requests.

        Raises:
            EngineError: If the engine fails as a whole. A failure of one row is a `Completion` with
                `finish_reason="error"`.
        """

    @abstractmethod
    def sync_weights(self, version: int) -> None:
        """Take over the policy's current weights as `version`; anything computed under earlier ones is dropped.

        Completions carry the version that they were sampled from, at first 0.

        Raises:
            EngineError: If the weights could not be taken over.
        """
