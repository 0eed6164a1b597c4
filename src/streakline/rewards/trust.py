"""How far the answer of an episode is trusted, by the worst of the tool results that it rests on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from streakline.errors import ConfigError, DataError
from streakline.types import Tier, Trajectory


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Weight of the answer against the process, in [0, 1] (paper B's alpha)."""

    exact: float = 0.6
    """The tools ran, or every result was recorded for the same call in the same state."""
    fuzzy: float = 0.3
    """Some result was recorded for a similar call, or in another state."""
    best_effort: float = 0.1
    """Some result was recorded for another call of the tool."""
    miss: float = 0.1
    """Some call found nothing. Not published."""
    no_call: float = 0.6
    """No call got a result. Not published."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, value in asdict(self).items():
            if not 0 <= value <= 1:
                raise ConfigError(f"Expected `trust.{name}` to be in [0, 1], but got {value}")

    def of(self, trajectory: Trajectory) -> float:
        """Weight of the answer of one trajectory."""
        if not any(turn.results for turn in trajectory.turns):
            return self.no_call
        return self.of_tier(trajectory.worst_tier)

    def of_tier(self, tier: Tier) -> float:
        """Weight of an answer that rests on results of this tier at worst."""
        match tier:
            case Tier.LIVE | Tier.EXACT:
                return self.exact
            case Tier.FUZZY:
                return self.fuzzy
            case Tier.BEST_EFFORT:
                return self.best_effort
            case Tier.MISS:
                return self.miss


def measured_trust(trust: Trust, audit: Path) -> Trust:
    """Trust in proportion to the fidelity of each tier, as `tools/audit_cache.py` measured it (`audit.json`).

    A tier that the audit did not meet keeps its weight; so do `miss` and `no_call`, which serve nothing that could be
    faithful.

    Raises:
        DataError: The file can't be read, or holds no audit.
    """
    try:
        fidelity = json.loads(audit.read_text(encoding="utf-8"))["overall"]["fidelity"]
        known = {
            name: trust.exact * float(fidelity[name]["estimate"])
            for name in (Tier.EXACT.value, Tier.FUZZY.value, Tier.BEST_EFFORT.value)
            if name in fidelity
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"Expected {audit} to be the `audit.json` of a cache audit, but got: {error}") from error
    return replace(trust, **known)
