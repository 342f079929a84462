"""Tight confidence bounds for means of bounded values, by betting on the values in order.

To test the hypothesis "the mean is at most m", a bettor bets on each value by rules that depend on
earlier values only. Under the hypothesis the wealth is a non-negative supermartingale, which grows
from α to 1 with probability at most α (Ville's inequality). The bound is the smallest m that is not
rejected. Waudby-Smith & Ramdas 2024, arXiv:2010.09686, Theorem 1.

**Stakes.** The number n of values is known, and only whether the wealth reaches 1 counts. So the
bettor replicates the binary option that a one-sided z-test pays: with wealth y, and r the standard
deviation of the sum of all remaining values, the option's value changes by φ(Φ⁻¹(y))/r per unit of
the sum. The bound is about 1.5 times narrower than that of a fixed stake, which has √(2 ln(1/α))
in place of the normal quantile. Re-aiming at the target from the current wealth follows Voracek &
Orabona 2025, arXiv:2505.22422. Validity needs the supermartingale only, not the normal law.

**Blocks.** Stakes change at the starts of at most 256 blocks. In block j, the share λ_j of a
portfolio is staked on each value. The portfolio multiplies by p_j = Π(1 + λ_j (x_i − m)), so a unit
stake gains T_j = (p_j − 1)/λ_j ≥ −1/λ_j. With b_j(y) = min(φ(Φ⁻¹(a y))/(a r_j), λ_j y), a = 0.95,

    y_{j+1} = y_j + b_j(y_j) T_j(m),   y_0 = α,   rejected once y_j ≥ 1.

**Groups.** Stakes that change between groups of g values only allow for values of one group whose
means μ_i differ. If they are independent, their factors have the mean Π(1 + λ(μ_i − m)), at most
(1 + λ(μ̄ − m))^g with the mean μ̄ of the μ_i, since a geometric mean is at most an arithmetic one.
So the bound holds for μ̄, if it is the same in all groups.

**The rejected m form an interval**, so bisection finds its end:

1. y → y + b(y) T keeps the order of two wealths, or takes the larger one to 1. b is concave (the
   minimum of the normal isoperimetric profile and a line), b(0) = 0 ≤ b(1/a) and b' ≤ b(y)/y ≤ λ.
   For T < 0 the slope is 1 + b'T ≥ 1 − λ/λ = 0. For T > 0, if the larger wealth y stays below 1,
   T < (1 − y)/b(y), and by concavity −b' ≤ b(y)/(1/a − y) on [0, y], so the slope is positive.
2. At a given y the gain falls as m grows. r_j does not depend on m. λ_j is min(l_j, c/m) with l_j
   independent of m. While λ_j = l_j, T_j falls with m. Beyond, p_j = Π(1 − c + c x_i/m) is a
   polynomial in 1/m with non-negative coefficients and a constant term of at most 1, so both
   T_j = (m/c)(p_j − 1) and p_j fall with m. Hence b T falls with m for either term of the minimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.outcomes import check_alpha, scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Values = NDArray[np.float64]
# The largest share of a portfolio that one value can lose: c above.
LOSS = 0.9
_BLOCKS = 256
# b(y)/y is below this multiple of 1/r for wealths y > 0.01.
_STEEPEST = 2.7
# The target is 1/_AIM, so that stakes do not vanish just below 1: a above.
_AIM = 0.95
# Values are cut at this multiple of the first one if nothing bounds them.
_CUT = 4.0
# A value may exceed the largest possible one by this share: what clips it is in single precision,
# with errors of 2^-24 of vectors that may be a few hundred times longer than the clip.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Stakes:
    """Planned stakes of each block, from earlier values.

    Attributes:
        starts: index of each block's first value, ascending from 0; shape (J,).
        shares: share of a portfolio staked on each value, before any cap; 0: no bet; shape (J,).
        roots: standard deviation of the sum of the remaining values; shape (J,).
        n: the number of values.
    """

    starts: NDArray[np.intp]
    shares: Values
    roots: Values
    n: int

    @cached_property
    def lengths(self) -> NDArray[np.intp]:
        """Number of values in each block."""
        return np.diff(np.append(self.starts, self.n))

    def per_value(self, of_block: Values) -> Values:
        """Repeat each block's number for all its values; from shape (J,) to (n,)."""
        return np.repeat(of_block, self.lengths)


