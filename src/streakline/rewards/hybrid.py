"""An answer that counts as far as the cache was faithful, and otherwise how the work was done (paper B)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, final

from typing_extensions import override

from streakline.errors import ConfigError
from streakline.rewards.base import Reward, RewardTerm, Scores, weighted_mean
from streakline.rewards.leaks import find_leak
from streakline.rewards.trust import Trust, measured_trust
from streakline.types import Trajectory

_ANSWER = "answer"
_PARTS = ("process", "trust", "untiered", "leak")
_TRUST = Trust()  # frozen, so that sharing it is safe


@final
class HybridReward(Reward):
    """a * answer + (1 - a) * process, where `a` follows from the worst tier of an episode's results (arXiv 2606.14179).

    Beside the score of each term, `reward_terms` holds the weighted mean of the process terms (`process`), `a`
    (`trust`), the reward with the trust of exact results whatever the tier (`untiered`: a change of it is progress, not
    a change of the measure), and whether the final answer leaked thinking (`leak`), which makes the answer count 0. An
    answer that could not be scored leaves the trajectory unscored; without any scored process term the answer is all.
    `without_answer: process` goes on where a judge is out: a group in which no answer could be scored is scored by the
    process alone, so that one measure holds in it; `trust` is then 0, and a member whose answer leaks is unscored.

    Args:
        answer: Scores the answer, in [0, 1].
        process: Signals about the way to it, by name.
        weights: Weight of each process term; one left out weighs 1.
        trust: `a` by tier.
        audit: `audit.json` of an audit of the cache; trust then follows the fidelity that was measured. None = `trust`
            as it is.
        clamp_leaks: Whether an answer that leaks thinking counts 0 (`rewards/leaks.py`).
        without_answer: What becomes of a group without any scored answer; the first of a row is warned of.

    Raises:
        ConfigError: A process term has a name of the reward's own, or a weight doesn't fit.
        DataError: The audit can't be read, at the first use.
    """

    def __init__(
        self,
        answer: RewardTerm,
        process: dict[str, RewardTerm],
        weights: dict[str, float] | None = None,
        trust: Trust = _TRUST,
        audit: str | None = None,
        clamp_leaks: bool = True,
        without_answer: Literal["unscored", "process"] = "unscored",
    ) -> None:
        if taken := sorted({_ANSWER, *_PARTS} & process.keys()):
            raise ConfigError(f"Expected `process` to have names of its own, but got {', '.join(taken)}")
        self._process = Reward(process, weights)
        super().__init__({_ANSWER: answer, **process})
        self._given_trust = trust
        self._audit = audit
        self._clamp_leaks = clamp_leaks
        self._without_answer = without_answer
        self._is_without = False

    @cached_property
    def trust(self) -> Trust:
        """`a` by tier. An audit is read at the first use, so that the reward can be built before the audit is made."""
        return self._given_trust if self._audit is None else measured_trust(self._given_trust, Path(self._audit))

    @property
    @override
    def weights(self) -> Mapping[str, float]:
        """Weight of each process term by name."""
        return self._process.weights

    @property
    @override
    def names(self) -> tuple[str, ...]:
        return (*super().names, *_PARTS)

    @override
    def combine(
        self, scores: Sequence[Scores], trajectories: Sequence[Trajectory]
    ) -> list[tuple[float | None, Scores]]:
        """Reward of each trajectory of a group, and its parts."""
        pairs = list(zip(scores, trajectories, strict=True))
        is_without = self._without_answer == "process" and all(one[_ANSWER] is None for one in scores)
        if is_without and not self._is_without:
            warnings.warn("no answer of a group could be scored: such groups go by their process alone", stacklevel=2)
        if scores:
            self._is_without = is_without
        return [self._mix(*pair, is_without=is_without) for pair in pairs]

    @override
    def success_score(self, trajectory: Trajectory) -> float | None:
        """The answer alone: how the work was done makes nothing right."""
        terms = trajectory.reward_terms
        is_clamped = bool(terms.get("leak")) and self._clamp_leaks and trajectory.reward is not None
        return 0.0 if is_clamped else terms.get(_ANSWER)

    def _mix(self, scores: Scores, trajectory: Trajectory, *, is_without: bool) -> tuple[float | None, Scores]:
        leak = bool(find_leak(final_answer(trajectory)))
        is_clamped = leak and self._clamp_leaks
        process = weighted_mean(scores, self._process.weights)
        if is_without:
            trust, untiered = 0.0, process
            reward = None if is_clamped else process
        else:
            answer, trust = 0.0 if is_clamped else scores[_ANSWER], self.trust.of(trajectory)
            reward, untiered = _mixed(answer, process, trust), _mixed(answer, process, self.trust.exact)
        return reward, {"process": process, "trust": trust, "untiered": untiered, "leak": float(leak)}


def final_answer(trajectory: Trajectory) -> str:
    """Text of the last turn, unless it calls something; empty = there is none."""
    last = trajectory.turns[-1].message if trajectory.turns else None
    return "" if last is None or last.tool_calls else last.content


def _mixed(answer: float | None, process: float | None, trust: float) -> float | None:
    if answer is None or process is None:
        return answer
    return trust * answer + (1 - trust) * process
