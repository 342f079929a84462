"""How many trainings would decide a gate that is inconclusive, if further ones show the like."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpaudit.auditor.means import joint_mean
from dpaudit.auditor.trainings import NEXT, JudgedTrainings, certified, threshold
from dpaudit.bounds.frequentist.next_draw import draws_needed
from dpaudit.bounds.planning import Game, trials_needed
from dpaudit.config.gate import Gate, rated
from dpaudit.core.errors import InputError
from dpaudit.record.metrics import entry
from dpaudit.record.result import Family, Measurement, Outcome
from dpaudit.record.values import Census, Noise

# The largest multiple of the judged trainings that is tried.
_MOST = 64


class Needed(NamedTuple):
    """How many times the judged trainings would decide a gate, and how.

    Attributes:
        times: the multiple.
        outcome: what it would be decided to.
    """

    times: float
    outcome: Outcome


def times_needed(
    gate: Gate,
    measurement: Measurement,
    trainings: JudgedTrainings,
    limit: float | None,
    family: Family,
) -> Needed | None:
    """Return how many times the judged trainings would decide a gate; None if that is not known.

    It is a forecast: what the judged trainings show is repeated, until it decides. Where trainings
    show values around the threshold, or few targets are the reason, no number of them decides.

    Args:
        gate: a gate that is inconclusive.
        measurement: what it judges.
        trainings: what the judged trainings say.
        limit: the threshold; None if nothing is claimed.
        family: the family of the run's intervals.
    """
    census = measurement.census
    if measurement.metric == "epsilon":
        return None if limit is None else _bound(gate, measurement, limit)
    if census is None or gate.of == "this-model":
        return None
    if gate.of in NEXT:
        return _next(gate, census, trainings)
    return _mean(gate, measurement, census, family)


def coins_needed(
    limit: float, factor: float, noise: Noise, delta: float, alpha: float
) -> int | None:
    """Forecast how many coins find a leak of so many times a limit in 95 of 100 runs.

    Args:
        limit: the ε to exceed.
        factor: the leak's ε as a multiple of it.
        noise: the law of the leak's noise.
        delta: the δ of the bound and of the leak.
        alpha: the level of the bound.

    Returns:
        The number of coins; None if no number below 10⁹ suffices.
    """
    game: Game = "gaussian" if noise == "Gaussian" else "laplace"
    how = {"delta": delta, "confidence": 1 - alpha}
    try:
        return trials_needed(limit, factor, **how, game=game, method="one-run")
    except InputError:
        return None


def _next(gate: Gate, census: Census, trainings: JudgedTrainings) -> Needed | None:
    count = len(census.values)
    # Gates pass together: trainings of a model that has fewer of them are the reason.
    if trainings.alpha <= 0 or trainings.trainings < count:
        return None
    _, divisor, most = trainings.risk(gate)
    if most <= trainings.few(count):
        return Needed(draws_needed(most, trainings.alpha / divisor) / count, "pass")
    numbers = len(trainings.of_numbers)

    def decides(times: int) -> Outcome | None:
        sure = certified(gate, _repeated(census, times), trainings.alpha, numbers)
        return "fail" if sure else None

    return _least(decides)


def _mean(gate: Gate, measurement: Measurement, census: Census, family: Family) -> Needed | None:
    metric, limit = entry(measurement.metric), threshold(gate)
    if rated(measurement.metric):
        return None  # their interval has the width of the rating scale, which is not known here
    least = -1.0 if measurement.metric in ("attack.advantage", "leak") else 0.0

    def decides(times: int) -> Outcome | None:
        low, high = (
            getattr(joint_mean(np.array(rows * times), family, least), side)
            for rows, side in ((census.values, "lower"), (census.worst, "upper"))
        )
        reverse = -math.inf if metric.mirror is None else metric.mirror - low
        broken, kept = low > limit, max(high, reverse) <= limit
        if gate.min is not None:
            broken, kept = high < limit, low >= limit
        return "fail" if broken else "pass" if kept else None

    return _least(decides)


def _bound(gate: Gate, measurement: Measurement, limit: float) -> Needed | None:
    """Return it for the control of a bound on ε, by the law of the leaks that were planted."""
    control = next(iter(measurement.controls), None)
    if control is None or control.noise is None or not gate.detectable:
        return None
    coins = coins_needed(
        limit, gate.detectable, control.noise, control.delta, measurement.estimate.alpha
    )
    return None if coins is None else Needed(max(1.0, coins / measurement.estimate.n), "pass")


def _repeated(census: Census, times: int) -> Census:
    return census.model_copy(
        update={
            name: getattr(census, name) * times for name in ("values", "lower", "upper", "most")
        }
    )


def _least(decides: Callable[[int], Outcome | None]) -> Needed | None:
    """Return the least multiple that decides, of powers of two; None without any."""
    times = 2
    while times <= _MOST:
        if outcome := decides(times):
            return Needed(times, outcome)
        times *= 2
    return None
