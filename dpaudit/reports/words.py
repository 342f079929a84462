"""How numbers and labels are written: the one place that rounds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any

from dpaudit.auditor.result import ClaimRecord
from dpaudit.bounds.estimate import Estimate
from dpaudit.reports.table import NONE


def epsilon(value: float) -> str:
    """An ε as the config gives it: `0.01`, `1000`, `∞`."""
    return "∞" if value == math.inf else f"{value:.6g}"


def measured(value: float, digits: int = 3, rounding: str = ROUND_HALF_EVEN) -> str:
    """A measured number with this many decimals; below 0.01 with two significant digits.

    From 10^15 on it has six.
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "NaN")
    exact = Decimal(repr(value))
    if abs(value) < 0.01:
        digits = 1 - exact.adjusted()
    if abs(value) >= 1e15:
        return f"{exact.quantize(Decimal(1).scaleb(exact.adjusted() - 5), rounding):.6g}"
    return f"{exact.quantize(Decimal(1).scaleb(-digits), rounding):f}"


def at_least(value: float, digits: int = 3) -> str:
    """A lower bound, rounded down so that what is written is still a bound."""
    return measured(value, digits, ROUND_FLOOR)


def at_most(value: float, digits: int = 3) -> str:
    """An upper bound, rounded up."""
    return measured(value, digits, ROUND_CEILING)


def interval(estimate: Estimate, digits: int = 3) -> str:
    """An estimate with its interval, e.g. `0.130 [0.112, 0.149]`; the ends are rounded outwards."""
    low, high = at_least(estimate.lower, digits), at_most(estimate.upper, digits)
    return f"{measured(estimate.value, digits)} [{low}, {high}]"


def number(value: float | None) -> str:
    """Four significant digits."""
    return NONE if value is None else f"{value:.4g}"


def percent(share: float) -> str:
    """A share in per cent, e.g. `95 %`."""
    return f"{100 * share:.6g} %"


def claim(record: ClaimRecord) -> str:
    """What a claim holds for and what it assumes, without its ε."""
    said = f"adjacency {record.adjacency}, observer sees {record.observer}, δ = {record.delta:g}"
    return f"{said}; assumes {'; '.join(record.assumes)}" if record.assumes else said


def settings(values: Mapping[str, Any], but: Collection[str] = ()) -> str:
    """Parameters that are set, e.g. `top_k = 20, outputs = 1`."""
    shown = {key: value for key, value in values.items() if value is not None and key not in but}
    return ", ".join(f"{key} = {value}" for key, value in shown.items())


def listed(values: Iterable[float]) -> str:
    """Several ε, e.g. `0.1, 1, ∞`."""
    return ", ".join(epsilon(value) for value in values)
