"""The variances of the noise in a social recommender, by rating, user or sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.factors import Indices
from dpaudit.defenses.social.ranking_rows import RankingRows
from dpaudit.defenses.social.rows import SocialRows


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
