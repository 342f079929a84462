"""What an item-item recommender knows exactly, before any noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.ratings import Csr, Ratings

Vector = NDArray[np.float64]


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

    def grid(self, epsilon: float) -> np.float32:
        """The step of the grid that releases are rounded to: 2^i in (b/1024, b/512], b = Δf/ε.

        It depends on public numbers alone. 0 where there is no noise.
        """
        scale = self.sensitivity / epsilon
        return np.float32(2.0 ** math.floor(math.log2(scale / 512)) if scale else 0.0)
