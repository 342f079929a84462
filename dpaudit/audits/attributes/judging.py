"""How well an attribute of users is guessed: right guesses, AUC, and what a model adds.

**What the intervals are about.** The sample are the guessed users: an interval is about further
users like these, guessed by what this attacker learned from the others, and about the trainings at
hand. The attacker learned from none of them, so given what was learned their outcomes are
independent, if users and the model's answers about them are, and the bound of `frequentist.means`
needs no law of one outcome. How answers about one user depend on others, no interval counts.

Cross-validation would guess all users, each by what the others show, and find something in noise
too often: the fit for a user sees another, whose fit sees the first, so both are right or both
wrong by the same chance. In 500 audits of noise with 300 users, 43 had an advantage above 0 at a
level of 5 %. A model that ignores its data answers about all users alike whether it has them or
not, so its advantage has the mean 0, and tests count how often it is found to be above 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.attributes.labels import Attribute, Folds, guessed
from dpaudit.bounds.frequentist.clusters import student_mean
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.bounds.frequentist.roc import auc_in_folds
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

    @cached_property
    def asked(self) -> NDArray[np.bool_]:
        """Mask of the users who are guessed, and whose class is known `(N,)`."""
        return self.attribute.known & guessed(self.folds)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of them of each class `(C,)`."""
        return np.bincount(self.attribute.classes[self.asked], minlength=len(self.attribute.counts))

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
        known = self.attribute.classes[self.attribute.known & ~guessed(self.folds)]
        shares = np.bincount(known, minlength=len(self.counts)) / len(known)
        return self.right(guesses / shares)

    def advantage(self, right: Numbers, other: Numbers | float, joint: bool) -> Estimate:
        """Estimate how many more guesses are right, with classes counting alike.

        With n_c users of class c of C who are guessed, and n in all, it is the mean of
        n/(C n_c) (right - other), the difference of the means over classes of both recalls.

        Args:
            right: how often each user's guess is right `(N,)`.
            other: the same of what is compared.
            joint: whether its interval holds together with the others of the family.
        """
        weights = self.counts.sum() / (len(self.counts) * self.counts)
        turn = self.order[self.asked[self.order]]
        values = (weights[self.attribute.classes] * (right - other))[turn]
        most = float(weights.max())
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
        share = student_mean(right[self.asked].tolist(), 1 - self.family.confidence, "users")
        return share.mapped(lambda value: min(1.0, max(0.0, value)))

    @property
    def largest(self) -> Estimate:
        """The share of the largest class."""
        share = float(self.counts.max() / self.counts.sum())
        return Estimate.exact(share, "share of the largest class")

    def area(self, guesses: Numbers) -> Estimate:
        """Estimate the AUC, mean over folds, trainings, and classes if these are more than two.

        The interval holds by itself; see `frequentist.roc.auc_in_folds`.

        Args:
            guesses: the probabilities of classes `(T, N, C)`.
        """
        count = len(self.counts)
        sides = range(count) if count > 2 else (1,)
        asked = np.flatnonzero(self.asked)
        scores = np.concatenate([guesses[:, asked, side] for side in sides])
        labels = [self.attribute.classes[asked] == side for side in sides]
        real = np.repeat(np.stack(labels), len(guesses), axis=0)
        alpha = 1 - self.family.confidence
        return auc_in_folds(scores, real, self.folds[asked], alpha=alpha)
