"""The ROC curve of one model or game, and of scores of (user, item) pairs.

**Limits that are valid for every law of the scores.** The scores of n present targets are a uniform
subset of P numbers, of all that the model was trained on; P may be infinite. The scores of N absent
ones are independent draws from the law of scores of further absent ones. Equal scores get a random
order, so there are no ties: a tie counts as for an attacker who orders equal scores at random.
Above a fixed threshold t there are M present and A absent scores, which are independent. As t is
not known, each limit says why the curve that the scores draw bounds M and A. `subset_share` and
`independent` turn a uniform subset into a share of its population and into independent draws from
it, at every size.

`best_advantage` is of a game on two data sets, whose trials are independent draws.

**Pairs of a user and an item** have intervals that treat users as independent, not pairs. All pairs
of a user share that user's vector, noise and number of ratings, so their scores are dependent. The
intervals treat a user's pairs as one cluster and stay valid for any dependence within it. They are
asymptotic in the number of users, hence `assumes-law`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.frequentist.intervals import clopper_pearson, clustered_limits, clustered_share
from dpaudit.bounds.outcomes import Scores, check_alpha, interval, scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator

Numbers = NDArray[np.float64]
Limits = tuple[float, float]
# The share of a side's level for counts outside a band, which are not considered.
_OUTSIDE = 0.1


def calls(scores: Numbers, absent: Numbers, rate: float) -> Numbers:
    """Return how likely an attacker with a false-positive rate calls each score present.

    With x = (N + 1)·rate, K = ⌊x⌋ and w = x − K, the threshold is the K-th largest of N absent
    scores with probability 1 − w and the (K + 1)-th with w. The 0-th lets nothing through, and the
    (N + 1)-th everything. A score above the k-th largest counts 1, and one equal to it counts
    (k − A)/(B + 1), with A absent scores above it and B equal to it: the probability that it is
    among the k − A largest of B + 1 equal scores in random order.

    If targets are exchangeable, the rank of another absent target among all N + 1 is uniform, so it
    is called present with probability (1 − w) K/(N + 1) + w (K + 1)/(N + 1) = rate.

    Args:
        scores: the scores to call `(m,)`.
        absent: the scores of absent targets `(N,)`.
        rate: the false-positive rate.
    """
    ordered = -np.sort(-absent)
    place = (len(ordered) + 1) * rate
    rank = math.floor(place * (1 + 1e-12))  # 0.01·100 counts as 1
    rest = max(0.0, place - rank)
    called = (1 - rest) * _calls(scores, ordered, rank)
    return called + rest * _calls(scores, ordered, rank + 1) if rest else called


def _calls(scores: Numbers, ordered: Numbers, rank: int) -> Numbers:
    """Return what scores count at the `rank`-th largest absent one; `ordered` is decreasing."""
    if not 0 < rank <= len(ordered):
        return np.full(scores.shape, float(rank > 0))
    bar = ordered[rank - 1]
    tied = (rank - int((ordered > bar).sum())) / (int((ordered == bar).sum()) + 1)
    called: Numbers = (scores > bar) + (scores == bar) * tied
    return called


def least_absent(rate: float) -> int:
    """Return the least number of absent scores that show a false-positive rate, 1/rate − 1."""
    return math.ceil((1 / rate) * (1 - 1e-12)) - 1


def present_above(
    present: Numbers, absent: Numbers, rate: float, rng: np.random.Generator, *, alpha: float
) -> tuple[int, int]:
    """Return between which numbers the present scores above the true threshold of a rate are.

    Another absent target exceeds the threshold t with probability `rate`, so A is binomial. Let k
    be the least number with P(A ≥ k) ≤ α/2: then fewer than k absent scores are above t, so no more
    present scores are above t than above the k-th largest absent one. Let k be the largest number
    with P(A ≤ k − 1) ≤ α/2: then at least k absent scores are above t, and so are all present ones
    above the k-th.

    Args:
        present: the present scores `(n,)`.
        absent: the absent scores `(N,)`.
        rate: the false-positive rate, within (0, 1).
        rng: orders equal scores.
        alpha: the probability that either number is wrong.
    """
    from scipy.stats import binom

    count = len(absent)
    isin = _decreasing(present, absent, rng)
    above = above_each(isin)
    few, many = int(binom.ppf(alpha / 2, count, rate)), int(binom.isf(alpha / 2, count, rate)) + 1
    return int(above[few]), int(above[many])


def above_each(isin: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many present scores are above the k-th largest absent one, k from 0 to N + 1.

    None is above the 0-th, and all are above the (N + 1)-th.

    Args:
        isin: whether each score is a present one, the largest first `(n + N,)`.
    """
    return np.concatenate(([0], np.cumsum(isin)[~isin], [isin.sum()]))


