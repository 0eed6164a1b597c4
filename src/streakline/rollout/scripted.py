"""An engine that says what it is told to: for tests, and for trying tasks and tools without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias, final

from transformers import PreTrainedTokenizerFast

from streakline.errors import EngineError
from streakline.rollout.engine import GenerationRequest, Respond, RolloutEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Completion

Script: TypeAlias = Callable[[tuple[int, ...], int], "Sequence[int] | str"]
"""(prompt ids, row) -> what the row's policy writes: token ids as they are, or text, which gets a terminator."""


def script_turns(turns_by_row: Sequence[Sequence[str | Sequence[int]]]) -> Script:
    """Make a script of fixed turns, [rows][assistant turns]; a row beyond the last follows the last one.

    Single use: it remembers how far each row is.
    """
    positions: dict[int, int] = {}

    def script(prompt_ids: tuple[int, ...], row: int) -> Sequence[int] | str:
        turns = turns_by_row[min(row, len(turns_by_row) - 1)]
        position = positions.get(row, 0)
        positions[row] = position + 1
        if position >= len(turns):
            raise EngineError(f"Expected row {row} to end after its {len(turns)} scripted turns, but it asked for more")
        return turns[position]

    return script


@final
@dataclass(eq=False)
class ScriptedEngine(RolloutEngine):
    """Plays a script, one row after the other.

    Special tokens in a text become tokens, as a model would write them, and the first terminator is appended. Every
    token is given the same log-probability.
    """

    script: Script
    _: KW_ONLY
    tokenizer: PreTrainedTokenizerFast
    terminator_ids: Sequence[int]
    logprob: float = -0.5
    _weight_version: int = field(default=0, init=False)

    def generate(self, requests: Sequence[GenerationRequest], respond: Respond, *, sampling: SamplingPolicy) -> None:
        """Run every row to its end; see `RolloutEngine.generate`. Seeds and decoding have no effect."""
        for row, request in enumerate(requests):
            following: GenerationRequest | None = request
            while following is not None:
                following = respond(row, self._complete(following, row))

    def sync_weights(self, version: int) -> None:
        """Record the version."""
        self._weight_version = version

    def _complete(self, request: GenerationRequest, row: int) -> Completion:
        written = self.script(request.prompt_ids, row)
        if isinstance(written, str):
            written = (*self.tokenizer.encode(written, add_special_tokens=False), self.terminator_ids[0])
        ids = tuple(written[: request.max_new_tokens])
        return Completion(
            token_ids=ids,
            logprobs=(self.logprob,) * len(ids),
            finish_reason="stop" if ids and ids[-1] in self.terminator_ids else "length",
            weight_version=self._weight_version,
        )
