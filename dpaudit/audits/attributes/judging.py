"""How well an attribute of users is guessed: right guesses, AUC, and what a model adds.

**What the intervals are about.** The sample are the users: an interval is about further users like
these, whom this attacker guesses with as many known users, and about the trainings at hand. Given a
fit, the outcomes of the users whom it guesses are independent, if users are. Fits of different
folds share users, and so do a model's answers, which links outcomes; a mean over folds has
nevertheless the normal law of independent outcomes as users grow in number, if one user moves a fit
little (Bayle et al. 2020, arXiv:2007.12671). The bound of `frequentist.means` needs no law of one
outcome. A model that ignores its data answers about all users alike whether it has them or not, so
that its advantage has the mean 0, and tests count how often it is found to be above 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.attributes.labels import FOLDS, Attribute, Folds
from dpaudit.bounds.frequentist.clusters import clustered_limits, student_mean
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Family

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges guesses of one attribute.

    Attributes:
        attribute: the attribute.
        folds: the fold of each user `(N,)`.
        order: the users in a random order `(N,)`.
        family: the family of the run's intervals.
    """

    attribute: Attribute
    folds: Folds
    order: NDArray[np.int64]
    family: Family

    def right(self, guesses: Numbers) -> Numbers:
        """Return the share of trainings in which the likeliest class is right `(N,)`.

        Args:
            guesses: the probabilities of classes `(T, N, C)`.
        """
        return (guesses.argmax(2) == self.attribute.classes).mean(0)

    def balanced(self, guesses: Numbers) -> Numbers:
        """Return the same of the class that is most likelier than among the known users.

        Such a guess is as good for a rare class as for a frequent one.
        """
        return (np.stack([self._lift(one) for one in guesses]) == self.attribute.classes).mean(0)

    def _lift(self, guesses: Numbers) -> NDArray[np.int64]:
        classes, count = self.attribute.classes, len(self.attribute.counts)
        best = np.empty(len(guesses), np.int64)
        for fold in range(FOLDS):
            known = classes[(self.folds != fold) & self.attribute.judged]
            asked = self.folds == fold
            shares = np.bincount(known, minlength=count) / len(known)
            best[asked] = (guesses[asked] / np.maximum(shares, 1e-300)).argmax(1)
        return best

    def advantage(self, right: Numbers, other: Numbers | float, joint: bool) -> Estimate:
        """Estimate how many more guesses are right, with classes counting alike.

        With n_c users of class c of C, and n users in all, it is the mean of
        n/(C n_c) (right - other), the difference of the means over classes of both recalls.

        Args:
            right: how often each user's guess is right `(N,)`.
            other: the same of what is compared.
            joint: whether its interval holds together with the others of the family.
        """
        counts, judged = self.attribute.counts, self.attribute.judged
        weights = counts.sum() / (len(counts) * counts)
        every = np.where(judged, weights[self.attribute.classes] * (right - other), np.nan)[
            self.order
        ]
        values, most = every[~np.isnan(every)], float(weights.max())
        if joint:
            bet = betting_mean(
                np.clip((values + most) / (2 * most), 0, 1),
                self.family.alpha,
                self.family.confidence,
            )
            estimate = bet.mapped(lambda share: most * (2 * share - 1))
            estimate = estimate.changed(method="betting over users")
        else:
            estimate = student_mean(values.tolist(), 1 - self.family.confidence, "users")
        return estimate.mapped(lambda value: min(1.0, max(-1.0, value)))

    def accuracy(self, right: Numbers) -> Estimate:
        """Estimate the share of right guesses; its interval holds by itself."""
        judged = right[self.attribute.judged]
        share = student_mean(judged.tolist(), 1 - self.family.confidence, "users")
        return share.mapped(lambda value: min(1.0, max(0.0, value)))

    @property
    def largest(self) -> Estimate:
        """The share of the largest class."""
        counts = self.attribute.counts
        return Estimate.exact(float(counts.max() / counts.sum()), "share of the largest class")

    def area(self, guesses: Numbers) -> Estimate:
        """Estimate the AUC, mean over folds, trainings, and classes if these are more than two.

        Scores of different folds come from different fits, so only users of one fold are compared.
        With V the share of the other side that is on the right side of a user, and m users of the
        user's side, the variance is that of the sum of (V - AUC)/m over users (DeLong et al. 1988,
        doi:10.2307/2531595). The interval holds by itself.

        Args:
            guesses: the probabilities of classes `(T, N, C)`.
        """
        classes, count = self.attribute.classes, len(self.attribute.counts)
        sides = range(count) if count > 2 else (1,)
        theta, parts, weight = 0.0, np.zeros(len(classes)), 0.0
        for fold in range(FOLDS):
            here = np.flatnonzero((self.folds == fold) & self.attribute.judged)
            for side in sides:
                inside = classes[here] == side
                if 0 < inside.sum() < len(here):
                    weight += len(here)
                    for scores in guesses[:, here, side]:
                        area, away = _area(scores, inside)
                        theta += len(here) * area
                        parts[here] += len(here) * away
        scale = weight * len(guesses)
        theta, alpha = theta / scale, 1 - self.family.confidence
        users = int(self.attribute.judged.sum())
        lower, upper = clustered_limits(
            theta,
            parts[self.attribute.judged] / scale,
            users=users,
            independent=int(self.attribute.counts.min()),
            comparisons=users,
            alpha=alpha,
        )
        return Estimate(
            value=theta,
            lower=min(lower, theta),
            upper=max(upper, theta),
            confidence=self.family.confidence,
            alpha=alpha,
            n=users,
            method="placements of users, Student's t over users, by itself",
            kind="assumes-law",
        )


def _area(scores: Numbers, inside: NDArray[np.bool_]) -> tuple[float, Numbers]:
    """Return the AUC of scores for what is inside, and each user's part of its error `(n,)`."""
    from scipy.stats import rankdata

    m, n = int(inside.sum()), int((~inside).sum())
    ranks = rankdata(scores)
    within = np.empty(len(scores))
    within[inside], within[~inside] = rankdata(scores[inside]), rankdata(scores[~inside])
    others = ranks - within  # users of the other side below, ties counting half
    area = float(others[inside].mean() / n)
    share = np.where(inside, others / n, 1 - others / m)
    return area, (share - area) / np.where(inside, m, n)
