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
from dpaudit.bounds.frequentist.intervals import clopper_pearson
from dpaudit.bounds.frequentist.roc_limits import calls, least_absent, present_above
from dpaudit.bounds.outcomes import check_alpha, interval, scores
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
    return interval(theta, (lower, upper), alpha=alpha, n=pairs.users, method="clustered auc")


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
    What a real counts is `roc_limits.calls`: the probability that an attacker calls it real who
    calls another exchangeable fake real with probability `false_positives`. The rate θ is a convex
    combination of those at vertices of the ROC curve. As the even half fixes what a score counts, a
    real counts a number w in [0, 1] with mean θ, independent between users. The estimate is the
    ratio of sums over users, Σw/Σ reals, with variance
    I/(I − 1) Σ_users (hits − θ reals)²/(Σ reals)² (Cochran 1977, Sampling Techniques, chapter 6)
    and the interval of `clusters.clustered_limits`. The variance of w is at most θ(1 − θ), that of
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

    What a member counts is `roc_limits.calls`. Between the two numbers of members that
    `roc_limits.present_above` gives at the level α/2 is the one above the true threshold. It is
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
