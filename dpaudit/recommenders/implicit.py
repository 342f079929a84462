"""The adapter to implicit (https://benfred.github.io/implicit)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array, csr_matrix

from dpaudit.core.plugin import STRICT
from dpaudit.recommenders.base import (
    Deletion,
    FactorModel,
    Fitted,
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
# Iterations of a training that goes on to forget.
_MORE = 3


@dataclass(frozen=True, eq=False)
class _Factors(FactorModel):
    """A factorisation with the library's model, which can go on."""

    model: Any = None


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
            return _Factors(interactions, model.user_factors, model.item_factors, None, model)

    def forgotten(self, fitted: Any, deletion: Deletion, seed: int) -> Fitted | None:
        """Return a trained model that has forgotten; see `Recommender.forgotten`.

        - `own`: item-item similarities are computed again, which is exact; ALS solves the rows of
          the users and items concerned again, one after the other, by implicit's
          `recalculate_user` and `recalculate_item`, while all other rows stay.
        - `fine-tune`: factors are trained on what stays for three more iterations.
        """
        matrix, how = deletion.kept.matrix, (deletion.method, self.model)
        if how == ("own", "item-item"):
            return self.fit(matrix, seed)
        tunes = deletion.method == "fine-tune" and isinstance(fitted, _Factors)
        if not (tunes or how == ("own", "als")):
            return super().forgotten(fitted, deletion, seed)
        model, rows = fitted.model, csr_matrix(matrix)
        if tunes:
            model.iterations = _MORE
            model.fit(rows, show_progress=False)
        else:
            users, items = (np.unique(index) for index in deletion.gone.T)
            model.user_factors[users] = model.recalculate_user(users, rows[users])
            model.item_factors[items] = model.recalculate_item(items, csr_matrix(rows.T)[items])
        return _Factors(matrix, model.user_factors, model.item_factors, None, model)
