"""What an item-item recommender knows exactly, before any noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.data.ratings import Csr, Ratings
from dpaudit.kernels.item_item import pairs

Vector = NDArray[np.float64]
Array = TypeVar("Array", bound=NDArray[Any])


def frozen(array: Array) -> Array:
    """A view that cannot be written; a kernel is compiled anew where one can be."""
    view = array.view()
    view.setflags(write=False)
    return view


def frozen_rows(rows: Csr) -> Csr:
    """The rows, `frozen`."""
    return Csr(rows.start, frozen(rows.column), frozen(rows.value))


class TickRows(NamedTuple):
    """Compressed rows as `Csr`, the ratings in ticks."""

    start: NDArray[np.int64]
    column: NDArray[np.int32]
    value: NDArray[np.int32]


def in_ticks(ratings: Ratings) -> tuple[TickRows, TickRows, float]:
    """The rows by item and by user with ratings as whole numbers of ticks, and the tick.

    The tick is the power of two that divides the scale's width into at least 2^19 parts, so ratings
    in halves or quarters are exact and any other is to 1e-6 of the width.

    Raises:
        DataError: more users than the kernels can count.
    """
    if ratings.n_users > pairs.MOST_USERS:
        raise DataError(
            f"the data have {ratings.n_users} users and item-item statistics count up to "
            f"{pairs.MOST_USERS}: use fewer users"
        )
    width = ratings.scale.width
    tick = 2.0 ** math.ceil(math.log2(width)) / pairs.MOST_TICKS if width else 1.0

    def counted(rows: Csr) -> TickRows:
        offset = rows.value.astype(np.float64) - ratings.scale.minimum
        return TickRows(rows.start, frozen(rows.column), np.rint(offset / tick).astype(np.int32))

    return counted(ratings.by_item), counted(ratings.by_user), tick


@dataclass(frozen=True, eq=False)
class PairCounts:
    """What similarities are made of, for pairs of items `j`, `k`.

    Attributes:
        first: `j`, an index or one for each pair `(P,)`.
        second: `k` for each pair `(P,)`.
        count: `|Φ(j,k)|`, users who rated both `(P,)`.
        total: `Σ_Φ (r_ij − r_ik)` `(P,)`; empty where a family does not use it.
        degree: the number of raters of every item `(M,)`.
    """

    first: NDArray[np.int32] | int
    second: NDArray[np.int32]
    count: NDArray[np.integer]
    total: Vector
    degree: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ItemModel:
    """The exact item-item statistics of a data set.

    Attributes:
        ratings: the data set.
        similarity: row `k` lists the items `j` with `s_jk`.
        degree: the number of raters of each item `(M,)`.
    """

    ratings: Ratings
    similarity: Csr
    degree: NDArray[np.int64]

    @cached_property
    def ticks(self) -> tuple[TickRows, TickRows, float]:
        """The ratings in ticks; see `in_ticks`."""
        return in_ticks(self.ratings)

    def row(self, item: int) -> Vector:
        """`s_j,item` for every item `j`, dense `(M,)`."""
        start, index, value = self.similarity
        part = slice(int(start[item]), int(start[item + 1]))
        dense = np.zeros(self.ratings.n_items)
        dense[index[part]] = value[part]
        return dense


@dataclass(frozen=True, eq=False)
class ExactScores:
    """The noiseless predictions of one user: what a release adds noise to.

    Attributes:
        scores: `f_ij` for every item `(M,)` float32, `−inf` where the user rated the item.
        sensitivity: the Δf that the noise is scaled by.
    """

    scores: NDArray[np.float32]
    sensitivity: float

    @cached_property
    def candidates(self) -> NDArray[np.int32]:
        """The items that can be shown."""
        return np.flatnonzero(np.isfinite(self.scores)).astype(np.int32)
