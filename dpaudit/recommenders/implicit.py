"""The adapter to implicit (https://benfred.github.io/implicit)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array, csr_matrix
from scipy.special import expit

from dpaudit.core.knobs import Knob
from dpaudit.core.plugin import STRICT
from dpaudit.core.streams import generator
from dpaudit.recommenders import base
from dpaudit.recommenders.forgetting import Pair, Slopes, ascended, newton_step, products

_FACTORS: Mapping[str, str] = {
    "als": "implicit.cpu.als:AlternatingLeastSquares",
    "bpr": "implicit.cpu.bpr:BayesianPersonalizedRanking",
    "lmf": "implicit.cpu.lmf:LogisticMatrixFactorization",
}
_NEIGHBOURS = "implicit.nearest_neighbours:ItemItemRecommender"
# Iterations of a training that goes on to forget.
_MORE = 3


@dataclass(frozen=True, eq=False)
class _Neighbours(base.RowModel):
    similarity: csr_array

    def rows(self, users: base.Indices) -> base.Scores:
        return (self.seen[users] @ self.similarity).toarray().astype(np.float32)


@parameters(frozen=True, config=STRICT)
class Implicit(base.Library):
    """Train a model of implicit on one thread, as several would make its numbers vary.

    Ratings are the confidences of alternating least squares; set `data.binarize` for purchases.

    Attributes:
        model: `als`, `bpr`, `lmf` (logistic matrix factorisation) or `item-item` (cosine).
        settings: arguments of the model's constructor, such as `factors` and `iterations`; the
            seed is that of each training, which takes the CPU.
    """

    model: Literal["als", "bpr", "lmf", "item-item"] = "als"

    name: ClassVar[str] = "implicit"
    title: ClassVar[str] = "implicit: ALS, BPR, logistic factorisation and item-item similarity"
    source: ClassVar[str] = (
        "Hu, Koren & Volinsky 2008, doi:10.1109/ICDM.2008.22; Rendle et al. 2009, arXiv:1205.2618"
    )

    @property
    def leaves_out(self) -> Collection[str]:
        """Factors, which similarities do not have."""
        return ("factors",) if self.model == "item-item" else ()

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """Factors, regularisation and iterations, or the number of neighbours."""
        if self.model == "item-item":
            return {"settings.K": Knob(5, 200, log=True)}
        iterations = Knob(2, 20, log=True) if self.model == "als" else Knob(10, 200, log=True)
        return {
            "settings.factors": Knob(4, 128, log=True),
            "settings.regularization": Knob(0.001, 10.0, log=True),
            "settings.iterations": iterations,
        }

    def fit(self, interactions: csr_array, seed: int) -> base.RowModel:
        """Train; arguments and errors as in `Recommender.fit`."""
        module, _, kind = _FACTORS.get(self.model, _NEIGHBOURS).partition(":")
        library = base.required(self.name, module, "implicit")
        fixed = {} if self.model == "item-item" else {"random_state": seed}
        model = self.built(getattr(library, kind), fixed, num_threads=1)
        with base.trained(self.label):
            if self.model == "item-item":
                # As CosineRecommender does, which warns of its own conversion in every training.
                unit = library.normalize(csr_matrix(interactions).T)
                model.fit(csr_matrix(unit.T), show_progress=False)
                return _Neighbours(interactions, csr_array(model.similarity))
            model.fit(csr_matrix(interactions), show_progress=False)
            return _factors(interactions, model)

    def forgotten(self, fitted: Any, deletion: base.Deletion, seed: int) -> base.Fitted | None:
        """Return a trained model that has forgotten; see `Recommender.forgotten`.

        - `own`: item-item similarities are computed again, which is exact; ALS solves the rows of
          the users and items concerned again, one after the other, by implicit's
          `recalculate_user` and `recalculate_item`, while all other rows stay. The loss is
          quadratic in a row, so this is the Newton step of each row, to which the selective
          influence function of Li et al. 2023, arXiv:2304.10199, comes down for users.
        - `fine-tune`: factors are trained on what stays for three more iterations. Of ALS this is
          Unlearn-ALS (Xu et al. 2023, arXiv:2302.06676), which goes on until it converges.
        - `influence`: one Newton step of ALS by all factors together; see `newton_step`.
        - `ascent`: factors follow the gradient of the loss of what is forgotten upwards; see
          `ascended`. The losses are those of `_slopes`.
        """
        matrix, model = deletion.kept.matrix, fitted.state
        match deletion.method, self.model:
            case "own", "item-item":
                return self.fit(matrix, seed)
            case "own", "als":
                users, items = (np.unique(index) for index in deletion.gone.T)
                model.partial_fit_users(users, csr_matrix(matrix)[users])
                model.partial_fit_items(items, csr_matrix(matrix.T)[items])
            case "fine-tune", "als" | "bpr" | "lmf":
                model.iterations = _MORE
                model.fit(csr_matrix(matrix), show_progress=False)
            case "influence", "als":
                seen, kept = (model.alpha * part for part in (fitted.seen, matrix))
                _move(model, newton_step(_pair(model), seen, kept, model.regularization))
            case "ascent", "als" | "bpr" | "lmf":
                slopes = _slopes(self.model, model, fitted.seen, deletion, seed)
                _move(model, ascended(_pair(model), slopes, _trained(self.model, model)))
            case _:
                return super().forgotten(fitted, deletion, seed)
        return _factors(matrix, model)


def _factors(seen: csr_array, model: Any) -> base.FactorModel:
    return base.FactorModel(seen, model.user_factors, model.item_factors, state=model)


def _pair(model: Any) -> Pair:
    return Pair(model.user_factors.astype(np.float64), model.item_factors.astype(np.float64))


def _move(model: Any, factors: Pair) -> None:
    model.user_factors, model.item_factors = (part.astype(np.float32) for part in factors)


def _trained(name: str, model: Any) -> tuple[base.Indices, base.Indices]:
    """Return 1 for the columns of users and of items that are trained, 0 for those of ones."""
    users, items = (np.ones(model.user_factors.shape[1], np.int32) for _ in range(2))
    # The bias of an item is its last factor but one in LMF, and its last one in BPR.
    if name == "bpr":
        users[-1] = 0
    elif name == "lmf":
        users[-2] = items[-1] = 0
    return users, items


def _slopes(name: str, model: Any, seen: csr_array, deletion: base.Deletion, seed: int) -> Slopes:
    """Return the derivatives of the losses of pairs that are forgotten, by scores s.

    With the confidence c, the loss is `|c| (p - s)^2` of ALS, in which p is whether c > 0, and
    `c ln(1 + exp(-s))` of LMF. Of BPR it is `-ln sigma(s_ui - s_uj)`, in which j is the item of an
    interaction that stays, drawn anew in every step.

    Args:
        name: the model.
        model: the library's model.
        seen: the confidences that it was trained on.
        deletion: what is forgotten.
        seed: decides the items j.
    """
    users, items = deletion.gone.T
    confidence, shape = np.asarray(seen[users, items], np.float64).reshape(-1), seen.shape
    others = generator(seed, "ascent of BPR")

    def als(factors: Pair) -> csr_array:
        weight, wanted = np.abs(model.alpha * confidence), confidence > 0
        slope = 2 * weight * (products(factors, users, items) - wanted)
        return csr_array((slope, (users, items)), shape=shape)

    def lmf(factors: Pair) -> csr_array:
        slope = -confidence * expit(-products(factors, users, items))
        return csr_array((slope, (users, items)), shape=shape)

    def bpr(factors: Pair) -> csr_array:
        drawn = others.choice(deletion.kept.matrix.indices, len(users))
        more = products(factors, users, items) - products(factors, users, drawn)
        slope = np.concatenate((-expit(-more), expit(-more)))
        where = np.tile(users, 2), np.concatenate((items, drawn))
        return csr_array((slope, where), shape=shape)

    return {"als": als, "lmf": lmf, "bpr": bpr}[name]
