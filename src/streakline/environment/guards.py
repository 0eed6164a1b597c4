"""Refusals for calls that would hold the interpreter for hours: no time-out can interrupt a huge integer operation."""

from __future__ import annotations

from collections.abc import Mapping

from streakline.types import JSON

_MAX_DIGITS = 1000
"""Digits of precision that a calculation may ask for."""
_MAX_POWER_BITS = 14_000
"""Size of an integer power: just under the 4300 digits that Python converts to text."""


def refusal(tool: str, arguments: Mapping[str, JSON]) -> str:
    """Say why a call is not run although its arguments have the right types; empty = run it."""
    for name in ("precision", "decimal_places"):
        value = arguments.get(name)
        if isinstance(value, int) and abs(value) > _MAX_DIGITS:
            return f"Expected `{name}` to be at most {_MAX_DIGITS}, but got {value}"
    if tool == "power" and _power_bits(arguments.get("base"), arguments.get("exponent")) > _MAX_POWER_BITS:
        return f"Expected a result of at most {_MAX_POWER_BITS} bits, but got a larger power"
    return ""


def _power_bits(base: JSON, exponent: JSON) -> int:
    """Bits of an integer power; 0 for one that is no integer, since powers of floats overflow at once."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        return exponent * base.bit_length()
    return 0
