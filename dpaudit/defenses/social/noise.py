"""The noise of a social recommender: its variances, and draws whose variance users may share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import Floats, Indices, width
from dpaudit.defenses.social.rows import RankingRows, SocialRows
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lanes import aligned

Numbers = NDArray[np.float64]

# Fills an array with draws, given the trials, the step of the noise source, and its key.
Law = Callable[[Numbers, NDArray[np.int64], int, NDArray[np.uint32]], None]


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """Draws vectors of noise, one for each item.

    A coordinate's noise is normal with a given variance times h. If `shared`, h is an exponential
    draw for that item, coordinate and round; otherwise h is 1. Given h, the noise of several users
    is normal, and so is its sum. If h is unknown, the noise is Laplace: `√(2h) c ~ Lap(1)` with
    `h ~ Exp(1)`, `c ~ N(0, 1)` (Meng et al. 2018, Lemma 1).

    Attributes:
        trial: the only trial.
        dimensions: the number of coordinates of a vector.
        shared: whether h is drawn.
    """

    trial: Streams
    dimensions: int
    shared: bool

    def draws(self, law: Law, count: int, step: int) -> Numbers:
        """Return standard draws of a law at a step of the noise source `(count, d)`."""
        draws = np.empty((1, count * self.dimensions), np.float64)
        law(draws, self.trial.trials, step, self.trial.key)
        return draws.reshape(count, -1)

    def factors(self, count: int, step: int, spread: float, start: str) -> Floats:
        """Return initial factors in rows padded with 0 for the kernels, `(count, width(d))`.

        They are normal with standard deviation `spread`, or all `spread` if `start` is 'constant'.
        """
        factors = aligned(count, width(self.dimensions))
        drawn = 1.0 if start == "constant" else self.draws(exact_noise.normal, count, step)
        factors[:, : self.dimensions] = drawn * spread
        return factors

    def scales(self, count: int, step: int) -> Numbers:
        """Return h, the factors on the variances of each item, `(count, d)`."""
        if not self.shared:
            return np.ones((count, self.dimensions))
        # The absolute value of a Laplace draw is exponential.
        return abs(self.draws(exact_noise.laplace, count, step))

    def sums(self, variances: Numbers, scales: Numbers | None, step: int) -> Numbers:
        """Return one noise vector for each item, with these variances times h, `(count, d)`.

        Args:
            variances: the total variance of an item's shares, before h, `(count,)`.
            scales: h `(count, d)`; None if no user draws a share individually, so that h is not
                needed.
            step: the step of the noise source.
        """
        if not variances.any():
            return np.zeros((len(variances), self.dimensions))
        if scales is None and self.shared:
            draws = self.draws(exact_noise.laplace, len(variances), step)
            return draws * np.sqrt(variances / 2)[:, None]
        draws = self.draws(exact_noise.normal, len(variances), step)
        draws *= np.sqrt(variances)[:, None]
        return draws if scales is None else draws * np.sqrt(scales)


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise on submissions and on messages between friends.

    Attributes:
        submitted: the variance of each coordinate of a submission for each item: first for ratings
            that are not sensitive, then for sensitive ones, `(2, M)`.
        sent: the variance of each message to each user from one of their friends `(N,)`.
        shared: whether `submitted` and `sent` are multiplied by exponential draws, one for each
            coordinate and round, shared by all who submit for an item or send to a user (Meng et
            al. 2018, Lemma 1).
        broadcast: the variance of the message that a user broadcasts in a round, the same to all
            whose friend they are; 0 if users do not broadcast.
    """

    submitted: NDArray[np.float64]
    sent: NDArray[np.float64]
    shared: bool
    broadcast: float = 0.0

    @classmethod
    def none(cls, rows: SocialRows) -> Noise:
        """Return zero variances."""
        return cls(np.zeros((2, rows.n_items)), np.zeros(rows.n_users), False)

    def of_rows(self, rows: SocialRows) -> NDArray[np.float64]:
        """The variance of each rating's submission, before shared draws, `(R,)`."""
        return self.submitted[rows.sensitive.astype(np.int64), rows.items]


@dataclass(frozen=True, eq=False)
class RankingNoise:
    """The noise on what users submit about every item.

    Attributes:
        submitted: the variance of each coordinate of one user's submission: first for users to whom
            the item is not sensitive, then for users to whom it is, `(2, M)`.
        shared: whether `submitted` is multiplied by exponential draws, one for each item,
            coordinate and round, shared by all users (Meng et al. 2018, Lemma 1).
    """

    submitted: NDArray[np.float64]
    shared: bool

    def of_users(self, rows: RankingRows, users: Indices) -> NDArray[np.float64]:
        """The variance of what each of these users submits, before shared draws, `(n, M)`."""
        kept = [rows.kept_by(int(user)) for user in users]
        columns = np.arange(rows.n_items)
        return self.submitted[np.array(kept, np.int64).reshape(-1, rows.n_items), columns]

    def summed(self, rows: RankingRows) -> NDArray[np.float64]:
        """The variance of the sum over all users, before shared draws, `(M,)`."""
        return np.asarray((self.submitted * rows.keepers).sum(0), np.float64)
