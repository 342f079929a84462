"""Trained factorisations that rank items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.core.releases import ItemFactors
from dpaudit.data.ratings import Csr
from dpaudit.defenses.factors import Floats, Indices
from dpaudit.kernels.top_k.ranking import best

# The most numbers of users' or items' factors that are gathered at a time.
_GATHERED = 2**22


@dataclass(frozen=True, eq=False)
class RankingModels:
    """Factorisations of W trials that rank items by `u_i · v_j`.

    Attributes:
        users: U of each trial `(N, size)`, zero beyond the dimensions.
        items: V of each trial `(M, size)`, zero beyond the dimensions.
        dimensions: d.
    """

    users: Sequence[Floats]
    items: Sequence[Floats]
    dimensions: int

    def predict(self, users: Indices, items: Indices) -> Floats:
        """Return the scores `u · v` of pairs of a user and an item `(W, n)`, on no rating scale."""
        scores = np.empty((len(self.users), len(users)), np.float32)
        at_once = _GATHERED // self.users[0].shape[1]
        for row, left, right in zip(scores, self.users, self.items, strict=True):
            for start in range(0, len(users), at_once):
                pairs = slice(start, start + at_once)
                row[pairs] = np.einsum("nf,nf->n", left[users[pairs]], right[items[pairs]])
        return scores

    def top(self, users: Indices, k: int, seen: Csr) -> Indices:
        """Return the k items with the largest scores among those that each user has not seen.

        Args:
            users: the users of the lists `(n,)`.
            k: the length of a list, at least 1.
            seen: the items that each user has seen, increasing: those they hold,
                `Ratings.by_user`.

        Returns:
            `(W, n, k)`, best first; with equal scores, the lower item index is first. Lists that
            run out of items are filled with −1.
        """
        ranked = np.empty((len(self.users), len(users), k), np.int32)
        scores = np.empty((len(users), k), np.float32)
        for lists, left, right in zip(ranked, self.users, self.items, strict=True):
            best(
                users, left.reshape(-1), right.reshape(-1), left.shape[1], seen.start,
                seen.column, lists, scores,
            )  # fmt: skip
        return ranked

    def public(self, items: Indices) -> ItemFactors:
        """Return the published part: every item's factors, whatever `items`, with bias 0."""
        factors = np.stack([right[:, : self.dimensions] for right in self.items])
        return ItemFactors(np.pad(factors, ((0, 0), (0, 0), (0, 1))), 0.0)


def joined_rankings(models: Sequence[RankingModels]) -> RankingModels:
    """Join the models of several trials into one, in their order."""
    return RankingModels(
        users=[users for model in models for users in model.users],
        items=[items for model in models for items in model.items],
        dimensions=models[0].dimensions,
    )
