"""Lower bounds on ε from the log-likelihood ratio of the release's known law.

With the output laws P (on D') and Q (on D) and L = ln dP/dQ, δ(ε) = E_P[(1 − e^{ε−L})_+] is the
smallest δ for which P ≤ e^ε Q + δ on every event. Trials on D' suffice to estimate it, drawn from P
or from a proposal with importance weights. The bound is invalid if L is wrong; `two_sample` bounds
ε for any L, from trials on both data sets. Both bounds bet on the trials in their order.
`dpaudit.bounds.frequentist.means` describes the stakes and proves that the rejected candidates form
an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.frequentist.means import LOSS, block_starts, grows, last_held, stakes
from dpaudit.bounds.outcomes import check_alpha, check_delta, lower_bound
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Values = NDArray[np.float64]

# Plan once this many trials, and this share of all, are known, and again at each doubling.
_FIRST, _FIRST_SHARE = 16, 1 / 16
# Halvings of the interval in the search for a bound on ε.
HALVINGS = 11


def log_ratios(values: ArrayLike, name: str) -> Values:
    """Return the log-likelihood ratios of one class as an array of numbers or ±inf."""
    try:
        ratios = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} are not numbers: {error}") from error
    if ratios.ndim != 1 or not len(ratios):
        raise InputError(f"{name} have shape {ratios.shape}: give at least one, one per trial")
    bad = np.flatnonzero(np.isnan(ratios))
    if len(bad):
        raise InputError(f"{name}[{bad[0]}] = nan is not a number: use 0 for no evidence")
    return ratios


def weights(values: ArrayLike | None, like: Values, name: str) -> Values:
    """Return the importance weights of one class; 1 by default."""
    if values is None:
        return np.ones(len(like))
    given = np.asarray(values, dtype=np.float64)
    if given.shape != like.shape:
        raise InputError(f"{name} have shape {given.shape}: give {len(like)}, one per trial")
    bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if len(bad):
        raise InputError(f"{name}[{bad[0]}] = {given[bad[0]]} is not a finite number of at least 0")
    return given


def _excess(log_ratio: Values, epsilon: float) -> Values:
    """Return (1 − e^{ε−L})_+, in [0, 1]."""
    if epsilon == math.inf:
        return np.asarray(log_ratio == math.inf, dtype=np.float64)
    return -np.expm1(np.minimum(epsilon - log_ratio, 0))


def plan_times(starts: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """Return for each block the number of earlier trials that its plan uses; 0: no plan yet."""
    first = max(_FIRST, n * _FIRST_SHARE)
    doublings = 2 ** np.floor(np.log2(np.maximum(starts, 1) / first)) * first
    later = np.where(starts < first, 0, doublings).astype(int)
    # The plan is made at the first block that starts after this many trials.
    return np.array([starts[np.argmax(later == t)] if t else 0 for t in later])


def _planned_variances(log_ratio: Values, weight: Values, delta: float) -> Values:
    """Predict the variance of w (1 − e^{ε−L})_+ in each block, at the largest plausible ε."""
    times = plan_times(block_starts(len(weight)), len(weight))
    variances = {0: math.inf}
    for t in set(times.tolist()) - {0}:
        ratio, w = log_ratio[:t], weight[:t]

        top = float(ratio[np.isfinite(ratio)].max(initial=0))
        within = partial(_within, ratio, w, delta)
        variance = _moments(ratio, w, last_held(within, top, top / 8))[1]
        variances[t] = variance if variance > 0 else math.inf
    return np.array([variances[t] for t in times.tolist()])


def _moments(log_ratio: Values, weight: Values, epsilon: float) -> tuple[float, float]:
    """Return mean and variance of w (1 − e^{ε−L})_+, the latter with one more extreme value."""
    values = _excess(log_ratio, epsilon) * weight
    return float(values.mean()), float(values.var() + values.max() ** 2 / (4 * len(values)))


def _within(log_ratio: Values, weight: Values, delta: float, epsilon: float) -> bool:
    """Return whether the mean exceeds δ by two standard errors."""
    mean, variance = _moments(log_ratio, weight, epsilon)
    return mean - 2 * math.sqrt(variance / len(weight)) > delta


def likelihood_epsilon(
    log_ratio: ArrayLike,
    *,
    delta: float = 0.0,
    weight: ArrayLike | None = None,
    alpha: float = 0.05,
) -> Estimate:
    """Return a lower bound on ε at δ if L is the true log-likelihood ratio (kind `assumes-law`).

    An ε is certified if the wealth of a bet on E[w (1 − e^{ε−L})_+] > δ grows from α to 1. If the
    mechanism is (ε*, δ)-DP, the mean is at most δ at ε*, and the wealth there is a supermartingale.
    The values fall with ε, the plan does not depend on ε, and the wealth grows with the values. So
    a bound above ε* implies that ε* is certified too, which has probability at most α. No level is
    split. At δ = 0, ε is the essential supremum of L, and each L with a positive weight is a lower
    bound with certainty. Steinke 2022, arXiv:2210.00597, Proposition 7; betting after Waudby-Smith
    & Ramdas 2024, arXiv:2010.09686.

    Args:
        log_ratio: L = ln(dP/dQ) at outputs of P, in the order of the trials; `inf` where Q has no
            mass; shape (n,).
        delta: the δ, in [0, 1).
        weight: dP/dR, if the outputs were drawn from a proposal R; ≥ 0, need not be bounded;
            shape (n,).
        alpha: the level of the bound.

    Raises:
        InputError: a ratio is NaN, a weight is negative, shapes differ, or a parameter is out of
            range.
    """
    check_delta(delta)
    check_alpha(alpha)
    ratio = log_ratios(log_ratio, "log_ratio")
    w = weights(weight, ratio, "weight")
    n = len(ratio)

    def estimate(lower: float, value: float) -> Estimate:
        return lower_bound(
            lower, value=value, alpha=alpha, n=n, method="likelihood betting", kind="assumes-law"
        )

    seen = ratio[w > 0]
    if delta == 0:
        largest = float(seen.max(initial=0))
        return estimate(largest, largest)
    plan = stakes(block_starts(n), _planned_variances(ratio, w, delta), n)
    shares = np.minimum(plan.shares, LOSS / delta)
    bets = plan.per_value(shares)

    def certified(epsilon: float) -> bool:
        return grows(1 + bets * (_excess(ratio, epsilon) * w - delta), shares, plan, alpha)

    def plausible(epsilon: float) -> bool:
        return float(np.mean(_excess(ratio, epsilon) * w)) > delta

    top = float(seen[np.isfinite(seen)].max(initial=0))

    def largest_where(holds: Callable[[float], bool]) -> float:
        if holds(math.inf):
            return math.inf
        return last_held(holds, top, top / 8, HALVINGS)

    return estimate(largest_where(certified), largest_where(plausible))
