"""What observers see and know: the types of releases and of knowledge, and the observers.

An attack declares which of these types it reads; a defense returns the type that its observer
shows (`Observer`). The observer `recommender` of a federated training sees a transcript, what the
server receives and broadcasts: the observed pairs and an iterator of rounds. Only one round is in
memory at a time, so all users of a large service can be observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Profile:
    """One user's own ratings: `items` increasing, shape `(n,)`, with their `values`."""

    items: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Observer `values`: the predictions of requested items shown to one user.

    Attributes:
        items: the items shown in each trial, `(W, k)`.
        values: their noised predictions `(W, k)` float32.
    """

    items: NDArray[np.int32]
    values: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TopList:
    """Observer `values` of a top-k list: its items, best first, with their noised predictions.

    The items were selected by these same values, so large noise values are over-represented.
    """

    items: NDArray[np.int32]
    values: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ItemList:
    """Observer `list`: the items shown to one user, without their values.

    Attributes:
        items: the items shown in each trial, `(W, k)`: best first if the mechanism ranks them,
            increasing if it releases a set.
    """

    items: NDArray[np.int32]


def discounts(k: int) -> NDArray[np.float64]:
    """Return the discount of each place p = 0, 1, … of a list, 1/log2(2 + p) `(k,)`.

    Järvelin & Kekäläinen 2002, doi:10.1145/582415.582418.
    """
    return np.asarray(1 / np.log2(2 + np.arange(k)))


@dataclass(frozen=True, eq=False)
class ItemFactors:
    """Observer `public` of a matrix factorisation: the items' side of the final model.

    Attributes:
        factors: the items' factors followed by their bias, in each trial, `(W, M, d + 1)`.
        mean: the mean rating `b_0`.
    """

    factors: NDArray[np.float32]
    mean: float


@dataclass(frozen=True, eq=False)
class SimilarityRows:
    """Observer `public` of a neighbourhood model: some rows of the final similarities.

    Attributes:
        items: the item of each row `(n,)`.
        rows: the rows in each trial `(W, n, M)`.
        means: the items' means `(M,)`.
    """

    items: NDArray[np.int32]
    rows: NDArray[np.float32]
    means: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TargetUser:
    """The one user in whom two neighbouring data sets differ, as known to an attacker.

    Attributes:
        observer: the index of another user, who is shown predictions.
        before: their ratings in data set `D`; empty if they are not in it.
        after: their ratings in data set `D'`.
    """

    observer: int
    before: Profile
    after: Profile

    @property
    def items(self) -> NDArray[np.int32]:
        """Return the items that the user rated in either data set, increasing."""
        return np.union1d(self.before.items, self.after.items)


@dataclass(frozen=True, eq=False)
class SeesItems:
    """Request for the predictions of `items` `(W, k)` in each trial."""

    items: NDArray[np.int32]


@dataclass(frozen=True)
class SeesTop:
    """Request for the `count` best items of each trial with their predictions."""

    count: int


Request = SeesItems | SeesTop


@dataclass(frozen=True, eq=False)
class SideInformation:
    """What the linear ideal adversary knows of a hidden rating (Park & Acharya 2011, Def. 4).

    A prediction of item `j` is `(known_j + term_j(v)) / n + noise`, `v` the hidden rating. Trial
    `w` uses row `place[w]` of the arrays: trials that hide the same item share a row.

    Attributes:
        ratings: `n`, the published number of the user's ratings.
        known: `known_j`, the sum over the user's other ratings, for every item `(H, M)`.
        terms: `term_j(v)` for every item and candidate value, not decreasing in `v`, `(H, M, C)`.
        shown: whether an item can be shown to this user if the hidden rating has that value,
            `(H, M, C)`: rated items never; the hidden item only if that value means unrated.
        place: the row of each trial `(W,)`.
        candidates: the possible values of `v`, increasing, `(C,)`.
        frequency: how often each candidate occurs in the population, `(C,)`.
    """

    ratings: int
    known: NDArray[np.float64]
    terms: NDArray[np.float64]
    shown: NDArray[np.bool_]
    place: NDArray[np.int64]
    candidates: NDArray[np.float32]
    frequency: NDArray[np.float64]


class ListLaw(Protocol):
    """The probability law of a list of items."""

    def log_probability(self, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return `ln P` of each list, `(W, k)` to `(W,)`; `−inf` for an impossible list."""


