"""ROC of scores of (user, item) pairs, with intervals that take users and not pairs as independent.

All pairs of a user share her vector, her noise and her number of ratings, so their scores depend on
each other. Intervals here count a user's pairs together: they stay true however strong that is.
They are asymptotic in the number of users, hence `assumes-law`.
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

Values = NDArray[np.float64]


@dataclass(frozen=True)
class _Pairs:
    """Checked pairs: score, whether real, and the user's rank among the users; each shape (n,)."""

    score: Values
    real: NDArray[np.bool_]
    user: NDArray[np.intp]

    @property
    def users(self) -> int:
        """Number of users."""
        return int(self.user.max()) + 1

    def per_user(self, of: NDArray[np.bool_], weights: Values | None = None) -> Values:
        """Sum of weights of each user's pairs among `of`, or their number; shape (users,)."""
        return np.bincount(self.user[of], weights, minlength=self.users).astype(np.float64)


def clustered_auc(
    scores: ArrayLike,
    real: ArrayLike,
    users: ArrayLike,
    *,
    alpha: float = 0.05,
    confidence: float | None = None,
) -> Estimate:
    """The area under the ROC curve: how often a real pair scores above a fake one, ties half.

    With M real and N fake pairs, V(x) the share of fakes below a real's score and V(y) that of
    reals above a fake's, ties half, θ = ΣV(x)/M, and sums over a user's m reals and n fakes,

        var θ = Σ_users (f_x (ΣV(x) − mθ)/M + f_y (ΣV(y) − nθ)/N)²,   f = √(I/(I − 1)),

    I the users with reals for f_x, with fakes for f_y. Obuchowski 1997, doi:10.2307/2533958, who
    gives the cross term a factor of its own; this one keeps the variance from falling below 0.
    The interval is that of `clusters.clustered_limits`, with a pair of users (a real pair of one, a
    fake pair of the other) as its independent trial.

    Args:
        scores: score of each pair, high for real; shape (n,).
        real: whether the pair is real; shape (n,).
        users: the user of each pair; shape (n,).
        alpha: the level of the interval.
        confidence: the confidence to state; 1 − α where none is given.

    Returns:
        The area with its interval; `n` is the number of users.

    Raises:
        InputError: lengths that differ, scores that are not finite, or fewer than two users with
            real or with fake pairs.
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
        # The most disjoint pairs of users, one with a real and another with a fake pair.
        independent=min(with_real, with_fake, pairs.users // 2),
        comparisons=len(reals) * len(fakes),
        alpha=alpha,
    )
    return Estimate(
        value=theta,
        lower=lower,
        upper=upper,
        confidence=1 - alpha if confidence is None else confidence,
        alpha=alpha,
        n=pairs.users,
        method="clustered auc",
        kind="assumes-law",
    )


def rate_at(
    scores: ArrayLike,
    real: ArrayLike,
    users: ArrayLike,
    false_positives: float,
    *,
    alpha: float = 0.05,
    confidence: float | None = None,
) -> Estimate:
    """The true-positive rate at a threshold that lets through a given share of fakes, e.g. 0.001.

    Users of even rank choose the threshold, the others' reals are counted strictly above it. Among
    N fakes the threshold is the ⌊(N + 1)·false_positives⌋-th largest score: one more fake of the
    same law exceeds it with probability at most `false_positives` if fakes are exchangeable, since
    its rank among all N + 1 is then uniform. The rate is the ratio of sums over users,
    θ = Σ hits/Σ reals, with variance I/(I − 1) Σ_users (hits − θ reals)²/(Σ reals)² (Cochran 1977,
    Sampling Techniques, chapter 6) and the interval of `clusters.clustered_limits`.

    The interval is for the rate at this very threshold. That another half would have chosen another
    one is not in it.

    Args:
        scores: score of each pair, high for real; shape (n,).
        real: whether the pair is real; shape (n,).
        users: the user of each pair, in an order that says nothing of the scores; shape (n,).
        false_positives: the wanted share of fakes above the threshold.
        alpha: the level of the interval.
        confidence: the confidence to state; 1 − α where none is given.

    Returns:
        The rate with its interval; `n` is the number of users it was counted on.

    Raises:
        InputError: lengths that differ, scores that are not finite, a share outside (0, 1), fewer
            fakes of even rank than show such a share, or fewer than two other users with reals.
    """
    check_alpha(alpha)
    if not 0 < false_positives < 1:
        raise InputError(f"false_positives = {false_positives} is not in (0, 1): use e.g. 0.01")
    pairs = _pairs(scores, real, users)
    even = pairs.user % 2 == 0
    threshold = _threshold(pairs.score[even & ~pairs.real], false_positives)
    counted = ~even & pairs.real
    _users_with(pairs.per_user(counted), "real (of odd rank)")
    found = clustered_share(
        pairs.score[counted] > threshold, pairs.user[counted], alpha=alpha, confidence=confidence
    )
    return found.changed(method="held-out threshold, clustered rate")


def curve(scores: ArrayLike, real: ArrayLike, points: int) -> tuple[Values, Values]:
    """The ROC curve for a chart: false- and true-positive rates at no more than `points` points.

    Corners of the empirical curve, at about equal steps of FPR + TPR; both ends are among them.

    Args:
        scores: score of each pair, high for real; shape (n,).
        real: whether the pair is real; shape (n,).
        points: the most points, at least 2.

    Returns:
        False-positive and true-positive rates, ascending from 0 to 1; shape (≤ points,) each.

    Raises:
        InputError: lengths that differ, scores that are not finite, a class without pairs, or fewer
            than two points.
    """
    from sklearn.metrics import roc_curve

    if points < 2:
        raise InputError(f"points = {points} make no curve: give at least 2")
    pairs = _pairs(scores, real, None)
    if pairs.real.all() or not pairs.real.any():
        raise InputError("real holds one class only: give real and fake pairs")
    fpr, tpr, _ = roc_curve(pairs.real, pairs.score)
    steps = np.linspace(0, 2, points)
    chosen = np.unique(np.minimum(np.searchsorted(fpr + tpr, steps), len(fpr) - 1))
    return fpr[chosen], tpr[chosen]


def _share_below(values: Values, ordered: Values) -> Values:
    """Share of the ordered numbers below each value, equal ones half."""
    order = np.argsort(values)
    found = np.empty(len(values))
    # Looked up in ascending order, which the cache likes.
    sides = (np.searchsorted(ordered, values[order], side) for side in ("left", "right"))
    found[order] = sum(sides) / (2 * len(ordered))
    return found


def _threshold(fakes: Values, false_positives: float) -> float:
    """The ⌊(N + 1)·false_positives⌋-th largest of N fakes."""
    rank = math.floor((len(fakes) + 1) * false_positives * (1 + 1e-12))  # 0.01·100 is 1
    if rank < 1:
        raise InputError(
            f"{len(fakes)} fake pairs of users of even rank show no false-positive rate of "
            f"{false_positives}: give at least {math.ceil(1 / false_positives) - 1}"
        )
    return float(np.partition(fakes, -rank)[-rank])


def _users_with(counts: Values, what: str) -> int:
    """How many users have any of the counted pairs; at least two."""
    found = int(np.count_nonzero(counts))
    if found < 2:
        raise InputError(f"{found} users have {what} pairs: give at least 2 for an interval")
    return found


def _pairs(values: ArrayLike, real: ArrayLike, users: ArrayLike | None) -> _Pairs:
    """Checked pairs; of one user where none are given."""
    score = scores(values, "scores")
    label = np.asarray(real)
    if label.dtype != np.bool_ or label.shape != score.shape:
        raise InputError(
            f"real has type {label.dtype} and shape {label.shape}: give {len(score)} true or false"
        )
    if users is None:
        return _Pairs(score, label, np.zeros(len(score), np.intp))
    names = np.asarray(users)
    if names.shape != score.shape:
        raise InputError(f"users have shape {names.shape}: give {len(score)}, one a pair")
    return _Pairs(score, label, np.unique(names, return_inverse=True)[1])
