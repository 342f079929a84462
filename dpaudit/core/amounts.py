"""Durations and sizes in words."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


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
