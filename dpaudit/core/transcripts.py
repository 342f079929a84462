"""Observer `recommender` of a federated training: what the server receives and broadcasts.

A transcript is the pairs that are watched and an iterator of rounds; no more than one round is held
at a time, so all users of a large service can be watched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a user and an item whose submissions are watched, and what the server knows.

    Attributes:
        users: the user of each pair, not decreasing `(P,)`.
        items: its item `(P,)`.
        dimensions: `d`, the length of a submission.
        sigma: the standard deviation of the noise on each coordinate; 0 where there is none.
        level: of two-valued submissions the size of the one coordinate that is sent; None of
            gradients with normal noise.
        shares: for each item the server's estimate of the share of real submissions `(M,)`.
        candidates: how many users may submit for each item, watched or not `(M,)`.
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
        place: which of the pairs submitted something, each at most once `(n,)`.
        shown: what they submitted `(n, d)`.
        factors: `V_t`, the items' factors that the server broadcast `(M, d)`.
        fakes: `F_t`, what it broadcast for users to submit, with noise, for an item that they have
            not rated `(M, d)`; zeros where it broadcast nothing.
        gradients: what each user would have submitted without noise if she had rated the item
            `(n, d)`; the truth where she has. Known to an ideal attacker alone.
        made_up: where a fake is the gradient of a rating made up, what she would have submitted
            without noise if she had not rated the item `(n, d)`; None where that is `F_t`.
    """

    place: Indices
    shown: Floats
    factors: Floats
    fakes: Floats
    gradients: Floats
    made_up: Floats | None = None


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What an attacker makes of a transcript.

    Attributes:
        scores: large where he takes the submissions of a pair for real `(P,)`.
        p_values: of the hypothesis that they are fake `(P,)`; None where its law is not known.
    """

    scores: NDArray[np.float64]
    p_values: NDArray[np.float64] | None


@dataclass(frozen=True)
class Learning:
    """How each user learns her factors by herself, from her ratings and the V that all have.

        u ← u − γ (2 Σ_j (u · v_j − r_j) v_j + 2λu),    r_j less the offset

    Attributes:
        rate: γ.
        decay: λ.
        offset: what ratings are centred by.
        start: the mean of each coordinate that u starts from.
        spread: its standard deviation.
        clip: the norm that all she submits in a round is cut to as one vector; infinite for none.
        ball: the norm that u is cut to; infinite for none.
        fresh: whether noise is drawn anew in each round, and not once.
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
    """All that some users submit over the rounds of one training, `2 (u · v_j − r_j) u` and noise.

    Attributes:
        users: the user of each rating `(n,)`, not decreasing.
        items: its item `(n,)`.
        shared: the rating; NaN of one that its user keeps to herself, `(n,)`.
        shown: what was submitted about it in each round `(T, n, d)`.
        deviations: the standard deviation of the noise, given what the recommender drew, `(T, n,
            d)`.
        usual: the same not given what it drew, `(n,)`.
        factors: the V that each round's submissions are about `(T, M, d)`.
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
        """Which ratings their users keep to themselves `(n,)`."""
        return np.isnan(self.shared)

    def of_users(self, users: Indices) -> Submissions:
        """Those of some users alone."""
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
