"""The adapter to Surprise (https://surpriselib.com)."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array

from dpaudit.core.errors import RunError
from dpaudit.core.plugin import STRICT
from dpaudit.recommenders.base import (
    FactorModel,
    Indices,
    Library,
    RowModel,
    Scores,
    required,
    taken,
    trained,
    with_biases,
)

Model = Literal[
    "SVD",
    "SVDpp",
    "NMF",
    "KNNBasic",
    "KNNWithMeans",
    "KNNWithZScore",
    "KNNBaseline",
    "SlopeOne",
    "CoClustering",
    "BaselineOnly",
]
_FACTORISATIONS = frozenset({"SVD", "SVDpp", "NMF", "BaselineOnly"})


class _Rated(dict[int, list[tuple[int, float]]]):
    """Ratings by user or by item; those who have none get an empty list and stay unknown."""

    def __missing__(self, key: int) -> list[tuple[int, float]]:
        return []


@dataclass(frozen=True, eq=False)
class _Estimates(RowModel):
    model: Any
    impossible: type[Exception]

    def rows(self, users: Indices) -> Scores:
        items = np.arange(self.seen.shape[1], dtype=np.int32)
        scores = self.scores(np.repeat(users, len(items)), np.tile(items, len(users)))
        return scores.reshape(len(users), len(items))

    def scores(self, users: Indices, items: Indices) -> Scores:
        pairs = zip(users.tolist(), items.tolist(), strict=True)
        return np.array([self._estimate(*pair) for pair in pairs], np.float32)

    def _estimate(self, user: int, item: int) -> float:
        try:
            estimate = self.model.estimate(user, item)
        except self.impossible:
            return float(self.model.default_prediction())
        return float(estimate[0] if isinstance(estimate, tuple) else estimate)


@parameters(frozen=True, config=STRICT)
class Surprise(Library):
    """Train a prediction algorithm of Surprise.

    Scores are estimates before they are clipped to the rating scale, as clipped ones tie. A pair
    whose user or item has no rating gets Surprise's own estimate: biases, or the mean rating.
    SlopeOne and CoClustering truncate ratings to integers. NormalPredictor is left out, as it draws
    a new number for each call.

    Attributes:
        model: the class of the algorithm.
        settings: arguments of its constructor, such as `n_factors`, or a table `sim_options`.
    """

    model: Model = "SVD"

    name: ClassVar[str] = "surprise"
    title: ClassVar[str] = "Surprise: factorisation, neighbours and Slope One for ratings"
    source: ClassVar[str] = (
        "Hug, Surprise: A Python library for recommender systems, 2020, doi:10.21105/joss.02174"
    )

    @property
    def predicts_ratings(self) -> bool:
        """True."""
        return True

    @property
    def leaves_out(self) -> Collection[str]:
        """Factors, unless the model is a factorisation."""
        return () if self.model in _FACTORISATIONS else ("factors",)

    def fit(self, interactions: csr_array, seed: int) -> RowModel:
        """Train; arguments and errors as in `Recommender.fit`."""
        library = required(self.name, "surprise", "surprise")
        factory = getattr(library, self.model)
        # Without `cache_ratings`, SVDpp of version 1.1.5 leaks an array for each user.
        quiet = taken(factory, verbose=False, cache_ratings=True)
        # Constructors of neighbours would ignore a name that they do not know.
        fixed = taken(factory, random_state=seed)
        model = self.built(factory, fixed, "bsl_options", **quiet)
        with trained(self.label), self._dividing(), warnings.catch_warnings():
            # Some algorithms take the mean of a user without ratings, and never use it.
            warnings.filterwarnings("ignore", category=RuntimeWarning)
            model.fit(_trainset(library, interactions, self.model))
            if self.model in _FACTORISATIONS:
                return _factors(model, interactions)
            return _Estimates(interactions, model, library.PredictionImpossible)

    @contextmanager
    def _dividing(self) -> Iterator[None]:
        """Say which ratings Surprise divides by zero for."""
        options = self.settings.get("sim_options")
        measure = options.get("name") if isinstance(options, Mapping) else None
        try:
            yield
        except ZeroDivisionError as error:
            why = "ratings that are all 0 or all the same leave it nothing to divide by: drop such "
            remedy = "users and items, or choose another model"
            if measure == "cosine":
                why = "a user or item whose ratings are all 0 has no cosine: set sim_options.name "
                remedy = "to 'msd' or 'pearson', or shift the ratings"
            elif measure is not None:
                why = f"ratings that are all the same have no {measure}: set sim_options.name "
                remedy = "to 'msd'"
            raise RunError(f"{self.label} divides by zero: {why}{remedy}") from error


def _trainset(library: Any, interactions: csr_array, model: Model) -> Any:
    """Return Surprise's training set, in which the id of a user or item is its own index."""
    by_user, by_item = _lists(interactions), _lists(interactions.tocsc())
    trainset = library.Trainset(
        by_user,
        by_item,
        *interactions.shape,
        interactions.nnz,
        (float(interactions.data.min()), float(interactions.data.max())),
        *({index: index for index in range(count)} for count in interactions.shape),
    )
    if model == "NMF":
        # It divides by zero for a user or item without ratings.
        trainset.all_users, trainset.all_items = (lambda: iter(by_user)), (lambda: iter(by_item))
    return trainset


def _lists(matrix: Any) -> _Rated:
    pairs = list(zip(matrix.indices.tolist(), matrix.data.tolist(), strict=True))
    bounds = enumerate(zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True))
    return _Rated({key: pairs[start:end] for key, (start, end) in bounds if end > start})


def _factors(model: Any, seen: csr_array) -> FactorModel:
    """Return the factors of Surprise's estimates, in which an unknown user or item has zeros.

    r(u, i) = mean + b_u + b_i + <p_u, q_i>; SVD++ adds the mean of y_j, times sqrt(|I_u|), to p_u.
    Without biases it is <p_u, q_i>, and the mean rating if the user or the item is unknown.
    """
    count, mean = np.diff(seen.indptr), float(model.trainset.global_mean)
    users, items = count > 0, np.bincount(seen.indices, minlength=seen.shape[1]) > 0
    p, q = (
        getattr(model, name, np.zeros((len(of), 0))) for name, of in (("pu", users), ("qi", items))
    )
    if hasattr(model, "yj"):
        weight = 1 / np.sqrt(np.repeat(count, count))
        p = p + csr_array((weight, seen.indices, seen.indptr), shape=seen.shape) @ model.yj
    p, q = np.where(users[:, None], p, 0), np.where(items[:, None], q, 0)
    if getattr(model, "biased", True):
        return with_biases(seen, p, q, model.bi, mean + model.bu)
    rows = np.column_stack([p, users]).astype(np.float32)
    columns = np.column_stack([q, np.where(items, 0, mean)]).astype(np.float32)
    return FactorModel(seen, rows, columns, np.where(users, 0, mean).astype(np.float32))
