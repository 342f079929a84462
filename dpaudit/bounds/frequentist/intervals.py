"""Confidence intervals for proportions; those for means of any law are in `means`.

Also for means and shares over (user, item) pairs: users are independent, pairs of one user are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.outcomes import interval
from dpaudit.core.estimate import Estimate


def clopper_pearson(count: int, n: int, alpha: float) -> tuple[float, float]:
    """Return the exact two-sided interval of a proportion at level `alpha`, `α/2` on either side.

    Clopper & Pearson 1934, doi:10.1093/biomet/26.4.404.
    """
    lower, upper = clopper_pearson_each(np.array(count), n, alpha)
    return float(lower), float(upper)


def clopper_pearson_each(
    count: NDArray[np.int64], n: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the limits of `clopper_pearson` for each count."""
    from statsmodels.stats.proportion import proportion_confint

    lower, upper = proportion_confint(count, n, alpha, method="beta")
    return np.asarray(lower), np.asarray(upper)


def proportion(count: int, n: int, alpha: float, confidence: float) -> Estimate:
    """Estimate a proportion with its Clopper-Pearson interval at level `alpha`."""
    lower, upper = clopper_pearson(count, n, alpha)
    return Estimate(
        value=count / n,
        lower=lower,
        upper=upper,
        confidence=confidence,
        alpha=alpha,
        n=n,
        method="clopper-pearson",
    )


Values = NDArray[np.float64]


def student_mean(values: Sequence[float], alpha: float, what: str) -> Estimate:
    """Estimate the mean of independent normal values, with Student's interval for it alone.

    Args:
        values: the values; a single value gives an infinite interval.
        alpha: the level.
        what: what was averaged over, e.g. "trainings"; part of the method's name.
    """
    mean, n = math.fsum(values) / len(values), len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    deviation = math.sqrt(squares / (n - 1) / n) if n > 1 else math.inf
    method = f"mean of {n} {what}, Student's t over {what}, by itself"
    return _student(mean, deviation, n, alpha, method)


def clustered_mean(values: Values, users: NDArray[np.integer], *, alpha: float) -> Estimate:
    """Estimate the mean over pairs, with an interval from the differences between users.

    The ratio `θ = Σ y / Σ n` of the users' sums has the variance `I/(I − 1) Σ (y − θ n)²/(Σ n)²`
    (Cochran 1977, Sampling Techniques, chapter 6). Student's interval has I − 1 degrees of freedom.

    Args:
        values: one number per pair `(n,)`.
        users: the user of each pair `(n,)`.
        alpha: the level.
    """
    theta, parts = _ratio(values, users)
    deviation = math.sqrt(np.sum(parts**2)) if len(parts) > 1 else math.inf
    method = "mean over pairs, Student's t over users, by itself"
    return _student(theta, deviation, len(parts), alpha, method)


def clustered_share(
    flags: NDArray[np.bool_] | Values, users: NDArray[np.integer], *, alpha: float
) -> Estimate:
    """Estimate the share of flagged pairs, with Clopper-Pearson limits that sample users.

    Args:
        flags: whether each pair is flagged, or with which probability `(n,)`.
        users: the user of each pair `(n,)`.
        alpha: the level.
    """
    theta, parts = _ratio(flags.astype(np.float64), users)
    lower, upper = 0.0, 1.0
    if len(parts) > 1:
        lower, upper = clustered_limits(
            theta, parts, users=len(parts), independent=len(parts), comparisons=len(flags),
            alpha=alpha,
        )  # fmt: skip
    return interval(
        theta,
        (lower, upper),
        alpha=alpha,
        n=len(parts),
        method="share of pairs, Clopper-Pearson over users, by itself",
    )


def clustered_limits(
    theta: float, parts: Values, *, users: int, independent: int, comparisons: int, alpha: float
) -> tuple[float, float]:
    """Return Clopper-Pearson limits of a proportion from clusters, at an effective sample size.

    The size is that of independent trials with the same variance, θ(1 − θ)/Σh², with Student's
    correction (Korn & Graubard 1998, Survey Methodology 24, 193-201). The error of the variance
    gives its degrees of freedom (Satterthwaite 1946, doi:10.2307/3002019), at most I − 1:

        2(Σh²)²/(Σh⁴ − (Σh²)²/I),   about I for normal h, 2 if one user contributes everything.

    Before the correction the size is at most `comparisons`. If the variance is 0 up to rounding,
    which does not prove certainty, the size is `independent`.

    The limits are asymptotic in the number of users. In simulations, 95 % intervals of areas of
    0.99 and 0.999 missed up to 16 % of the time with 20 users, 12 % with 60 and 7 % with 200, when
    few users made all errors. For areas up to 0.95 they missed at most 6 % of the time.

    Args:
        theta: the proportion.
        parts: h, the error of θ that each user contributes.
        users: I, the number of users that contribute.
        independent: the number of trials that are independent under every law.
        comparisons: the number of all trials.
        alpha: the level of the interval.
    """
    from scipy.special import betaincinv, ndtri, stdtrit

    half, spread, variance = alpha / 2, theta * (1 - theta), float(np.sum(parts**2))
    if variance * comparisons > 1e-9 * spread:
        excess = float(np.sum((parts**2 / variance) ** 2)) - 1 / users
        degrees = min(users - 1, 2 / excess) if excess > 0 else users - 1
        student = (ndtri(half) / stdtrit(degrees, half)) ** 2
        size = min(spread / variance, comparisons) * student
    else:
        size = independent
    hits, misses = theta * size, (1 - theta) * size
    lower = float(betaincinv(hits, misses + 1, half)) if hits > 0 else 0.0
    upper = float(betaincinv(hits + 1, misses, 1 - half)) if misses > 0 else 1.0
    return lower, upper


def _student(value: float, deviation: float, n: int, alpha: float, method: str) -> Estimate:
    """Return an estimate with Student's interval of n − 1 degrees of freedom, by itself."""
    from scipy.special import stdtrit

    half = -float(stdtrit(n - 1, alpha / 2)) * deviation if n > 1 else math.inf
    return interval(value, (value - half, value + half), alpha=alpha, n=n, method=method)


def _ratio(values: Values, users: NDArray[np.integer]) -> tuple[float, Values]:
    """Return the mean and each user's contribution to its error `(I,)`."""
    rank = np.unique(users, return_inverse=True)[1]
    sums, counts = np.bincount(rank, values), np.bincount(rank)
    theta, count = float(values.mean()), len(counts)
    grown = math.sqrt(count / (count - 1)) if count > 1 else 1.0
    return theta, grown * (sums - theta * counts) / len(values)
