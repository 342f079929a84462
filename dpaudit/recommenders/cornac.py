"""The adapter to Cornac (https://cornac.preferred.ai)."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import redirect_stdout
from dataclasses import dataclass
from inspect import isclass, signature
from io import StringIO
from typing import Any, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array
from scipy.special import expit

from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT
from dpaudit.core.registry import suggestion
from dpaudit.recommenders.base import (
    Factors,
    Indices,
    Library,
    RowModel,
    Scores,
    required,
    seeded,
    taken,
    trained,
)

_RATINGS = frozenset({"BaselineOnly", "GlobalAvg", "ItemKNN", "MF", "NMF", "PMF", "SVD", "UserKNN"})
# The vectors of other models do not give their scores.
_FACTORS = frozenset({"BPR", "HPF", "MF", "MMMF", "NMF", "SVD", "WBPR"})
_FIXED = frozenset({"GlobalAvg", "MostPop"})


@dataclass(frozen=True, eq=False)
class _Scored(RowModel):
    model: Any

    def rows(self, users: Indices) -> Scores:
        scores = np.array([np.reshape(self.model.score(user), -1) for user in users.tolist()])
        if type(self.model).__name__ == "PMF" and self.model.variant == "non_linear":
            # PMF leaves this last step of its prediction out when it scores all items at once.
            low, high = self.model.min_rating, self.model.max_rating
            scores = low + (high - low) * expit(scores)
        return scores.astype(np.float32)


@parameters(frozen=True, config=STRICT)
class Cornac(Library):
    """Train a model of Cornac on one thread, as several would make its numbers vary.

    Usable are the models that are trained on interactions alone and whose constructor takes a seed;
    some need PyTorch or TensorFlow. FM is left out, as version 3.0.1 of Cornac crashes in it. These
    predict ratings: BaselineOnly, GlobalAvg, ItemKNN, MF, NMF, PMF, SVD, UserKNN. A user or item
    without interactions keeps its initial factors.

    Attributes:
        model: the class of the model, such as `MF`, `BPR`, `EASE` or `VAECF`.
        settings: arguments of its constructor, such as `k` and `max_iter`.
    """

    model: str = "MF"

    name: ClassVar[str] = "cornac"
    title: ClassVar[str] = "Cornac: matrix factorisation, BPR, neighbours and autoencoders"
    source: ClassVar[str] = (
        "Salah, Truong & Lauw, Cornac: A Comparative Framework for Multimodal Recommender Systems, "
        "JMLR 21(95), 2020; Koren, Bell & Volinsky 2009, doi:10.1109/MC.2009.263"
    )

    @property
    def predicts_ratings(self) -> bool:
        """Whether the model is one of those that predict ratings."""
        return self.model in _RATINGS

    @property
    def leaves_out(self) -> Collection[str]:
        """Factors, unless the model is a factorisation."""
        return () if self.model in _FACTORS else ("factors",)

    def fit(self, interactions: csr_array, seed: int) -> _Scored:
        """Train; arguments and errors as in `Recommender.fit`."""
        library = required(self.name, "cornac.models", "cornac")
        sequential = (library.NextBasketRecommender, library.NextItemRecommender)
        models = {
            name: kind
            for name, kind in vars(library).items()
            if isclass(kind) and issubclass(kind, library.Recommender)
            if not issubclass(kind, sequential) and name != "FM"
            if name in _FIXED or "seed" in signature(kind).parameters
        }
        if self.model not in models:
            raise ConfigError(
                f"params.model = {self.model!r} is no model of cornac that interactions and a seed "
                f"train{suggestion(self.model, models)}"
            )
        factory = models[self.model]
        quiet = taken(factory, num_threads=1, verbose=False)
        model = self.built(factory, taken(factory, seed=seed), **quiet)
        # Some models print even with verbose=False.
        with trained(self.label), seeded(seed), redirect_stdout(StringIO()):
            from cornac.data import Dataset

            entries, (users, items) = interactions.tocoo(), interactions.shape
            # The id of a user or item is its own index, and compiled code takes these types only.
            numbers = (index.astype(np.int64) for index in entries.coords)
            uses = {user: user for user in range(users)}, {item: item for item in range(items)}
            rows = *numbers, entries.data.astype(np.float64)
            model.fit(Dataset(users, items, *uses, rows, seed=seed))
        return _Scored(interactions, model)

    def factors(self, fitted: _Scored) -> Factors | None:
        """Return the factors of a factorisation, with its biases; None for another model."""
        if self.leaves_out:
            return None
        model = fitted.model
        items, users = model.get_item_vectors(), model.get_user_vectors()
        return Factors(items.astype(np.float32), users.astype(np.float32))
