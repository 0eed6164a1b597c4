"""The ends of a run as one HTML page that needs nothing but a browser."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined

from streakline.evaluation.reward_reasons import number, reason
from streakline.evaluation.reward_report import Inspection, printable, result_words, signature, turn_words
from streakline.types import Tier

_MAX_TEXT: Final = 20_000
"""Characters of one message, result or stretch of tokens."""


def render_page(shown: Inspection) -> str:
    """The page. What a policy or a tool wrote is text in it, never markup."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"plain": _plain, "number": number}
    environment.globals |= {
        "level": _level,
        "percent": _percent,
        "reason": reason,
        "result_words": result_words,
        "signature": signature,
        "tiers": frozenset(Tier),
        "turn_words": turn_words,
    }
    source = (files("streakline.evaluation") / "reward_page.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(source).render(shown=shown, best=shown.best)


def _plain(text: str, limit: int = _MAX_TEXT) -> str:
    return printable(text, limit=limit)


def _percent(value: float | None, of: float = 1.0) -> int:
    """Length of a bar."""
    return 0 if value is None or of <= 0 else round(100 * min(max(value / of, 0.0), 1.0))


def _level(value: float | None) -> str:
    """Colour of a reward."""
    return "none" if value is None else "high" if value >= 1 else "middle" if value > 0 else "low"
