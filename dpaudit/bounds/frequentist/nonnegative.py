"""Confidence intervals for means of numbers that are at least 0, with or without a largest one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.bounds.frequentist.means import betting_mean, lower_mean
from dpaudit.bounds.outcomes import check_alpha, scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

# Values are cut at this multiple of the first one if nothing bounds them.
_CUT = 4.0
# A value may exceed the largest possible one by this share: what clips it is in single precision,
# with errors of 2^-24 of vectors that may be a few hundred times longer than the clip.
_ROUNDING = 1e-4


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
