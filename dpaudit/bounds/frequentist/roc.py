"""ROC of scores of (user, item) pairs, with intervals that treat users as independent, not pairs.

All pairs of a user share that user's vector, noise and number of ratings, so their scores are
dependent. The intervals treat a user's pairs as one cluster and stay valid for any dependence
within it. They are asymptotic in the number of users, hence `assumes-law`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.frequentist.clusters import clustered_limits, clustered_share
from dpaudit.bounds.outcomes import check_alpha, scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator

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
    non-negative. The interval is that of `clusters.clustered_limits`; its independent trial is a
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
    return Estimate(
        value=theta,
        lower=lower,
        upper=upper,
        confidence=1 - alpha,
        alpha=alpha,
        n=pairs.users,
        method="clustered auc",
        kind="assumes-law",
    )


def auc_in_folds(
    scores: Values, real: NDArray[np.bool_], folds: NDArray[np.integer], *, alpha: float
) -> Estimate:
    """Estimate the area under the ROC curve of scores that a fit for each fold gives.

    Scores of different fits have no common scale, so only those of one fold are compared. The area
    is the mean over folds with a real and a fake, by their sizes, and over rows of scores and of
    labels. With V the share of the other side that is on the right side of a unit, and m units on
    its own, the variance is that of the sum of (V - AUC)/m over units (DeLong et al. 1988,
    doi:10.2307/2531595). The interval is that of `clusters.clustered_limits`.

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
        here = np.flatnonzero(folds == fold)
        for row, inside in zip(scores[:, here], labels[:, here], strict=True):
            if 0 < inside.sum() < len(here):
                right = np.empty(len(here))
                right[inside] = _share_below(row[inside], np.sort(row[~inside]))
                right[~inside] = 1 - _share_below(row[~inside], np.sort(row[inside]))
                area = right[inside].mean()
                weight += len(here)
                theta += len(here) * area
                sides = np.where(inside, inside.sum(), (~inside).sum())
                parts[here] += len(here) * (right - area) / sides
    theta = float(theta / weight)
    lower, upper = clustered_limits(
        theta,
        parts / weight,
        users=len(parts),
        independent=int(np.minimum(labels.sum(1), (~labels).sum(1)).min()),
        comparisons=len(parts),
        alpha=alpha,
    )
    return Estimate(
        value=theta,
        lower=min(lower, theta),
        upper=max(upper, theta),
        confidence=1 - alpha,
        alpha=alpha,
        n=len(parts),
        method="placements in folds, by itself",
        kind="assumes-law",
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
    Among N fakes the threshold t is the K-th largest score, K = ⌊(N + 1)·false_positives⌋. A real
    counts 1 above it and g = (K − A)/(B + 1) at it, with A fakes above t and B at it: the
    probability that it is among the K − A largest of B + 1 equal scores in random order. If fakes
    are exchangeable, another fake is called real with probability K/(N + 1), at most
    `false_positives`, since its rank among all N + 1 is uniform once ties are broken.

    The rate is that of an attacker who calls a score at t real with probability g,

        θ = P(s > t) + g P(s = t) = (1 − g) P(s > t) + g P(s ≥ t),

    a convex combination of the rates at two vertices of the ROC curve. As the even half fixes t and
    g, what a real counts is a number w in {0, g, 1} with mean θ, independent between users. The
    estimate is the ratio of sums over users, Σw/Σ reals, with variance
    I/(I − 1) Σ_users (hits − θ reals)²/(Σ reals)² (Cochran 1977, Sampling Techniques, chapter 6)
    and the interval of `clusters.clustered_limits`. The variance of w is
    θ(1 − θ) − g(1 − g) P(s = t), at most that of a yes or no with the same mean, so for users with
    one pair the limits are at least as wide as those of binomial counts of that size.

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
    threshold, tied = _threshold(pairs.score[even & ~pairs.real], false_positives)
    counted = ~even & pairs.real
    _users_with(pairs.per_user(counted), "real (of odd rank)")
    score = pairs.score[counted]
    hits = (score > threshold) + tied * (score == threshold)
    estimate = clustered_share(hits, pairs.user[counted], alpha=alpha)
    return estimate.changed(method="held-out threshold, clustered rate")


def rate_of(
    scores: Values, real: NDArray[np.bool_], rate: float, alpha: float, seed: int
) -> Estimate:
    """Estimate the true-positive rate at a false-positive rate, with the choice of the threshold.

    N non-members choose the threshold and the members are counted. The rate is that of an attacker
    who orders equal scores at random. With A non-members above the threshold t and B at it, a
    member there counts g = (N rate − A)/B, so the rate is (1 − g) P(s > t) + g P(s ≥ t): a convex
    combination of two vertices of the ROC curve, on the line between them.

    For the interval every score gets a uniform number that orders equal ones, so there are no ties.
    Another non-member exceeds the k-th largest of N with a probability that is the k-th smallest
    of N uniform numbers; it is below `rate` if at least k of these are. So the k-th largest lets
    through less than `rate` with probability P(Bin(N, rate) ≥ k), and more with P(Bin(N, rate) ≤
    k − 1). The least k at which the former is at most α/4, and the largest at which the latter is,
    enclose the threshold. Given these, members are counted above the one and the other, each count
    is binomial, and its Clopper-Pearson limit at α/4 completes the level α.

    Args:
        scores: scores of members and non-members `(n,)`.
        real: who is a member `(n,)`.
        rate: the false-positive rate.
        alpha: the level of the interval.
        seed: orders equal scores.
    """
    from scipy.stats import beta, binom

    place = np.empty(len(scores), np.int64)
    ties = generator(seed, "membership ties").random(len(scores))
    place[np.lexsort((ties, scores))] = np.arange(len(scores))
    absent, members = -np.sort(-place[~real]), place[real]
    bars = np.concatenate(([len(scores)], absent, [-1]))
    n, count, tail = len(members), len(absent), alpha / 4
    few, many = int(binom.ppf(tail, count, rate)), int(binom.isf(tail, count, rate)) + 1
    least, most = (int((members > bars[rank]).sum()) for rank in (few, many))
    value = _between(scores[real], -np.sort(-scores[~real]), rate)
    lower = float(beta.ppf(tail, least, n - least + 1)) if least else 0.0
    upper = float(beta.isf(tail, most + 1, n - most)) if most < n else 1.0
    return Estimate(
        value=value,
        lower=min(value, lower),
        upper=max(value, upper),
        confidence=1 - alpha,
        alpha=alpha,
        n=n,
        method="rate at the threshold of the non-members, with its choice",
        kind="assumes-law",
    )


def _share_below(values: Values, ordered: Values) -> Values:
    """Return the share of the ordered numbers below each value, ties counted half."""
    order = np.argsort(values)
    shares = np.empty(len(values))
    # Search in ascending order, which is faster for the processor's cache.
    sides = (np.searchsorted(ordered, values[order], side) for side in ("left", "right"))
    shares[order] = sum(sides) / (2 * len(ordered))
    return shares


def _between(members: Values, others: Values, rate: float) -> float:
    """Return the empirical ROC curve at a false-positive rate; `others` are decreasing."""
    wanted = rate * len(others) * (1 + 1e-12)  # 0.01·100 counts as 1
    bar = others[min(int(wanted), len(others) - 1)]
    share = min(1.0, (wanted - (others > bar).sum()) / (others == bar).sum())
    return float(((members > bar) + share * (members == bar)).mean())


def _threshold(fakes: Values, false_positives: float) -> tuple[float, float]:
    """Return the ⌊(N + 1)·false_positives⌋-th largest of N fakes, and what a score at it counts."""
    rank = math.floor((len(fakes) + 1) * false_positives * (1 + 1e-12))  # 0.01·100 counts as 1
    if rank < 1:
        raise InputError(
            f"{len(fakes)} fake pairs of users of even rank show no false-positive rate of "
            f"{false_positives}: give at least {math.ceil(1 / false_positives) - 1}"
        )
    bar = float(np.partition(fakes, -rank)[-rank])
    return bar, float((rank - (fakes > bar).sum()) / ((fakes == bar).sum() + 1))


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