def _decreasing(present: Numbers, absent: Numbers, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return whether each score is a present one, the largest first, equal ones in random order."""
    scores = np.concatenate((present, absent))
    isin: NDArray[np.bool_] = np.lexsort((rng.random(len(scores)), -scores)) < len(present)
    return isin


def area_limits(
    present: Numbers, absent: Numbers, rng: np.random.Generator, *, alpha: float
) -> Limits:
    """Return limits of the area under the curve, each at the level α/2.

    The area is the probability that a present score is above an absent one. In min(n, N) random
    pairs of independent draws the number of times that it is, is binomial, so its Clopper-Pearson
    limits are exact.

    Args:
        present: independent draws of present scores `(n,)`, n ≥ 1, see `independent`.
        absent: the absent scores `(N,)`, N ≥ 1.
        rng: pairs the scores, and orders equal ones.
        alpha: the level of both limits together.
    """
    pairs = min(len(present), len(absent))
    first, second = (rng.permutation(scores)[:pairs] for scores in (present, absent))
    above = (first > second) | ((first == second) & (rng.random(pairs) < 0.5))
    return clopper_pearson(int(above.sum()), pairs, alpha)


def advantage_limits(
    present: Numbers, absent: Numbers, rate: float, rng: np.random.Generator, *, alpha: float
) -> Limits:
    """Return limits of the largest true- minus false-positive rate, each at the level α/2.

    The upper limit is for every threshold, and for the reverse of the attack. The difference D of
    the true rates is largest, or smallest, at some fixed t. There M/n − A/N has the mean D and lies
    on the curve, so it is at most the largest difference c that any threshold shows. By Hoeffding
    1963, doi:10.1080/01621459.1963.10500830, also for a subset (section 6),

        P(M/n − A/N ≤ D − s) ≤ exp(−2 s²/(1/n + 1/N)),   so   D ≤ c + √((1/n + 1/N) ln(2/α)/2).

    The lower limit is for the threshold that another absent target exceeds with probability `rate`,
    so it bounds the largest difference too. A is binomial there, and between two quantiles but with
    probability α/20. The smallest difference on the curve between these is at most M/n − A/N, and
    α/2 − α/20 is left for its distance s from D.

    Args:
        present: the present scores `(n,)`, n ≥ 1.
        absent: the absent scores `(N,)`, N ≥ 1.
        rate: the false-positive rate of the threshold, within (0, 1).
        rng: orders equal scores.
        alpha: the level of both limits together.
    """
    from scipy.stats import binom

    n, count = len(present), len(absent)
    isin = _decreasing(present, absent, rng)
    gains = np.concatenate(([0.0], np.cumsum(isin / n - ~isin / count)))
    outside = alpha / 2 * _OUTSIDE
    first, last = (int(binom.ppf(tail, count, rate)) for tail in (outside / 2, 1 - outside / 2))
    above = np.concatenate(([0], np.cumsum(~isin)))
    spread = (1 / n + 1 / count) / 2
    near = gains[(first <= above) & (above <= last)]
    lower = near.min() - math.sqrt(-spread * math.log(alpha / 2 - outside))
    upper = np.abs(gains).max() + math.sqrt(-spread * math.log(alpha / 2))
    return max(-1.0, float(lower)), min(1.0, float(upper))


def best_advantage(
    absent: Scores, present: Scores, *, alpha: float, confidence: float | None = None
) -> Estimate:
    """Estimate the largest true- minus false-positive rate over all thresholds of a score.

    With the distribution functions F of a score on D and F' on D' it is sup |F − F'|, in [0, 1]:
    the advantage of an attacker who knows the best threshold, and on which side of it to answer
    "D'". Each empirical distribution function is within √(ln(4/α)/(2n)) of the true one
    everywhere, with probability at least 1 − α/2 (Massart 1990, doi:10.1214/aop/1176990746; ties
    do no harm). So the largest difference of the empirical functions, the statistic of Kolmogorov
    and Smirnov, is within the sum of both from the truth, with probability at least 1 − α. No
    threshold is chosen, and no trial is held out.

    Args:
        absent: scores of independent trials on data set D.
        present: scores of independent trials on data set D'.
        alpha: the level.
        confidence: the confidence to state; default 1 − α.

    Raises:
        InputError: a score is not finite, a class is empty, or α is out of range.
    """
    check_alpha(alpha)
    first, second = (
        np.sort(scores(values, name)) for values, name in ((absent, "absent"), (present, "present"))
    )
    pooled = np.concatenate((first, second))
    shares = [
        np.searchsorted(sample, pooled, side="right") / len(sample) for sample in (first, second)
    ]
    value = float(np.max(abs(shares[0] - shares[1])))
    band = sum(math.sqrt(math.log(4 / alpha) / (2 * len(sample))) for sample in (first, second))
    return Estimate(
        value=value,
        lower=max(0.0, value - band),
        upper=min(1.0, value + band),
        confidence=1 - alpha if confidence is None else confidence,
        alpha=alpha,
        n=len(pooled),
        method="Kolmogorov-Smirnov, DKW bands",
    )


def subset_share(
    least: int, most: int, n: int, population: int, *, alpha: float
) -> tuple[float, float]:
    """Return limits of the share of a population that has a property, from a uniform subset.

    The number in the subset is hypergeometric. A share K/N is below the lower limit if it makes at
    least as many probable with α/2 or less, and above the upper one likewise (Buonaccorsi 1987,
    doi:10.1080/00031305.1987.10475481).

    Args:
        least: how many of the subset surely have the property.
        most: how many may have it; as `least` if all is known.
        n: the size of the subset.
        population: the size N of the population.
        alpha: the level of the interval, half on either side.

    Raises:
        InputError: the numbers are not 0 ≤ least ≤ most ≤ n ≤ N and n ≥ 1, or alpha is not in
            (0, 1).
    """
    check_alpha(alpha)
    if not (0 <= least <= most <= n <= population and n >= 1):
        raise InputError(
            f"{least} to {most} of a subset of {n} from {population}: give counts in increasing "
            "order, and at least one of the subset"
        )
    lower = _least_total(least, n, population, alpha / 2)
    upper = population - _least_total(n - most, n, population, alpha / 2)
    return lower / population, upper / population


def _least_total(count: int, n: int, population: int, tail: float) -> int:
    """Return the least K with P(at least `count` of the subset | K of the population) > tail."""
    from scipy.stats import hypergeom

    low, high = count, population  # the probability rises with K, and is 1 at `population`
    while low < high:
        middle = (low + high) // 2
        if hypergeom.sf(count - 1, population, middle, n) > tail:
            high = middle
        else:
            low = middle + 1
    return low


def independent(
    values: NDArray[np.float64], population: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return as many independent draws from a population as its uniform subset has values.

    Independent draws repeat one now and then: the i-th is one of the d different ones before it
    with probability d/N, and otherwise a new one, which the subset in random order provides.

    Args:
        values: the numbers of the subset, in any order `(n,)`, n ≥ 1.
        population: the size N ≥ n of the population.
        rng: orders the subset, and says which draws repeat.

    Raises:
        InputError: the population is smaller than the subset.
    """
    n = len(values)
    if population < n:
        raise InputError(f"population = {population} is less than the {n} values of its subset")
    drawn = rng.integers(population, size=n)
    _, first, which = np.unique(drawn, return_inverse=True, return_index=True)
    order = np.empty(len(first), np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    draws: NDArray[np.float64] = rng.permutation(values)[order[which]]
    return draws


Values = NDArray[np.float64]


@dataclass(frozen=True)
class _LabelledPairs:
    """Checked pairs: score, whether real, and the user's rank among the users; shape (n,) each."""

    score: Values
    real: NDArray[np.bool_]
    user: NDArray[np.intp]

    @property
    def users(self) -> int:
        """Number of users."""
        return int(self.user.max()) + 1

    def per_user(self, of: NDArray[np.bool_], weights: Values | None = None) -> Values:
        """Return each user's sum of weights, or number, of the pairs in `of`; shape (users,)."""
        return np.bincount(self.user[of], weights, minlength=self.users).astype(np.float64)


def clustered_auc(
    scores: ArrayLike, real: ArrayLike, users: ArrayLike, *, alpha: float = 0.05
) -> Estimate:
    """Estimate the area under the ROC curve: P(real pair scores above a fake pair), ties half.

    With M real and N fake pairs, let V(x) be the share of fakes below a real pair's score and V(y)
    the share of reals above a fake pair's score, ties counted half. Then θ = ΣV(x)/M, and with sums
    over a user's m reals and n fakes

        var θ = Σ_users (f_x (ΣV(x) − mθ)/M + f_y (ΣV(y) − nθ)/N)²,   f = √(I/(I − 1)),

    where I is the number of users with reals for f_x and with fakes for f_y. Obuchowski 1997,
    doi:10.2307/2533958, scales the cross term by another factor; the factor here keeps the variance
    non-negative. The interval is that of `intervals.clustered_limits`; its independent trial is a
    pair of users, a real pair of one and a fake pair of the other.

    Args:
        scores: score of each pair, high for real; shape (n,).
        real: whether the pair is real; shape (n,).
        users: the user of each pair; shape (n,).
        alpha: the level of the interval.

    Returns:
        The area with its interval; `n` is the number of users.

    Raises:
        InputError: the lengths differ, a score is not finite, or fewer than two users have real
            pairs or fake pairs.
    """
    check_alpha(alpha)
    pairs = _pairs(scores, real, users)
    is_real, is_fake = pairs.real, ~pairs.real
    m, n = pairs.per_user(is_real), pairs.per_user(is_fake)
    with_real, with_fake = _users_with(m, "real"), _users_with(n, "fake")
    reals, fakes = pairs.score[is_real], pairs.score[is_fake]
    below = _share_below(reals, np.sort(fakes))
    above = 1 - _share_below(fakes, np.sort(reals))
    theta = float(below.mean())
    of_real = (pairs.per_user(is_real, below) - m * theta) / len(reals)
    of_fake = (pairs.per_user(is_fake, above) - n * theta) / len(fakes)
    f_x, f_y = (math.sqrt(users / (users - 1)) for users in (with_real, with_fake))
    lower, upper = clustered_limits(
        theta,
        f_x * of_real + f_y * of_fake,
        users=min(with_real, with_fake),
        # The largest number of disjoint pairs of users with a real and a fake pair.
        independent=min(with_real, with_fake, pairs.users // 2),
        comparisons=len(reals) * len(fakes),
        alpha=alpha,
    )
    return interval(theta, (lower, upper), alpha=alpha, n=pairs.users, method="clustered auc")


def auc_in_folds(
    scores: Values, real: NDArray[np.bool_], folds: NDArray[np.integer], *, alpha: float
) -> Estimate:
    """Estimate the area under the ROC curve of scores that a fit for each fold gives.

    Scores of different fits have no common scale, so only those of one fold are compared. The area
    is the mean over folds with a real and a fake, by their sizes, and over rows of scores and of
    labels. With V the share of the other side that is on the right side of a unit, and m units on
    its own, the variance is that of the sum of (V - AUC)/m over units (DeLong et al. 1988,
    doi:10.2307/2531595). The interval is that of `intervals.clustered_limits`.

    The units are independent given a fold's fit, if the fit saw none of them. Over folds the errors
    add up without correlation if each fit saw only units of earlier folds. In cross-validation they
    do not: the fit for i sees j, that for j sees i, and if nothing is to be learned both are right
    or both wrong by the same chance, so that the variance is up to about twice what units show.

    Args:
        scores: the scores, high for real `(T, n)`.
        real: whether each unit is real `(n,)`, or for each row of scores `(T, n)`.
        folds: the fold of each unit `(n,)`; one fold has both sides.
        alpha: the level of the interval.
    """
    check_alpha(alpha)
    labels = np.broadcast_to(real, scores.shape)
    theta, weight, parts = 0.0, 0, np.zeros(scores.shape[1])
    for fold in np.unique(folds):
        units = np.flatnonzero(folds == fold)
        for row, inside in zip(scores[:, units], labels[:, units], strict=True):
            if 0 < inside.sum() < len(units):
                right = np.empty(len(units))
                right[inside] = _share_below(row[inside], np.sort(row[~inside]))
                right[~inside] = 1 - _share_below(row[~inside], np.sort(row[inside]))
                area = right[inside].mean()
                weight += len(units)
                theta += len(units) * area
                sides = np.where(inside, inside.sum(), (~inside).sum())
                parts[units] += len(units) * (right - area) / sides
    theta = float(theta / weight)
    lower, upper = clustered_limits(
        theta,
        parts / weight,
        users=len(parts),
        independent=int(np.minimum(labels.sum(1), (~labels).sum(1)).min()),
        comparisons=len(parts),
        alpha=alpha,
    )
    return interval(
        theta,
        (min(lower, theta), max(upper, theta)),
        alpha=alpha,
        n=len(parts),
        method="placements in folds, by itself",
    )


def rate_at(
    scores: ArrayLike,
    real: ArrayLike,
    users: ArrayLike,
    false_positives: float,
    *,
    alpha: float = 0.05,
) -> Estimate:
    """Estimate the true-positive rate at a given false-positive rate, e.g. 0.001.

    The fakes of users of even rank choose the threshold; the reals of the other users are counted.
    What a real counts is `calls`: the probability that an attacker calls it real who
    calls another exchangeable fake real with probability `false_positives`. The rate θ is a convex
    combination of those at vertices of the ROC curve. As the even half fixes what a score counts, a
    real counts a number w in [0, 1] with mean θ, independent between users. The estimate is the
    ratio of sums over users, Σw/Σ reals, with variance
    I/(I − 1) Σ_users (hits − θ reals)²/(Σ reals)² (Cochran 1977, Sampling Techniques, chapter 6)
    and the interval of `intervals.clustered_limits`. The variance of w is at most θ(1 − θ), that of
    a yes or no with the same mean, so for users with one pair the limits are at least as wide as
    those of binomial counts of that size.

    The interval is for the rate at this threshold. It does not include the variation of the
    threshold between halves.

    Args:
        scores: score of each pair, high for real; shape (n,).
        real: whether the pair is real; shape (n,).
        users: the user of each pair; their sort order must not depend on the scores; shape (n,).
        false_positives: the wanted share of fakes above the threshold.
        alpha: the level of the interval.

    Returns:
        The rate with its interval; `n` is the number of users whose reals were counted.

    Raises:
        InputError: the lengths differ, a score is not finite, `false_positives` is not in (0, 1),
            users of even rank have fewer than 1/`false_positives` − 1 fakes, or fewer than two
            other users have reals.
    """
    check_alpha(alpha)
    if not 0 < false_positives < 1:
        raise InputError(f"false_positives = {false_positives} is not in (0, 1): use e.g. 0.01")
    pairs = _pairs(scores, real, users)
    even = pairs.user % 2 == 0
    fakes, counted = pairs.score[even & ~pairs.real], ~even & pairs.real
    if len(fakes) < least_absent(false_positives):
        raise InputError(
            f"{len(fakes)} fake pairs of users of even rank show no false-positive rate of "
            f"{false_positives}: give at least {least_absent(false_positives)}"
        )
    _users_with(pairs.per_user(counted), "real (of odd rank)")
    hits = calls(pairs.score[counted], fakes, false_positives)
    estimate = clustered_share(hits, pairs.user[counted], alpha=alpha)
    return estimate.changed(method="held-out threshold, clustered rate")


def rate_of(
    scores: Values, real: NDArray[np.bool_], rate: float, alpha: float, seed: int
) -> Estimate:
    """Estimate the true-positive rate at a false-positive rate, with the choice of the threshold.

    What a member counts is `calls`. Between the two numbers of members that
    `present_above` gives at the level α/2 is the one above the true threshold. It is
    binomial, and Clopper-Pearson limits at α/4 on either side complete the level α.

    Args:
        scores: scores of members and non-members `(n,)`.
        real: who is a member `(n,)`.
        rate: the false-positive rate.
        alpha: the level of the interval.
        seed: orders equal scores.
    """
    members, others = scores[real], scores[~real]
    rng = generator(seed, "membership ties")
    least, most = present_above(members, others, rate, rng, alpha=alpha / 2)
    value = float(calls(members, others, rate).mean())
    return interval(
        value,
        (
            min(value, clopper_pearson(least, len(members), alpha / 2)[0]),
            max(value, clopper_pearson(most, len(members), alpha / 2)[1]),
        ),
        alpha=alpha,
        n=len(members),
        method="rate at the threshold of the non-members, with its choice",
    )


def _share_below(values: Values, ordered: Values) -> Values:
    """Return the share of the ordered numbers below each value, ties counted half."""
    order = np.argsort(values)
    shares = np.empty(len(values))
    # Search in ascending order, which is faster for the processor's cache.
    sides = (np.searchsorted(ordered, values[order], side) for side in ("left", "right"))
    shares[order] = sum(sides) / (2 * len(ordered))
    return shares


def _users_with(counts: Values, what: str) -> int:
    """Return the number of users with a positive count; refuse fewer than two."""
    count = int(np.count_nonzero(counts))
    if count < 2:
        raise InputError(f"{count} users have {what} pairs: give at least 2 for an interval")
    return count


def _pairs(values: ArrayLike, real: ArrayLike, users: ArrayLike) -> _LabelledPairs:
    """Return the checked pairs, with users as ranks."""
    score = scores(values, "scores")
    label = np.asarray(real)
    if label.dtype != np.bool_ or label.shape != score.shape:
        raise InputError(
            f"real has type {label.dtype} and shape {label.shape}: give {len(score)} booleans"
        )
    names = np.asarray(users)
    if names.shape != score.shape:
        raise InputError(f"users have shape {names.shape}: give {len(score)}, one per pair")
    return _LabelledPairs(score, label, np.unique(names, return_inverse=True)[1])
