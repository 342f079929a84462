"""Observer `recommender` of a federated training: what the server receives and broadcasts.

A transcript consists of the observed pairs and an iterator of rounds. Only one round is in memory
at a time, so all users of a large service can be observed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class UserItemPairs:
    """The observed pairs of a user and an item, and what the server knows of them.

    Attributes:
        users: the user of each pair, not decreasing `(P,)`.
        items: its item `(P,)`.
        dimensions: `d`, the length of a submission.
        sigma: the standard deviation of the noise on each coordinate; 0 where there is none.
        level: the magnitude of the one coordinate that a two-valued submission sends; None for
            gradients with normal noise.
        shares: the server's estimate of the share of real submissions for each item `(M,)`.
        candidates: the number of users, observed or not, who may submit for each item `(M,)`.
    """

    users: Indices
    items: Indices
    dimensions: int
    sigma: float
    level: float | None
    shares: NDArray[np.float64]
    candidates: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True, eq=False)
class Round:
    """What the server sees in one round.

    Attributes:
        place: the indices of the pairs that submitted, each at most once `(n,)`.
        shown: what they submitted `(n, d)`.
        factors: `V_t`, the items' factors that the server broadcast `(M, d)`.
        fakes: `F_t`, the broadcast vectors that users submit, with noise, for items that they have
            not rated `(M, d)`; zeros where the server broadcast none.
        gradients: the noiseless submission of each user if they had rated the item `(n, d)`; the
            true one where they have. Known only to an ideal attacker.
        made_up: the noiseless submission of each user if they had not rated the item `(n, d)`,
            where a fake is the gradient of an invented rating; None where it is `F_t`.
    """

    place: Indices
    shown: Floats
    factors: Floats
    fakes: Floats
    gradients: Floats
    made_up: Floats | None = None


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The result of an attack on a transcript.

    Attributes:
        scores: larger where the submissions of a pair look more real `(P,)`.
        p_values: p-values of the hypothesis that they are fake `(P,)`; None where the law of fakes
            is not known.
    """

    scores: NDArray[np.float64]
    p_values: NDArray[np.float64] | None


@dataclass(frozen=True)
class Learning:
    """How each user learns their factors locally, from their ratings and the broadcast V.

        u ← u − γ (2 Σ_j (u · v_j − r_j) v_j + 2λu),    the offset subtracted from r_j

    Attributes:
        rate: γ.
        decay: λ.
        offset: the constant subtracted from ratings.
        start: the mean of each coordinate of the initial u.
        spread: its standard deviation.
        clip: the norm to which all submissions of a user in a round are clipped, as one vector;
            infinite for none.
        ball: the norm to which u is clipped; infinite for none.
        fresh: whether noise is drawn anew in each round instead of once.
    """

    rate: float
    decay: float
    offset: float
    start: float
    spread: float
    clip: float = math.inf
    ball: float = math.inf
    fresh: bool = True


@dataclass(frozen=True, eq=False)
class Submissions:
    """All submissions of some users in one training: `2 (u · v_j − r_j) u` plus noise.

    Attributes:
        users: the user of each rating `(n,)`, not decreasing.
        items: its item `(n,)`.
        shared: the rating `(n,)`; NaN if its user keeps it private.
        shown: what was submitted for it in each round `(T, n, d)`.
        deviations: the standard deviation of the noise, given the recommender's random draws,
            `(T, n, d)`.
        usual: the standard deviation not given these draws, `(n,)`.
        factors: the V that each round's submissions are computed from `(T, M, d)`.
        learning: how users learn.
    """

    users: Indices
    items: Indices
    shared: NDArray[np.float64]
    shown: Floats
    deviations: Floats
    usual: NDArray[np.float64]
    factors: Floats
    learning: Learning

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Mask of the ratings that their users keep private `(n,)`."""
        return np.isnan(self.shared)

    def of_users(self, users: Indices) -> Submissions:
        """Return the submissions of some users only."""
        rows = np.isin(self.users, users)
        return replace(
            self,
            users=self.users[rows],
            items=self.items[rows],
            shared=self.shared[rows],
            shown=self.shown[:, rows],
            deviations=self.deviations[:, rows],
            usual=self.usual[rows],
        )