def block_starts(n: int, together: int = 1) -> NDArray[np.intp]:
    """Return where blocks start; they are shorter at both ends, where stakes change fastest.

    Args:
        n: the number of values.
        together: the size of the groups that no block divides; divides `n`.
    """
    places = n // together * np.sin(np.linspace(0, math.pi / 2, _BLOCKS + 1)[:-1]) ** 2
    return together * np.unique(places.astype(int))


def stakes(starts: NDArray[np.intp], variances: Values, n: int) -> Stakes:
    """Plan the stakes for predicted variances of a value; shape (J,), `inf` for no bet."""
    roots = np.sqrt((n - starts) * variances)
    shares = np.divide(_STEEPEST, roots, out=np.zeros_like(roots), where=roots > 0)
    return Stakes(starts, shares, roots, n)


def grows(factors: Values, shares: Values, plan: Stakes, alpha: float) -> bool:
    """Return whether the wealth grows from `alpha` to 1, which rejects the hypothesis.

    Args:
        factors: the factor by which each value multiplies its block's portfolio, ≥ 0; under the
            hypothesis its mean given the earlier values must be at most 1; shape (n,).
        shares: share of the portfolio staked in each block; shape (J,).
        plan: the stakes.
        alpha: the level.
    """
    quantile, wealth = NormalDist().inv_cdf, alpha
    scale = 1 / (_AIM * math.sqrt(2 * math.pi))
    with np.errstate(over="ignore"):  # infinite wealth rejects correctly
        products = np.multiply.reduceat(factors, plan.starts)
    for product, share, root in zip(
        products.tolist(), shares.tolist(), plan.roots.tolist(), strict=True
    ):
        if share > 0:
            option = scale * math.exp(-(quantile(_AIM * wealth) ** 2) / 2)
            stake = min(option / root, share * wealth)
            wealth += stake * (product - 1) / share
        if wealth >= 1:
            return True
        if wealth < 1e-12 * alpha:  # too little wealth is left to reach 1
            return False
    return False


def last_held(holds: Callable[[float], bool], high: float, step: float, halvings: int = 9) -> float:
    """Search from below for the end of the interval on which a condition holds.

    Args:
        holds: the condition on positive numbers; once false, it is false for all larger numbers.
        high: the largest number considered.
        step: first distance from `high`; doubled until the condition holds.
        halvings: the number of bisections of the last step.

    Returns:
        A number at which `holds` was true, or 0.
    """
    low = high - step
    while low > 0 and not holds(low):
        high, step = low, 2 * step
        low = high - step
    low = max(low, 0.0)
    for _ in range(halvings):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _variances(values: Values, starts: NDArray[np.intp]) -> Values:
    """Predict the variance of a value at each block's start, from earlier values.

    The sum of squares around the mean and a quarter of the squared range, which stands for one
    extreme value not yet seen. The range counts as 1 until two values differ.
    """
    # Centre at the first value, so that small variances of large values do not cancel.
    around = values - values[0]
    first, second = (np.append(0, np.cumsum(around**k))[starts] for k in (1, 2))
    high, low = (np.append(0, f.accumulate(around))[starts] for f in (np.maximum, np.minimum))
    spread = np.where(high > low, high - low, 1.0)
    before = np.maximum(starts, 1)
    variances = (np.maximum(second - first**2 / before, 0) + spread**2 / 4) / before
    return np.where((starts > 0) & (variances > 0), variances, np.inf)


def _checked(values: ArrayLike, alpha: float) -> Values:
    """Return the values as an array; refuse values outside [0, 1] and a bad level."""
    check_alpha(alpha)
    numbers = scores(values, "values")
    bad = np.flatnonzero((numbers < 0) | (numbers > 1))
    if len(bad):
        raise InputError(
            f"values[{bad[0]}] = {numbers[bad[0]]} is not in [0, 1]: scale the values to this range"
        )
    return numbers


