"""DAPO's soft punishment of trajectories that nearly, or fully, use up what they may write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from typing_extensions import override

from streakline.errors import ConfigError
from streakline.rewards.base import RewardTerm, Tally
from streakline.types import Task, Trajectory


@final
class OverlongShaping(RewardTerm):
    """Another term plus a punishment for length (DAPO, arXiv 2503.14476, equation 13).

    The punishment is 0 up to `max_tokens - buffer_tokens` sampled tokens, falls linearly to -1 at `max_tokens`, and
    stays there. What is added, and not averaged as a term of its own, leaves the reward of a short trajectory as it is.

    Args:
        term: What is shaped.
        max_tokens: Tokens, over all turns of a trajectory, from which the punishment is full.
        buffer_tokens: Tokens over which it grows.

    Raises:
        ConfigError: If `buffer_tokens` is not in 1 ... `max_tokens`.
    """

    def __init__(self, term: RewardTerm, *, max_tokens: int, buffer_tokens: int) -> None:
        if not 1 <= buffer_tokens <= max_tokens:
            raise ConfigError(f"Expected `buffer_tokens` to be in 1 ... {max_tokens}, but got {buffer_tokens}")
        self._term, self._max_tokens, self._buffer_tokens = term, max_tokens, buffer_tokens

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Score of the inner term, less up to 1; None where that has none."""
        return self._shaped(self._term.score(task, trajectory), trajectory)

    @override
    def score_all(self, episodes: Sequence[tuple[Task, Trajectory]]) -> list[float | None]:
        scores = zip(self._term.score_all(episodes), episodes, strict=True)
        return [self._shaped(score, trajectory) for score, (_, trajectory) in scores]

    @override
    def metrics(self) -> Mapping[str, Tally]:
        return self._term.metrics()

    def _shaped(self, score: float | None, trajectory: Trajectory) -> float | None:
        sampled = sum(turn.end - turn.start - turn.truncated for turn in trajectory.turns)
        excess = (sampled - self._max_tokens) / self._buffer_tokens + 1
        return None if score is None else score - min(max(excess, 0.0), 1.0)
