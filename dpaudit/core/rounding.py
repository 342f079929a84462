"""Numbers, durations and sizes as text, and text as numbers.

Ends of intervals are rounded outwards, so that they still hold.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

# Code of others may change the context of its thread.
_EXACT = Context(prec=28)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


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
    percentage = context.plus(Decimal(f"{100 * share:.9e}")).normalize(context)
    return f"{percentage:f} %"


def at_least(value: float, digits: int = 3) -> str:
    """Format a lower bound, rounded down so that it is still a bound."""
    return measured(value, digits, ROUND_FLOOR)


def at_most(value: float, digits: int = 3) -> str:
    """Format an upper bound, rounded up."""
    return measured(value, digits, ROUND_CEILING)


def duration(seconds: float) -> str:
    """Write a duration in the largest of its units, or the two largest."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    whole = round(seconds)
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{seconds:.3g} s"


def size(count: float) -> str:
    """Write a number of bytes in its largest unit."""
    unit = 0
    while count >= 1024 and unit + 1 < len(_UNITS):
        count, unit = count / 1024, unit + 1
    return f"{number(count)} {_UNITS[unit]}"


def number(value: float) -> str:
    """Write a number with three digits, and all digits before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def plain_number(text: str) -> float:
    """Convert text to a number, as other languages and spreadsheets write it.

    Python also reads `1_0` and the digits of other scripts, which are likelier mistakes.

    Raises:
        ValueError: the text is no number.
    """
    if not text.isascii() or "_" in text:
        raise ValueError(f"could not convert string to float: {text!r}")
    return float(text)
