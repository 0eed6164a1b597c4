"""When a training run reaches a success: the arithmetic of `time_to_success.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from streakline.evaluation.intervals import Interval, t_interval_across_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Held-out success of one run over the seconds that it trained."""

    seconds: tuple[float, ...]
    """Seconds of training before each measurement, the first 0; measuring is not counted."""
    success: tuple[float, ...]
    """What was measured then."""

    def monotone(self) -> tuple[float, ...]:
        """The closest curve that never falls (isotonic regression): a measurement's noise is no way to be early."""
        return tuple(isotonic_regression(np.asarray(self.success)).x.tolist())

    def seconds_to(self, target: float) -> float:
        """Seconds until the monotone curve reaches a success, straight lines between measurements; inf = never."""
        levels = self.monotone()
        for place, level in enumerate(levels):
            if level >= target:
                if place == 0:
                    return 0.0
                below, start = levels[place - 1], self.seconds[place - 1]
                return start + (self.seconds[place] - start) * (target - below) / (level - below)
        return math.inf


def target_of(plain: Curve, *, share: float) -> float:
    """Success that counts as reached: `share` of what plain training gained from its start to its end."""
    levels = plain.monotone()
    return levels[0] + share * (levels[-1] - levels[0])


def speedup(plain: Curve, other: Curve, *, share: float) -> float:
    """Plain seconds to the target over the other's; 0 = the other never reached it, nan = plain gained nothing."""
    target = target_of(plain, share=share)
    if target <= plain.monotone()[0]:
        return math.nan
    seconds = other.seconds_to(target)
    return math.inf if seconds == 0 else plain.seconds_to(target) / seconds


def ratio_interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Median of ratios over seeds, and their t interval, taken on logarithms; nan where it can't be."""
    usable = [math.log(ratio) for ratio in ratios if 0 < ratio < math.inf]
    if len(usable) < 2 or len(usable) < len(ratios):
        return float(np.median(ratios)), math.nan, math.nan
    interval = t_interval_across_seeds(usable)
    return float(np.median(ratios)), math.exp(interval.low), math.exp(interval.high)


def final_difference(plain: Sequence[Curve], other: Sequence[Curve]) -> Interval | None:
    """Other minus plain at the end, with its t interval over seeds; None = one seed only."""
    values = [two.success[-1] - one.success[-1] for one, two in zip(plain, other, strict=True)]
    return t_interval_across_seeds(values) if len(values) > 1 else None
