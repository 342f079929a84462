"""The exact item-item statistics behind an item-item recommender, before any noise."""

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
    """Return a read-only view, so that kernels are not compiled for writable arrays as well."""
    view = array.view()
    view.setflags(write=False)
    return view


def frozen_rows(rows: Csr) -> Csr:
    """Return the rows with read-only columns and values; see `frozen`."""
    return Csr(rows.start, frozen(rows.column), frozen(rows.value))


class TickRows(NamedTuple):
    """Compressed rows like `Csr`, with ratings as whole numbers of ticks above the minimum."""

    start: NDArray[np.int64]
    column: NDArray[np.int32]
    value: NDArray[np.int32]


def in_ticks(ratings: Ratings) -> tuple[TickRows, TickRows, float]:
    """Return the rows by item, the rows by user, and the tick that their ratings are counted in.

    The tick is a power of two that divides the scale's width into at least 2^19 parts. Ratings in
    halves or quarters are therefore exact, and any other is exact to 1e-6 of the width.

    Raises:
        DataError: there are more users than the kernels can count.
    """
    if ratings.n_users > pairs.MOST_USERS:
        raise DataError(
            f"the data have {ratings.n_users} users, and item-item statistics count up to "
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
    """The counts and sums that similarities of item pairs `j`, `k` are computed from.

    Attributes:
        first: `j`, one index for all pairs or one for each pair `(P,)`.
        second: `k` for each pair `(P,)`.
        count: `|Φ(j,k)|`, the number of users who rated both `(P,)`.
        total: `Σ_Φ (r_ij − r_ik)` `(P,)`; empty if the defense does not use it.
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
        """The rows in ticks; see `in_ticks`."""
        return in_ticks(self.ratings)

    def row(self, item: int) -> Vector:
        """Return `s_j,item` for every item `j`, dense `(M,)`."""
        start, index, value = self.similarity
        part = slice(int(start[item]), int(start[item + 1]))
        dense = np.zeros(self.ratings.n_items)
        dense[index[part]] = value[part]
        return dense


@dataclass(frozen=True, eq=False)
class ExactScores:
    """The noiseless predictions of one user, to which a release adds noise.

    Attributes:
        scores: `f_ij` for every item `(M,)` float32, `−inf` for items that the user rated.
        sensitivity: the Δf that the noise is scaled by.
    """

    scores: NDArray[np.float32]
    sensitivity: float

    @cached_property
    def candidates(self) -> NDArray[np.int32]:
        """The items that can be shown: those that the user has not rated."""
        return np.flatnonzero(np.isfinite(self.scores)).astype(np.int32)
