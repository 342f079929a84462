"""Several bounds at once: shares of the error probability, Holm, false discoveries, p-values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.outcomes import check_alpha
from dpaudit.core.errors import InputError

# p-values are looked for in this range; outside it they are rounded up.
_LEAST, _MOST = 1e-15, 1 - 1e-9
# Relative width at which the search stops.
_WIDTH = 1e-9


@dataclass(frozen=True)
class Holm:
    """Claims rejected together, none wrongly but with probability α.

    Attributes:
        rejected: whether each claim is rejected.
        adjusted: each claim's adjusted p-value, the least α at which it would be rejected.
    """

    rejected: tuple[bool, ...]
    adjusted: tuple[float, ...]


def split(alpha: float, size: int) -> float:
    """Each bound's level when `size` bounds hold together with confidence 1 − α: `α / size`.

    The union bound (Bonferroni); the bounds may depend on each other in any way.

    Raises:
        InputError: α is not in (0, 1), or `size` is not a whole number of at least 1.
    """
    check_alpha(alpha)
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise InputError(f"size = {size!r} is not a number of bounds: give a whole number from 1")
    return alpha / int(size)


def weighted_split(alpha: float, weights: Sequence[float]) -> list[float]:
    """Each bound's level when the shares of α are proportional to `weights`, fixed in advance.

    `α_i = α w_i / Σ w`: the union bound holds for any shares that do not depend on the outcomes.

    Raises:
        InputError: α is not in (0, 1), or a weight is not a finite number above 0.
    """
    check_alpha(alpha)
    if not len(weights):
        raise InputError("weights are empty: give one weight a bound")
    for i, weight in enumerate(weights):
        if not 0 < weight < math.inf:
            raise InputError(
                f"weights[{i}] = {weight} is not a finite number above 0: leave it out"
            )
    # Scaled first, since the sum of finite weights may overflow.
    scaled = [weight / max(weights) for weight in weights]
    levels = [alpha * weight / math.fsum(scaled) for weight in scaled]
    if min(levels) == 0:
        raise InputError(f"weights from {min(weights)} to {max(weights)} leave a bound no share")
    return levels


def holm(p_values: Sequence[float], alpha: float) -> Holm:
    """Which claims are rejected when all rejections are to be right with confidence 1 − α.

    With `p_(1) ≤ … ≤ p_(m)` the claims (1) … (i) are rejected as long as `p_(i) ≤ α/(m − i + 1)`.
    The p-values may depend on each other in any way. Never fewer rejections than `split` gives, but
    only rejections: no simultaneous bounds come with them. Holm 1979, Scandinavian Journal of
    Statistics 6, 65-70 (jstor.org/stable/4615733).

    Args:
        p_values: one a claim, e.g. from `p_value_of`.
        alpha: the probability of any wrong rejection.

    Raises:
        InputError: there is no p-value, one is not in [0, 1], or α is not in (0, 1).
    """
    check_alpha(alpha)
    if not len(p_values):
        raise InputError("p_values are empty: give one a claim")
    for i, p in enumerate(p_values):
        if not 0 <= p <= 1:
            raise InputError(f"p_values[{i}] = {p} is not in [0, 1]: use 1 for a claim not tested")
    from statsmodels.stats.multitest import multipletests

    rejected, adjusted, _, _ = multipletests(p_values, alpha, method="holm")
    return Holm(tuple(map(bool, rejected)), tuple(map(float, adjusted)))


def discoveries(p_values: ArrayLike, rate: float) -> NDArray[np.bool_]:
    """Which claims are rejected so that on average this share of the rejections is wrong at most.

    With `p_(1) ≤ … ≤ p_(m)` the claims up to the last `p_(i) ≤ rate i/m` are rejected; the p-values
    are independent, or depend on each other positively. Benjamini & Hochberg 1995,
    doi:10.1111/j.2517-6161.1995.tb02031.x.
    """
    from statsmodels.stats.multitest import fdrcorrection

    p_values = np.asarray(p_values, np.float64)
    found: NDArray[np.bool_] = fdrcorrection(p_values, rate)[0]
    return found


def p_value_of(bound: Callable[[float], float], claimed: float) -> float:
    """The p-value of the claim "the quantity is at most `claimed`" that a lower bound carries.

        p = inf {α : bound(α) > claimed}

    If `bound(α)` is above the truth with probability at most α for each α, and does not decrease in
    α, then under the claim `P(p < a) ≤ P(bound(a) > claimed) ≤ a`: inverting a family of confidence
    bounds is a test (Lehmann & Romano 2005, Theorem 3.5.1, doi:10.1007/0-387-27605-X).

    A bound that chooses its event, threshold or number of guesses **by** α need not be monotone:
    choose first, then pass what is left to certify. A union of several bounds is
    `lambda a: max(b(a / k) for b in bounds)`.

    Args:
        bound: the lower bound at level α in (0, 1), not decreasing in α.
        claimed: the claimed largest value.

    Returns:
        p, rounded up by at most 1e-9 of itself; 1e-15 where it is less, 1 where `bound` exceeds the
        claim at no level.

    Raises:
        InputError: the claim or a value of `bound` is NaN.
    """
    if math.isnan(claimed):
        raise InputError("claimed = nan is not a number: give the claimed value")

    def exceeds(alpha: float) -> bool:
        value = bound(alpha)
        if math.isnan(value):
            raise InputError(f"the bound at alpha = {alpha:g} is nan: give one that is a number")
        return value > claimed

    if not exceeds(_MOST):
        return 1.0
    if exceeds(_LEAST):
        return _LEAST
    low, high = _LEAST, _MOST
    while high > low * (1 + _WIDTH):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if exceeds(middle) else (middle, high)
    return high
