"""Trained factorisations that rank items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.core.releases import ItemFactors
from dpaudit.data.ratings import Csr
from dpaudit.defenses.factors import Floats, Indices
from dpaudit.kernels.top_k.ranking import best

# Numbers of either side that are held at a time.
_GATHERED = 2**22


@dataclass(frozen=True, eq=False)
class RankingModels:
    """Factorisations of W worlds that rank items by `u_i · v_j`.

    Attributes:
        users: U of each world `(N, size)`, zero beyond the dimensions.
        items: V of each world `(M, size)`, zero beyond the dimensions.
        dimensions: d.
    """

    users: Sequence[Floats]
    items: Sequence[Floats]
    dimensions: int

    def predict(self, users: Indices, items: Indices) -> Floats:
        """The scores `u · v`, which are on no scale, of pairs of a user and an item `(W, n)`."""
        found = np.empty((len(self.users), len(users)), np.float32)
        at_once = _GATHERED // self.users[0].shape[1]
        for row, left, right in zip(found, self.users, self.items, strict=True):
            for start in range(0, len(users), at_once):
                pairs = slice(start, start + at_once)
                row[pairs] = np.einsum("nf,nf->n", left[users[pairs]], right[items[pairs]])
        return found

    def top(self, users: Indices, k: int, seen: Csr) -> Indices:
        """The k items of the largest scores that each user has not seen.

        Args:
            users: whose lists they are `(n,)`.
            k: the length of a list, at least 1.
            seen: what every user has seen, increasing: what she holds, `Ratings.by_user`.

        Returns:
            `(W, n, k)`, best first, of equal scores the lower item; −1 where there are no more.
        """
        found = np.empty((len(self.users), len(users), k), np.int32)
        scores = np.empty((len(users), k), np.float32)
        for lists, left, right in zip(found, self.users, self.items, strict=True):
            best(
                users, left.reshape(-1), right.reshape(-1), left.shape[1], seen.start,
                seen.column, lists, scores,
            )  # fmt: skip
        return found

    def public(self, items: Indices) -> ItemFactors:
        """What is published of them: every item's factors, whatever `items`; their bias is 0."""
        own = np.stack([right[:, : self.dimensions] for right in self.items])
        return ItemFactors(np.pad(own, ((0, 0), (0, 0), (0, 1))), 0.0)


def joined(models: Sequence[RankingModels]) -> RankingModels:
    """The models of several worlds as one, in their order."""
    return RankingModels(
        users=[users for each in models for users in each.users],
        items=[items for each in models for items in each.items],
        dimensions=models[0].dimensions,
    )
