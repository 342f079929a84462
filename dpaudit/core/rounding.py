"""Measured numbers as text; ends of intervals are rounded outwards, so that they still hold."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

# Code of others may change the context of its thread.
_EXACT = Context(prec=28)


def measured(value: float, digits: int = 3, rounding: str = ROUND_HALF_EVEN) -> str:
    """Format a measured number with `digits` decimals.

    Numbers below 0.01 get two significant digits, those below 0.0001 as in `1.7e-12`; numbers from
    10^15 on get six.
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "NaN")
    exact = Decimal(repr(value))
    if abs(value) < 0.01:
        digits = 1 - exact.adjusted()
    if abs(value) < 1e-4:
        return f"{_rounded(exact, digits, rounding):.1e}"
    if abs(value) >= 1e15:
        return f"{_rounded(exact, 5 - exact.adjusted(), rounding):.6g}"
    return f"{_rounded(exact, digits, rounding):f}"


def _rounded(exact: Decimal, digits: int, rounding: str) -> Decimal:
    return exact.quantize(Decimal((0, (1,), -digits)), rounding, _EXACT)


def percent(share: float, digits: int = 6, rounding: str = ROUND_HALF_EVEN) -> str:
    """Format a share in per cent with so many significant digits at most, e.g. `95 %`, `100 %`.

    Args:
        share: the share; what differs in the tenth digit, as by a rounding error, is the same.
        digits: the number of significant digits, at most 9.
        rounding: `ROUND_CEILING` for what is at most the share, `ROUND_FLOOR` for at least.
    """
    context = Context(digits, rounding)
    shown = context.plus(Decimal(f"{100 * share:.9e}")).normalize(context)
    return f"{shown:f} %"


def at_least(value: float, digits: int = 3) -> str:
    """Format a lower bound, rounded down so that it is still a bound."""
    return measured(value, digits, ROUND_FLOOR)


def at_most(value: float, digits: int = 3) -> str:
    """Format an upper bound, rounded up."""
    return measured(value, digits, ROUND_CEILING)
