"""The formatting of numbers and labels."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from dpaudit.core import membership, rounding
from dpaudit.core.estimate import Estimate
from dpaudit.core.rounding import at_least, at_most, measured
from dpaudit.record.result import ClaimRecord, VerdictRecord
from dpaudit.record.values import Control
from dpaudit.reports.table import NONE

_NEIGHBOURS = {
    "rating-replace": "the value of one rating is replaced",
    "rating-add-remove": "one rating is added or removed",
    "user-replace": "all ratings of one user are replaced",
    "user-add-remove": "a user with all their ratings is added or removed",
    "entry-replace": "one entry of the completed matrix is replaced",
}
_OBSERVERS: Mapping[str, str] = {
    "public": "the released model",
    "iterates": "the model after every step or round",
    "recommender": "all that the recommender receives and generates",
    "friend": "all that a friend receives and generates",
    "values": "the predictions shown to one user",
    "list": "the ranked list shown to one user, without values",
    **membership.SEEN,
}


def roughly(seconds: float) -> str:
    """Return a forecast of a duration: `less than a minute`, `about 3 minutes`, `about 2 hours`."""
    if seconds < 60:
        return "less than a minute"
    count, unit = (seconds / 60, "minute") if seconds < 7200 else (seconds / 3600, "hour")
    return f"about {count:.0f} {unit}{'s' if round(count) > 1 else ''}"


def seconds(value: float) -> str:
    """Format a measured duration: `0.042 s`, `9.1 s`, `130 s`."""
    digits = 2 if value < 1 else 1 if value < 10 else 0
    return f"{measured(value, digits)} s"


def meaning(name: str) -> str:
    """Return an adjacency or an observer with its meaning; the name alone if it is unknown."""
    known = {**_NEIGHBOURS, **_OBSERVERS}
    return f"{name}: {known[name]}" if name in known else name


def epsilon(value: float) -> str:
    """Format an ε as in the config: `0.01`, `1000`, `∞`."""
    return "∞" if value == math.inf else f"{value:.6g}"


def interval(estimate: Estimate, digits: int = 3) -> str:
    """Format an estimate and its interval, rounded outwards, e.g. `0.130 [0.112, 0.149]`."""
    low, high = at_least(estimate.lower, digits), at_most(estimate.upper, digits)
    return f"{measured(estimate.value, digits)} [{low}, {high}]"


def number(value: float | None) -> str:
    """Format a number with four significant digits."""
    return NONE if value is None else f"{value:.4g}"


def about(count: int) -> int:
    """Round a count to two significant digits, so that it tells little about any one record."""
    return round(count, 2 - len(str(count)))


percent = rounding.percent


def observer(name: str) -> str:
    """Return what an observer sees, in words if it is a built-in one."""
    return _OBSERVERS.get(name, name)


def neighbours(adjacency: str) -> str:
    """Return how neighbouring data sets differ, in words if it is a built-in adjacency."""
    return _NEIGHBOURS.get(adjacency, adjacency)


def claim(record: ClaimRecord) -> str:
    """Return what a claim is about, without its ε: neighbours, observers, δ and assumptions."""
    differ = neighbours(record.adjacency)
    seen = ", or ".join(map(observer, (record.observer, *record.also)))
    parts = [differ, f"seen: {seen}", f"δ = {record.delta:g}"]
    return "; ".join([*parts, *(f"assumes {assumption}" for assumption in record.assumes)])


def power(control: Control | None) -> str:
    """Return which mutant a game found; of several, the weakest."""
    if control is None:
        return "none"
    return f"{'finds' if control.found else 'none up to'} {control.factor:.3g}×"


def caught(verdicts: Sequence[VerdictRecord]) -> str:
    """Return the sizes of the leaks that are caught, from the least to the largest."""
    factors = sorted(verdict.factor for verdict in verdicts if verdict.factor is not None)
    ends = dict.fromkeys(f"{factor:.3g}" for factor in (factors[0], factors[-1]))
    conditions = dict.fromkeys(verdict.condition for verdict in verdicts)
    return f"{' to '.join(ends)} times the claim{' or'.join(conditions)}"


def settings(values: Mapping[str, Any], but: Collection[str] = ()) -> str:
    """Format the parameters that are set, e.g. `top_k = 20, outputs = 1`."""
    shown = {key: value for key, value in values.items() if value is not None and key not in but}
    return ", ".join(f"{key} = {value}" for key, value in shown.items())


def listed(values: Iterable[float]) -> str:
    """Format several ε, e.g. `0.1, 1, ∞`."""
    return ", ".join(epsilon(value) for value in values)
