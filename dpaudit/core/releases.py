"""What an observer holds.

An attack declares which of these types it reads; a defense returns the one its observer asks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.profile import Profile


@dataclass(frozen=True, eq=False)
class Predictions:
    """Observer `values`: the predictions of stated items shown to one user.

    Attributes:
        items: the items shown in each world, `(W, k)`.
        values: their noised predictions `(W, k)` float32.
    """

    items: NDArray[np.int32]
    values: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TopList:
    """Observer `values` of a top-k list: its items, best first, with their noised predictions.

    The items were selected by these very values, so the largest noises are over-represented.
    """

    items: NDArray[np.int32]
    values: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ItemList:
    """Observer `list`: the items shown to one user, without their values.

    Attributes:
        items: the items shown in each world, `(W, k)`. Best first where the mechanism ranks them;
            increasing where it releases a set.
    """

    items: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class ItemFactors:
    """Observer `public` of a matrix factorisation: the items' side of the final model.

    Attributes:
        factors: the items' factors, then their bias, in each world, `(W, M, d + 1)`.
        mean: `b_0`.
    """

    factors: NDArray[np.float32]
    mean: float


@dataclass(frozen=True, eq=False)
class SimilarityRows:
    """Observer `public` of a neighbourhood model: some rows of the final similarities.

    Attributes:
        items: whose rows they are `(n,)`.
        rows: the rows in each world `(W, n, M)`.
        means: the items' means `(M,)`.
    """

    items: NDArray[np.int32]
    rows: NDArray[np.float32]
    means: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TargetUser:
    """The one user in whom two neighbouring data sets differ, as an attacker may know her.

    Attributes:
        watcher: the index of another user, who is shown predictions.
        before: her ratings in world `D`; none where she is not there.
        after: her ratings in world `D'`.
    """

    watcher: int
    before: Profile
    after: Profile

    @property
    def items(self) -> NDArray[np.int32]:
        """The items that she rated in either world, increasing."""
        return np.union1d(self.before.items, self.after.items)


@dataclass(frozen=True, eq=False)
class SeesItems:
    """Asks for the predictions of `items` `(W, k)` in each world."""

    items: NDArray[np.int32]


@dataclass(frozen=True)
class SeesTop:
    """Asks for the `count` best items of each world with their predictions."""

    count: int


Request = SeesItems | SeesTop


@dataclass(frozen=True, eq=False)
class SideInformation:
    """What the linear ideal adversary knows of a hidden rating (Park & Acharya 2011, Def. 4).

    A prediction of item `j` is `(known_j + term_j(v)) / n + noise`, `v` the hidden rating. World
    `w` has row `place[w]` of the arrays: worlds that hide the same item share one.

    Attributes:
        ratings: `n`, the published number of the user's ratings.
        known: the sum over the user's other ratings, for every item `(H, M)`.
        terms: `term_j(v)` for every item and candidate value, not decreasing in `v`, `(H, M, C)`.
        shown: whether an item can be shown to this user if the hidden rating has that value,
            `(H, M, C)`: never what she rated; the hidden item only if it is not rated after all.
        place: the row of each world `(W,)`.
        candidates: the values `v` may have, increasing, `(C,)`.
        frequency: how often each of them occurs in the population, `(C,)`.
    """

    ratings: int
    known: NDArray[np.float64]
    terms: NDArray[np.float64]
    shown: NDArray[np.bool_]
    place: NDArray[np.int64]
    candidates: NDArray[np.float32]
    frequency: NDArray[np.float64]


class ListLaw(Protocol):
    """The law of a list of items."""

    def log_probability(self, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """`ln P` of each list, `(W, k)` to `(W,)`; `−inf` of one that cannot be."""
        ...


@dataclass(frozen=True, eq=False)
class ListPair:
    """The laws of a list in two neighbouring worlds, known to a distinguisher.

    Attributes:
        absent: the law in world `D`.
        present: the law in world `D'`.
    """

    absent: ListLaw
    present: ListLaw


@dataclass(frozen=True)
class ItemInDoubt:
    """The one item whose prediction a change moves most, known to a distinguisher.

    Attributes:
        item: its index.
    """

    item: int


@dataclass(frozen=True, eq=False)
class NoisedSteps:
    """Observer `iterates`: what a training's steps showed, where two data sets differ.

    Attributes:
        shown: the noised numbers `(W, C)`.
    """

    shown: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepsPair:
    """The law of noised steps in two neighbouring worlds, given all that was shown before them.

    Attributes:
        absent: the numbers without noise in world `D` `(W, C)`.
        present: the same in world `D'`.
        scale: the Laplace scale, or the standard deviation, of each number's noise `(C,)`.
        gaussian: whether the noise is normal.
        bound: the noised numbers were clamped to plus or minus it.
        grid: the step of the public grid that they were rounded to `(C,)`, or of all; 0 for none.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    scale: NDArray[np.float64]
    gaussian: bool
    bound: float = math.inf
    grid: NDArray[np.float64] | float = 0.0


@dataclass(frozen=True, eq=False)
class LaplacePair:
    """The law of noised predictions in two neighbouring worlds, known to a distinguisher.

    Attributes:
        absent: exact predictions of the shown items in world `D`, `(k,)`.
        present: the same in world `D'`, `(k,)`.
        noise_scale: the Laplace scale `b` of each prediction's noise.
        grid: the step of the public grid that predictions were rounded to; 0 for none.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    noise_scale: float
    grid: float = 0.0
