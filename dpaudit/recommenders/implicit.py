"""The adapter to implicit (https://benfred.github.io/implicit)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array, csr_matrix

from dpaudit.core.plugin import STRICT
from dpaudit.recommenders.base import (
    FactorModel,
    Indices,
    Recommender,
    RowModel,
    Scores,
    Settings,
    built,
    required,
    trained,
)

_FACTORS: Mapping[str, str] = {
    "als": "implicit.cpu.als:AlternatingLeastSquares",
    "bpr": "implicit.cpu.bpr:BayesianPersonalizedRanking",
    "lmf": "implicit.cpu.lmf:LogisticMatrixFactorization",
}
_NEIGHBOURS = "implicit.nearest_neighbours:ItemItemRecommender"


@dataclass(frozen=True, eq=False)
class _Neighbours(RowModel):
    similarity: csr_array

    def rows(self, users: Indices) -> Scores:
        scores: Scores = (self.seen[users] @ self.similarity).toarray().astype(np.float32)
        return scores


@parameters(frozen=True, config=STRICT)
class Implicit(Recommender):
    """Train a model of implicit on one thread, as several would make its numbers vary.

    Ratings are the confidences of alternating least squares; set `data.binarize` for purchases.

    Attributes:
        model: `als`, `bpr`, `lmf` (logistic matrix factorisation) or `item-item` (cosine).
        settings: arguments of the model's constructor, such as `factors` and `iterations`.
    """

    model: Literal["als", "bpr", "lmf", "item-item"] = "als"
    settings: Settings = field(default_factory=dict)

    name: ClassVar[str] = "implicit"
    title: ClassVar[str] = "implicit: ALS, BPR, logistic factorisation and item-item similarity"
    source: ClassVar[str] = (
        "Hu, Koren & Volinsky 2008, doi:10.1109/ICDM.2008.22; Rendle et al. 2009, arXiv:1205.2618"
    )

    def fit(self, interactions: csr_array, seed: int) -> RowModel:
        """Train; arguments and errors as in `Recommender.fit`."""
        module, _, kind = _FACTORS.get(self.model, _NEIGHBOURS).partition(":")
        factory = getattr(required(self.name, module, "implicit"), kind)
        fixed = {} if self.model == "item-item" else {"random_state": seed}
        model = built(
            f"implicit ({self.model})", factory, **{"num_threads": 1, **self.settings, **fixed}
        )
        with trained(f"implicit ({self.model})"):
            if self.model == "item-item":
                # As CosineRecommender does, which warns of its own conversion in every training.
                unit = required(self.name, module, "implicit").normalize(csr_matrix(interactions).T)
                model.fit(csr_matrix(unit.T), show_progress=False)
                return _Neighbours(interactions, csr_array(model.similarity))
            model.fit(csr_matrix(interactions), show_progress=False)
            return FactorModel(interactions, model.user_factors, model.item_factors)