def _lower(values: Values, alpha: float, together: int = 1) -> float:
    """Return the bound of `lower_mean` for checked values, in groups of `together` values."""
    n, high = len(values), float(values.mean())
    starts = block_starts(n, together)
    plan = stakes(starts, _variances(values, starts), n)
    factors = np.empty(n)

    def rejected(mean: float) -> bool:
        shares = np.minimum(plan.shares, LOSS / mean)
        np.subtract(values, mean, out=factors)
        np.multiply(factors, plan.per_value(shares), out=factors)
        np.add(factors, 1, out=factors)
        return grows(factors, shares, plan, alpha)

    # 1.5 times as wide as the bound of a fixed stake: usually rejected at the first try.
    width = float(values.std()) * math.sqrt(-2 * math.log(alpha) / n)
    return last_held(rejected, high, max(1.5 * width, high / n))


def lower_mean(values: ArrayLike, *, alpha: float) -> float:
    """Return a one-sided lower confidence bound for a mean: `P(bound > μ) ≤ alpha`.

    Valid at every n and for every law on [0, 1] if each value's mean, given the earlier values, is
    at most μ. This holds for independent values with a common mean, whatever their laws, and for
    exchangeable trials of one game. If the means differ, the bound is for the largest of them.
    Waudby-Smith & Ramdas 2024, arXiv:2010.09686; the stakes are this module's (see above).

    Args:
        values: the values in the fixed order of the trials; shape (n,).
        alpha: the level.

    Raises:
        InputError: there is no value, one is not in [0, 1], or alpha is not in (0, 1).
    """
    return _lower(_checked(values, alpha), alpha)


def betting_mean(
    values: ArrayLike, alpha: float, confidence: float, *, together: int = 1
) -> Estimate:
    """Estimate the mean of values in [0, 1] with a two-sided interval, `alpha/2` on either side.

    Assumptions and source as for `lower_mean`. With groups, values of one group may have different
    means, but must be independent; the interval is that of the groups' common mean.

    Args:
        values: the values in the fixed order of the trials; shape (n,).
        alpha: the level.
        confidence: the confidence to state.
        together: the number of consecutive values that make a group; divides n.

    Raises:
        InputError: there is no value, one is not in [0, 1], or alpha is not in (0, 1).
    """
    numbers = _checked(values, alpha)
    return Estimate(
        value=float(numbers.mean()),
        lower=_lower(numbers, alpha / 2, together),
        upper=1 - _lower(1 - numbers, alpha / 2, together),
        confidence=confidence,
        alpha=alpha,
        n=len(numbers),
        method="betting",
    )


def nonnegative_mean(
    values: ArrayLike, alpha: float, confidence: float, *, most: float = math.inf
) -> Estimate:
    """Estimate the mean of independent values that are at least 0.

    If `most` bounds every value, the interval is that of `means.betting_mean`, with `α/2` on either
    side. It assumes no law.

    Nothing bounds the mean of unbounded values from above: an event of probability 1/n², which n
    values do not show, may add any amount to it (Bahadur & Savage 1956, Theorem 1,
    doi:10.1214/aoms/1177728077). So the upper end is infinite, and the lower end has all of α. With
    c = 4 x_1, the mean of min(x, c) is at most that of x, and c does not depend on the other
    values. So `c · means.lower_mean(min(x_i, c)/c)`, i ≥ 2, is a lower bound given x_1, and hence
    without it. One value bounds nothing but 0.

    Args:
        values: the values in the fixed order of the trials; shape (n,).
        alpha: the level.
        confidence: the confidence to state.
        most: the largest possible value, known beforehand. A value that exceeds it by more than
            rounding shows that it bounds nothing; it is then ignored.

    Raises:
        InputError: there is no value, one is negative or infinite, or alpha is not in (0, 1).
    """
    check_alpha(alpha)
    numbers = scores(values, "values")
    if numbers.min() < 0:
        raise InputError(f"values contain {numbers.min()}: give numbers of at least 0")
    if 0 < most < math.inf and numbers.max() <= most * (1 + _ROUNDING):
        shares = betting_mean(np.minimum(numbers / most, 1), alpha, confidence)
        return shares.mapped(lambda share: most * share)
    cut, rest = _CUT * numbers[0], numbers[1:]
    lower = (
        cut * lower_mean(np.minimum(rest / cut, 1), alpha=alpha) if cut > 0 and len(rest) else 0.0
    )
    value = float(numbers.mean())
    return Estimate(
        value=value,
        lower=min(lower, value),
        upper=math.inf,
        confidence=confidence,
        alpha=alpha,
        n=len(numbers),
        method="betting from below",
    )