@dataclass(frozen=True, eq=False)
class ListPair:
    """The laws of a list in two neighbouring data sets, known to a distinguisher.

    Attributes:
        absent: the law in data set `D`.
        present: the law in data set `D'`.
    """

    absent: ListLaw
    present: ListLaw


@dataclass(frozen=True)
class ItemInDoubt:
    """The item whose prediction differs most between D and D', known to a distinguisher.

    Attributes:
        item: its index.
    """

    item: int


@dataclass(frozen=True, eq=False)
class NoisedSteps:
    """Observer `iterates`: the noised values that training steps show, where D and D' differ.

    Attributes:
        shown: the noised values `(W, C)`.
    """

    shown: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepsPair:
    """The law of noised steps in two neighbouring data sets, given everything shown before them.

    Attributes:
        absent: the values without noise in data set `D` `(W, C)`.
        present: the same in data set `D'`.
        scale: the Laplace scale, or the standard deviation, of each value's noise, `(C,)` or
            `(W, C)`.
        gaussian: whether the noise is normal.
        bound: the noised values were clamped to `[−bound, bound]`.
        grid: the step of the public grid that each value was rounded to, `(C,)` or `(W, C)`, or
            one step for all; 0 for none.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    scale: NDArray[np.float64]
    gaussian: bool
    bound: float = math.inf
    grid: NDArray[np.float64] | float = 0.0


@dataclass(frozen=True, eq=False)
class LaplacePair:
    """The law of noised predictions in two neighbouring data sets, known to a distinguisher.

    Attributes:
        absent: exact predictions of the shown items in data set `D`, `(k,)`.
        present: the same in data set `D'`, `(k,)`.
        noise_scale: the Laplace scale `b` of each prediction's noise.
        grid: the step of the public grid that predictions were rounded to; 0 for none.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    noise_scale: float
    grid: float = 0.0


P = TypeVar("P")


class View(NamedTuple):
    """What one observer sees and knows in some trials.

    Attributes:
        release: what is shown; its type is in `dpaudit.core.releases` or defined by a plug-in.
        knowledge: what else the observer knows: the laws in D and D', or the target user.
    """

    release: Any
    knowledge: Any


@dataclass(frozen=True, eq=False)
class PreparedPair(Generic[P]):
    """Two neighbouring data sets, prepared by a defense.

    Attributes:
        before: data set D.
        after: data set D'.
        items: the items whose predictions an observer is shown `(k,)`.
        target: the user in whom D and D' differ, and the observing user; None where the knowledge
            is given by laws.
        unrated: the items that a list shown to the observing user may contain, increasing.
        top_k: the length of a shown list.
    """

    before: P
    after: P
    items: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    target: TargetUser | None = None
    unrated: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    top_k: int = 0


@dataclass(frozen=True, eq=False)
class Observer(Generic[P]):
    """One observer of a defense: what they see of D or of D' in each trial.

    Attributes:
        shows: the types of the release and of the knowledge in each view. A game can use any attack
            that reads this pair of types.
        views: maps the prepared pair, the data set to learn from (`pair.before` or `pair.after`)
            and the streams of some trials to the views of these trials: one view for a single
            release, one view per round for a training.
        words: what is seen, in a few words.
        purpose: names the random streams of a game.
        block: the largest number of trials released together.
    """

    shows: tuple[type, type]
    views: Callable[[PreparedPair[P], P, Streams], Iterator[View]]
    words: str
    purpose: str
    block: int


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

    users: IntArray
    items: IntArray
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

    place: IntArray
    shown: FloatArray
    factors: FloatArray
    fakes: FloatArray
    gradients: FloatArray
    made_up: FloatArray | None = None


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

    users: IntArray
    items: IntArray
    shared: NDArray[np.float64]
    shown: FloatArray
    deviations: FloatArray
    usual: NDArray[np.float64]
    factors: FloatArray
    learning: Learning

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Mask of the ratings that their users keep private `(n,)`."""
        return np.isnan(self.shared)

    def of_users(self, users: IntArray) -> Submissions:
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
