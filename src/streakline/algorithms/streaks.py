"""Which tasks a policy has solved for the time being, so that rollouts are spent on the others.

The online filter before rollouts of arXiv 2606.00135: a counter c of each task rises by 1 in an epoch in which all its
trajectories were right, and falls to 0 in any other; an epoch trains on the tasks with c < k. Open in the paper, and
options here: when a skipped task comes back, and how it is noticed that it is no longer solved (probes).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from copy import deepcopy
from typing import TypedDict, final

from streakline.errors import ConfigError, RecordError


class StreakState(TypedDict):
    """A table as plain types."""

    epoch: int
    """0-based epoch under way."""
    streaks: dict[str, int]
    """Epochs in a row in which all trajectories were right, by key."""
    skipped: dict[str, int]
    """Keys that the epoch skips, and how many epochs in a row that is, this one included."""
    seen: dict[str, bool]
    """Keys that the epoch has judged, and whether all was right at first."""


@final
class StreakTable:
    """Streaks by key. What an epoch skips is decided when it begins, and holds until it ends.

    Args:
        k: Length of a streak from which a key is skipped.
        threshold: Reward from which a trajectory is right.
        rest: Epochs for which a key is skipped before its streak starts at 0 again; None = for good.
        probe_fraction: Share of the skipped keys that an epoch tries all the same.
        seed: Of the choice of probes, which follows from (seed, epoch, key) alone.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        Right in epoch 0, skipped in epoch 1, back in epoch 2::

            >>> table = StreakTable(k=1, probe_fraction=0.0)
            >>> table.observe("a", [1.0, 1.0]), table.observe("b", [1.0, 0.0])
            (True, False)
            >>> for epoch in (1, 2):
            ...     _ = table.begin_epoch(epoch)
            ...     print(epoch, table.is_active("a"), table.is_active("b"))
            1 False True
            2 True True
    """

    def __init__(
        self,
        *,
        k: int = 1,
        threshold: float = 1.0,
        rest: int | None = 1,
        probe_fraction: float = 0.05,
        seed: int = 0,
    ) -> None:
        for name, value, expected, ok in (
            ("k", k, "at least 1", k >= 1),
            ("threshold", threshold, "a finite number", math.isfinite(threshold)),
            ("cooldown", rest, "at least 1 epoch", rest is None or rest >= 1),
            ("probe_fraction", probe_fraction, "in [0, 1]", 0 <= probe_fraction <= 1),
        ):
            if not ok:
                raise ConfigError(f"Expected `streak_filter.{name}` to be {expected}, but got {value}")
        self._k, self._threshold, self._rest = k, threshold, rest
        self._probe_fraction, self._seed = probe_fraction, seed
        self._state: StreakState = {"epoch": 0, "streaks": {}, "skipped": {}, "seen": {}}

    def is_active(self, key: str) -> bool:
        """Whether the epoch trains on a key; one that was never seen is active."""
        return key not in self._state["skipped"]

    def is_probe(self, key: str) -> bool:
        """Whether the epoch tries a key that it skips."""
        identity = f"{self._seed}/{self._state['epoch']}/{key}"
        return not self.is_active(key) and random.Random(identity).random() < self._probe_fraction

    def was_observed(self, key: str) -> bool:
        """Whether the epoch has seen how a key went."""
        return key in self._state["seen"]

    @property
    def skipped(self) -> tuple[str, ...]:
        """Keys that the epoch skips, probes among them."""
        return tuple(self._state["skipped"])

    @property
    def num_known(self) -> int:
        """Keys that were ever observed."""
        return len(self._state["streaks"])

    def observe(self, key: str, rewards: Sequence[float | None]) -> bool | None:
        """Take the [n] rewards of a task into account, also those of a probe; None in them = unscored.

        Gives whether all are right; None where an unscored one leaves it open, which changes nothing. A wrong one
        breaks the streak at once. The streak rises once an epoch at most, and not where one was wrong.

        Raises:
            RecordError: If a reward is nan.
        """
        scored = [reward for reward in rewards if reward is not None]
        if any(math.isnan(reward) for reward in scored):
            raise RecordError(f"Expected rewards to be numbers or None, but got {list(rewards)}")
        streaks, seen = self._state["streaks"], self._state["seen"]
        streak = streaks.setdefault(key, 0)
        is_wrong = any(reward < self._threshold for reward in scored)
        if not is_wrong and (not scored or len(scored) < len(rewards)):
            return None
        if is_wrong:
            streaks[key] = 0
        elif key not in seen:
            streaks[key] = streak + 1
        seen.setdefault(key, not is_wrong)
        return not is_wrong

    def begin_epoch(self, epoch: int) -> bool:
        """Decide what a 0-based epoch skips; nothing happens, and False is given, if it has begun already."""
        if epoch <= self._state["epoch"]:
            return False
        streaks, before, skipped = self._state["streaks"], self._state["skipped"], dict[str, int]()
        for key in (key for key, streak in streaks.items() if streak >= self._k):
            rested = before.get(key, 0)
            if self._rest is None or rested < self._rest:
                skipped[key] = rested + 1
            else:
                streaks[key] = 0
        self._state = {"epoch": epoch, "streaks": streaks, "skipped": skipped, "seen": {}}
        return True

    def state_dict(self) -> StreakState:
        """Everything, as plain types."""
        return deepcopy(self._state)

    def load_state_dict(self, state: StreakState) -> None:
        """Take over what `state_dict` gave."""
        self._state = deepcopy(state)
