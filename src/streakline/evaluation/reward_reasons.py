"""Why a trajectory got less than the best reward, and how often each reason occurs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streakline.evaluation.reward_rows import ScoredRow
from streakline.rewards.leaks import find_leak
from streakline.types import Role

_PARTS: Final = frozenset({"process", "trust", "untiered", "leak"})
"""What a hybrid reward notes beside the scores of its terms."""
_ANSWER: Final = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The trajectories that have something in common."""

    count: int
    share: float
    """Of all trajectories."""
    mean_reward: float | None
    """Over those that are scored; None = none is."""


def best_values(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Best value that a term can have: 1; 0 for a deduction, which is never above; more where more was seen."""
    seen: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.terms.items():
            if value is not None and name not in _PARTS:
                seen.setdefault(name, []).append(value)
    return {name: 0.0 if min(values) < 0 and max(values) <= 0 else max(1.0, *values) for name, values in seen.items()}


def summarise(rows: Sequence[ScoredRow]) -> dict[str, dict[str, Share]]:
    """Count by termination, reward, lowest term and worst tier; the most frequent first."""
    best = best_values(rows)
    questions: dict[str, Callable[[ScoredRow], str]] = {
        "termination": lambda row: row.termination,
        "reward": _level,
        "lowest term": lambda row: next(iter(_shortfalls(row, best)), "none below its best"),
        "worst tier": _tier,
    }
    return {question: _shares(rows, answer) for question, answer in questions.items()}


def reason(row: ScoredRow, *, best: Mapping[str, float]) -> str:
    """One line that says what a trajectory lost its reward by.

    `best` holds the best value of each term. A row of a hybrid reward reads such as
    `answer 0 x trust .60; process .82: non_empty_answer 0`.
    """
    found = [*_missing_scores(row), *_ending(row), *_leak(row), *_terms(row, best), *_faults(row)]
    return "; ".join(found) or "no term is below its best"


def number(value: float | None) -> str:
    """A score, short: `.82`, `0` and `1` for exactly these, `-` where there is none."""
    if value is None:
        return "-"
    text = f"{value:.0f}" if value == int(value) else f"{value:.2f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _level(row: ScoredRow) -> str:
    if row.reward is None:
        return "unscored"
    if row.reward in (0, 1):
        return number(row.reward)
    return "below 0" if row.reward < 0 else "above 1" if row.reward > 1 else "in between"


def _tier(row: ScoredRow) -> str:
    """Worst tier of the results; `live` is also what a row holds where there was none."""
    has_none = not row.results and not any(note.results for note in row.turns.values())
    return "no result" if row.turns and has_none else row.tier


def _shares(rows: Sequence[ScoredRow], answer: Callable[[ScoredRow], str]) -> dict[str, Share]:
    groups: dict[str, list[float | None]] = {}
    for row in rows:
        groups.setdefault(answer(row), []).append(row.reward)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        name: Share(count=len(rewards), share=len(rewards) / len(rows), mean_reward=_mean(rewards))
        for name, rewards in ordered
    }


def _mean(rewards: Sequence[float | None]) -> float | None:
    known = [reward for reward in rewards if reward is not None]
    return sum(known) / len(known) if known else None


def _shortfalls(row: ScoredRow, best: Mapping[str, float]) -> dict[str, float]:
    """Terms below their best and their values, the furthest below first."""
    known = {name: value for name, value in row.terms.items() if value is not None and name in best}
    below = {name: value for name, value in known.items() if value < best[name]}
    return dict(sorted(below.items(), key=lambda item: item[1] - best[item[0]]))


def _missing_scores(row: ScoredRow) -> list[str]:
    absent = [name for name, value in row.terms.items() if value is None and name not in _PARTS]
    if not row.terms and row.reward is None:
        return ["not scored"]
    return [f"no score from {', '.join(absent)}"] if absent else []


def _ending(row: ScoredRow) -> list[str]:
    if row.termination == "answer":
        return []
    return [f"ended by {row.termination}" + (f" ({row.detail})" if row.detail else "")]


def _leak(row: ScoredRow) -> list[str]:
    if not row.terms.get("leak"):
        return []
    last = row.messages[-1] if row.messages else None
    answer = last.content if last is not None and last.role is Role.ASSISTANT else ""
    return [f"leak in the answer: {find_leak(answer) or 'a rule of another version'}"]


def _terms(row: ScoredRow, best: Mapping[str, float]) -> list[str]:
    below = _shortfalls(row, best)
    words = [f"{name} {number(value)}" for name, value in below.items() if name != _ANSWER]
    process, trust = row.terms.get("process"), row.terms.get("trust")
    if process is None or trust is None:
        return [f"{name} {number(value)}" for name, value in below.items()]
    answer = [f"answer {number(below[_ANSWER])} x trust {number(trust)}"] if _ANSWER in below else []
    return answer + ([f"process {number(process)}: {', '.join(words)}"] if words else [])


def _faults(row: ScoredRow) -> list[str]:
    """What the turns show beside the scores."""
    malformed = sum(note.malformed_calls for note in row.turns.values())
    failed = sum(note.is_error for note in row.results.values())
    counts = {"malformed": malformed, "failed": failed}
    return [f"{count} {what} call{'s' if count > 1 else ''}" for what, count in counts.items() if count]
