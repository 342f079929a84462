"""Factorisations that are trained together, each on a subset of the same ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.factors import FactorBlock, FactorModels, FactorRows, Floats, Indices
from dpaudit.kernels.factorization.lists import lane_lists
from dpaudit.kernels.factorization.subsets import Subsets
from dpaudit.kernels.lanes import LANES


def subsets_of(kept: NDArray[np.bool_], means: Sequence[float]) -> Subsets:
    """Return the subsets of up to 16 models as the kernels read them.

    Args:
        kept: the rows of each model `(W, R)`.
        means: its `b_0` `(W,)`.
    """
    rows = np.flatnonzero(~np.logical_and.reduce(kept, axis=0)).astype(np.int32)
    # Unused lanes repeat the last model, so that they diverge only if it does.
    lanes = np.minimum(np.arange(LANES), len(kept) - 1)
    included = np.ascontiguousarray(kept[:, rows].T[:, lanes], np.float32)
    return Subsets(rows, included.reshape(-1), np.asarray(means, np.float32)[lanes])


@dataclass(frozen=True, eq=False)
class SubsetModels:
    """The factorisations of up to 16 trials, each trained on a subset.

    Attributes:
        rows: the rows, with the subsets.
        block: the models.
    """

    rows: FactorRows
    block: FactorBlock

    @cached_property
    def models(self) -> FactorModels:
        """The models without their subsets."""
        return FactorModels(
            users=[self.block.users],
            items=[self.block.items],
            trials=self.block.count,
            mean=self.rows.mean,
            scale=self.rows.scale,
            means=[self._subsets.means],
        )

    @property
    def _subsets(self) -> Subsets:
        if self.rows.subsets is None:
            raise TypeError("these rows have no subsets")
        return self.rows.subsets

    def predict(self, users: Indices, items: Indices) -> Floats:
        """Predict the ratings of (user, item) pairs `(W, n)`."""
        return self.models.predict(users, items)

    def recommend(self, users: Indices, k: int) -> Indices:
        """Return each user's `k` best items that they have not rated `(W, n, k)`; -1 pads."""
        rows, block, scale = self.rows, self.block, self.rows.scale
        lists = np.empty((len(users), LANES, k), np.int32)
        lane_lists(
            lists,
            users,
            block.users.reshape(-1),
            block.items.reshape(-1),
            block.users.shape[1] - 1,
            (np.float32(scale.minimum), np.float32(scale.maximum)),
            rows.start,
            rows.items,
            self._subsets,
        )
        return np.ascontiguousarray(np.moveaxis(lists, 1, 0)[: block.count])
