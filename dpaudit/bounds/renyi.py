"""Upper bounds on ε by Rényi divergences, for δ that no sum of probabilities resolves.

A privacy loss distribution is composed in double precision, which leaves an error of about 1e-12 in
δ. Rényi divergences add up in logarithms, so a δ of 1e-60 is as good as any. Every order α > 1
gives a bound (Canonne, Kamath, Steinke 2020, Proposition 12, arXiv:2004.00010):

    ε = D_α + ln((α − 1)/α) − (ln δ + ln α)/(α − 1).

With D_α = ln M_α/(α − 1), this is a convex function of α over α − 1, which falls to its minimum and
rises behind it. The orders are a fixed grid, so the bound falls with δ and with the noise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# α − 1 of every order. The grid is fine because D_α of a sampled mechanism rises steeply from the
# order on at which a round that includes the record dominates.
_EXCESSES = 2.0 ** (np.arange(-10 * 128, 17 * 128 + 1) / 128)
# The relative errors of an integral: e^−40 by its steps, and e^−50 by its ends.
_DIGITS, _DEVIATIONS = 40.0, 10.0
# The most steps of an integral; orders that need more are left out.
_MOST = 2**14
# The relative error of a sum of logarithms in double precision.
_ROUNDING = 1e-15


def renyi_gaussian_epsilon(
    sigma: float, *, delta: float, compositions: int, sampling: float, replaced: bool
) -> float:
    """Return an upper bound on the ε of Gaussian noise on Poisson samples, composed.

    The dominating pair of a round is `gaussian_mechanism_epsilon`'s. For a record that is added or
    removed, the divergence of the mixture from N(0, σ²) is the larger of the two directions
    (Mironov, Talwar, Zhang 2019, Theorem 5, arXiv:1908.10530); for a replaced one both are equal.

    Args:
        sigma: the noise multiplier, above 0.
        delta: the δ, above 0.
        compositions: the number of rounds.
        sampling: q in (0, 1).
        replaced: whether the record is replaced, not added or removed.
    """

    def moment(excess: float) -> float:
        return compositions * _gaussian_moment(sigma, sampling, excess, replaced)

    return _least(moment, delta)


def renyi_laplace_epsilon(losses: NDArray[np.float64], *, delta: float) -> float:
    """Return an upper bound on the ε of independent Laplace noise on several coordinates.

        M_α = Π_j (α e^{(α − 1) λ_j} + (α − 1) e^{−α λ_j})/(2α − 1)

    Mironov 2017, Proposition 6, arXiv:1702.07476.

    Args:
        losses: λ, each coordinate's change over its scale `(k,)`, finite.
        delta: the δ, above 0.
    """

    def moment(excess: float) -> float:
        alpha = 1 + excess
        with np.errstate(over="ignore"):  # an order whose moment is infinite
            ends = math.log(alpha) + excess * losses, math.log(excess) - alpha * losses
            parts = np.logaddexp(*ends) - math.log(alpha + excess)
            return float(np.sum(parts + _ROUNDING * (16 + alpha + alpha * losses)))

    return _least(moment, delta)


def _least(moment: Callable[[float], float], delta: float) -> float:
    """Return the least ε of all orders, from `moment(α − 1) = ln M_α`."""

    def bound(order: int) -> float:
        excess = float(_EXCESSES[order])
        ends = excess * math.log(excess) - (1 + excess) * math.log1p(excess)
        return (moment(excess) + ends - math.log(delta)) / excess

    last = len(_EXCESSES) - 1
    best = bisect_left(range(last), True, key=lambda order: bound(order + 1) >= bound(order))
    return max(0.0, bound(best))


def _gaussian_moment(sigma: float, q: float, excess: float, replaced: bool) -> float:
    """Return `ln M_α` of one round, rounded up; infinite if that takes too many steps.

        M_α = ∫ N(x; 0, σ²) a(x)^α b(x)^{1−α} dx,    a(x) = 1 − q + q e^{(2x − 1)/2σ²}

    with b(x) = a(−x) for a replaced record, else 1. The trapezoidal rule of step h is used. The
    integrand f is analytic for |Im x| < πσ². At Im x = θσ², |a| is at most its value at the real
    part and at least cos(θ/2) of it, so |f| grows by at most e^{σ²θ²/2} cos(θ/2)^{1−α}, and the
    relative error is at most 2 e^{σ²θ²/2} cos(θ/2)^{1−α}/(e^{2πσ²θ/h} − 1) (Trefethen & Weideman
    2014, Theorem 5.1, doi:10.1137/130932132). Above m = α, or 2α − 1 if replaced, f falls like
    e^{−(x − m)²/2σ²} or faster, and so below 0.
    """
    alpha, peak = 1 + excess, 1 + (2 if replaced else 1) * excess
    curve = excess / 8 if replaced else 0.0
    angle = min(math.pi / 2, math.sqrt(_DIGITS / (curve + sigma**2 / 2)))
    growth = (sigma * angle) ** 2 / 2
    if replaced:
        growth -= excess * math.log(math.cos(angle / 2))
    step = 2 * math.pi * sigma**2 * angle / (_DIGITS + growth)
    count = (peak + 2 * _DEVIATIONS * sigma) / step + 2
    if count > _MOST:
        return math.inf
    x = step * np.arange(int(count), dtype=np.float64) - _DEVIATIONS * sigma
    parts = alpha * _log_ratio(x, sigma, q) - x**2 / (2 * sigma**2)
    if replaced:
        parts -= excess * _log_ratio(-x, sigma, q)
    whole = float(np.logaddexp.reduce(parts)) + math.log(step / sigma / math.sqrt(2 * math.pi))
    return whole + _ROUNDING * (64 + alpha + count + float(np.abs(parts).max()))


def _log_ratio(x: NDArray[np.float64], sigma: float, q: float) -> NDArray[np.float64]:
    """Return `ln a(x)`."""
    return np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * sigma**2))
