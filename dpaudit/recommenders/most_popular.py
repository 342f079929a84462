"""The most popular items for everybody: a recommender that hardly tells one user from another."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array

from dpaudit.core.plugin import STRICT
from dpaudit.recommenders import base


@dataclass(frozen=True, eq=False)
class _Popularity(base.RowModel):
    counts: base.Scores

    def rows(self, users: base.Indices) -> base.Scores:
        return np.broadcast_to(self.counts, (len(users), len(self.counts)))


@parameters(frozen=True, config=STRICT)
class MostPopular(base.Recommender):
    """Score an item by its number of interactions.

    It is the baseline of what a recommender reveals without any personalisation.
    """

    name: ClassVar[str] = "most-popular"
    title: ClassVar[str] = "Number of interactions of an item, the same for every user"
    source: ClassVar[str] = (
        "Cremonesi, Koren & Turrin, Performance of Recommender Algorithms on Top-N Recommendation "
        "Tasks, 2010, doi:10.1145/1864708.1864721, section 3.1"
    )

    @property
    def leaves_out(self) -> Collection[str]:
        """Factors."""
        return ("factors",)

    def fit(self, interactions: csr_array, seed: int) -> _Popularity:
        """Count the interactions of each item; the seed changes nothing."""
        counts = np.bincount(interactions.indices, minlength=interactions.shape[1])
        return _Popularity(interactions, counts.astype(np.float32))

    def forgotten(self, fitted: Any, deletion: base.Deletion, seed: int) -> base.Fitted | None:
        """Return the counts without what is forgotten by `own`, which is exact."""
        if deletion.method != "own":
            return super().forgotten(fitted, deletion, seed)
        gone = np.bincount(deletion.gone[:, 1], minlength=len(fitted.counts))
        return _Popularity(deletion.kept.matrix, fitted.counts - gone.astype(np.float32))
