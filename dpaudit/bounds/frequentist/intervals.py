"""Confidence intervals for proportions, and bounds on ε from the counts of one attack.

Also intervals for means and shares over (user, item) pairs: users are independent, pairs of one
user are not. Those for means of any law are in `means`.

**Bounds on ε.** The event "the attack answers present" must be chosen beforehand, not on these
counts. Trials are independent, so tp and fp are binomial with the attack's true and false positive
rates.

**Exceedances.** What the draws so far say about the next one, whatever their law. Draws L_1 … L_J
and the next one L_{J+1} are exchangeable, as the trainings of one procedure on the same data with
fresh coins are. A draw *exceeds* if it is above a limit that was fixed beforehand. Several numbers
of one draw with a limit each count as one: the draw exceeds if any of them does.

**The next draw stays within the limit.** If L_{J+1} exceeds and at most k of the others do, it is
one of at most k + 1 of all J + 1 draws that exceed. Every choice of J + 1 − (k + 1) places is
equally likely, so

    P(at most k of J exceed, and the next one does) ≤ (k + 1)/(J + 1).

No mean, no bound on the numbers and no normal law is used, and what a draw samples by itself, such
as its targets, is part of it. This is a permutation p-value (Vovk, Gammerman, Shafer 2005,
Algorithmic Learning in a Random World, section 2.2). It needs a J that is fixed beforehand.

**The share of draws that exceed is above a level α.** Given independent draws of which a share p
exceeds, (p/α)^x ((1 − p)/(1 − α))^(n − x) is, for x of the first n draws, a martingale if the share
is α and a supermartingale if it is less, for every p > α; so is its mean over p uniform on (α, 1).
It ever reaches 1/a with probability at most a (Ville 1939), so it may be looked at after each draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.outcomes import Counts, check_alpha, check_delta, interval, lower_bound
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Values = NDArray[np.float64]


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


def share_limit(hits: ArrayLike, size: ArrayLike, alpha: ArrayLike) -> Values:
    """Return the one-sided Clopper-Pearson lower limit of each share; counts may be fractional."""
    from scipy.special import betaincinv

    hits, size = np.asarray(hits, float), np.asarray(size, float)
    successes = np.maximum(hits, 1e-9)
    return np.where(hits > 0, betaincinv(successes, np.maximum(size - hits, 0) + 1, alpha), 0.0)


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


def clopper_pearson_epsilon(
    counts: Counts, *, delta: float = 0.0, alpha: float = 0.05, split: float = 0.5
) -> Estimate:
    """Return a certified lower bound on ε from the event "answers present" and its complement.

    (ε, δ)-DP says TPR ≤ e^ε FPR + δ and TNR ≤ e^ε FNR + δ, so

        ε ≥ max(ln((TPR − δ)/FPR), ln((TNR − δ)/FNR)).

    TPR and TNR are replaced by lower, FPR and FNR by upper Clopper-Pearson limits. As TNR = 1 − FPR
    and FNR = 1 − TPR, both ratios use the same two limits, so the complement costs no confidence:
    the bound exceeds ε with probability at most α. Jagielski, Ullman, Oprea 2020, arXiv:2006.07709;
    Nasr et al. 2021, arXiv:2101.04535.

    Args:
        counts: the attack's outcomes.
        delta: the δ of the claim.
        alpha: the level of the bound.
        split: the share of α for the upper limit on FPR; the lower limit on TPR has the rest. It
            must not depend on these counts: see `best_split`.

    Raises:
        InputError: δ, α or the split is out of range.
    """
    check_delta(delta)
    tpr, fpr = rate_limits(counts, alpha=alpha, split=split)
    return lower_bound(
        _largest_log_ratio(tpr, fpr, delta),
        value=_largest_log_ratio(counts.tp / counts.present, counts.fp / counts.absent, delta),
        alpha=alpha,
        n=counts.present + counts.absent,
        method="clopper-pearson",
    )


def best_split(
    rate_present: float,
    rate_absent: float,
    present: int,
    absent: int,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
) -> float:
    """Return the split that maximises `clopper_pearson_epsilon` at the expected counts.

    The rates must come from a plan or from other trials. A split chosen on the counts to be
    certified voids the level.

    Args:
        rate_present: the probability of the answer "present" on data set D', known in advance.
        rate_absent: the same on data set D.
        present: the number of trials on data set D' that will be run.
        absent: the number of trials on data set D that will be run.
        delta: the δ of the claim.
        alpha: the level of the bound.

    Returns:
        A split on a grid of step 0.005 inside (0, 1); ½ if no split certifies anything.

    Raises:
        InputError: a rate, a size, δ or α is out of range.
    """
    check_delta(delta)
    check_alpha(alpha)
    for name, rate in (("rate_present", rate_present), ("rate_absent", rate_absent)):
        if not 0 <= rate <= 1:
            raise InputError(f"{name} = {rate} is not in [0, 1]: give a probability")
    for name, size in (("present", present), ("absent", absent)):
        if size < 1:
            raise InputError(f"{name} = {size} trials are too few: give at least 1")
    splits = np.linspace(0.005, 0.995, 199)
    lower = share_limit(rate_present * present, present, alpha * (1 - splits)).tolist()
    upper = _upper_limits(rate_absent * absent, absent, alpha * splits).tolist()
    bounds = [_largest_log_ratio(p, q, delta) for p, q in zip(lower, upper, strict=True)]
    best = int(np.argmax(bounds))
    return float(splits[best]) if bounds[best] > 0 else 0.5


def rate_limits(counts: Counts, *, alpha: float, split: float = 0.5) -> tuple[float, float]:
    """Return the lower limit on TPR at level α(1 − split) and the upper on FPR at α·split.

    One-sided Clopper-Pearson limits that hold together with probability at least 1 − α.

    Raises:
        InputError: α or the split is out of range.
    """
    check_alpha(alpha)
    if not 0 < split < 1:
        raise InputError(f"split = {split} is not in (0, 1): use 0.5 for equal shares of alpha")
    lower = share_limit(counts.tp, counts.present, np.array(alpha * (1 - split)))
    upper = _upper_limits(counts.fp, counts.absent, np.array(alpha * split))
    return float(lower), float(upper)


def _upper_limits(hits: float, n: int, levels: Values) -> Values:
    """Return the rate at which `hits` or fewer of n have the probability of each level."""
    from scipy.special import betainccinv

    return np.asarray(betainccinv(hits + 1, n - hits, levels) if hits < n else 1.0 + 0.0 * levels)


def _largest_log_ratio(tpr: float, fpr: float, delta: float) -> float:
    """Return the larger ln((p − δ)/q) of the event and its complement, p of which is the likelier.

    It is at least 0, and infinite if q is 0 and p above δ.
    """
    pairs = (tpr, fpr), (1 - fpr, 1 - tpr)
    logs = [math.log((p - delta) / q) if q > 0 else math.inf for p, q in pairs if p > delta]
    return max([0.0, *logs])


def next_exceeds(draws: int, exceeding: int) -> float:
    """Return the largest probability that so few draws exceed and that the next one does.

    (k + 1)/(J + 1) for k of J draws.

    Args:
        draws: the number J of draws, fixed beforehand.
        exceeding: the number k of draws that exceed.

    Raises:
        InputError: there is no draw, or more of them exceed than there are.
    """
    if draws < 1 or not 0 <= exceeding <= draws:
        raise InputError(
            f"{exceeding} of {draws} draws exceed: give at least one draw, of which 0 to all exceed"
        )
    return (exceeding + 1) / (draws + 1)


def draws_needed(exceeding: int, alpha: float) -> int:
    """Return the least number of draws of which so many may exceed at the level alpha.

    ⌈(k + 1)/α⌉ − 1.

    Raises:
        InputError: alpha is not in (0, 1), or the number is negative.
    """
    check_alpha(alpha)
    if exceeding < 0:
        raise InputError(f"exceeding = {exceeding} is negative: give a count")
    return math.ceil((exceeding + 1) / alpha * (1 - 1e-12)) - 1


def share_wealth(exceeds: Sequence[bool], share: float) -> float:
    """Return the largest wealth, after any draw, of a bettor on "more than this share exceed".

    After x of n draws it is ∫ (p/α)^x ((1 − p)/(1 − α))^(n − x) dp/(1 − α) over p from α to 1, with
    the incomplete beta function. The share is at most α with a p-value of 1 over this wealth.

    Args:
        exceeds: whether each draw exceeds, in their order.
        share: the share α, within (0, 1).

    Raises:
        InputError: the share is not in (0, 1).
    """
    from scipy.special import betaln
    from scipy.stats import beta

    check_alpha(share)
    # The wealth falls with every draw that does not exceed, so it is largest after one that does.
    n = np.flatnonzero(exceeds) + 1
    if not len(n):
        return 1.0
    x = np.arange(1, len(n) + 1)
    within = betaln(x + 1, n - x + 1) + beta.logsf(share, x + 1, n - x + 1)
    logs = within - math.log1p(-share) - x * math.log(share) - (n - x) * math.log1p(-share)
    return math.exp(min(max(float(logs.max()), 0.0), 700.0))
