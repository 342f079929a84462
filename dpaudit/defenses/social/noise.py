"""How noise is scaled for each rating, user or sum of a social recommender."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.factors import Indices
from dpaudit.defenses.social.ranking_rows import RankingRows
from dpaudit.defenses.social.rows import SocialRows


@dataclass(frozen=True, eq=False)
class Noise:
    """How much noise there is on what users submit, and on what friends send.

    Attributes:
        submitted: the variance of each coordinate of a submission about each item: of ratings that
            are not sensitive, and of those that are, `(2, M)`.
        sent: that of each message to each user from one of her friends `(N,)`.
        told: that of what a user tells of her factors, in a round the same to all whose friend she
            is; it comes before what they make of it.
        shared: whether the first two are multiplied by exponential draws, of each coordinate and
            round one, that all share who submit about an item, or send to a user (Meng et al. 2018,
            Lemma 1).
    """

    submitted: NDArray[np.float64]
    sent: NDArray[np.float64]
    shared: bool
    told: float = 0.0

    @classmethod
    def none(cls, rows: SocialRows) -> Noise:
        """No noise."""
        return cls(np.zeros((2, rows.n_items)), np.zeros(rows.n_users), False)

    def of_rows(self, rows: SocialRows) -> NDArray[np.float64]:
        """The variance of each rating's submission, before shared draws, `(R,)`."""
        return self.submitted[rows.sensitive.astype(np.int64), rows.items]


@dataclass(frozen=True, eq=False)
class RankingNoise:
    """How much noise there is on what users submit about every item.

    Attributes:
        submitted: the variance of each coordinate of one user's submission: of users to whom the
            item is not sensitive, and of those to whom it is, `(2, M)`.
        shared: whether these are multiplied by exponential draws, of each item, coordinate and
            round one, that all users share (Meng et al. 2018, Lemma 1).
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
