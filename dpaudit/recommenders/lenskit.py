"""The adapter to LensKit (https://lkpy.lenskit.org)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from types import new_class
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array

from dpaudit.core.plugin import STRICT
from dpaudit.recommenders.base import (
    Factors,
    Indices,
    Library,
    RowModel,
    Scores,
    built,
    required,
    seeded,
    trained,
    usable,
)

Model = Literal[
    "BiasedMFScorer",
    "ImplicitMFScorer",
    "ItemKNNScorer",
    "UserKNNScorer",
    "EASEScorer",
    "SLIMScorer",
    "BiasScorer",
    "FunkSVDScorer",
    "BiasedSVDScorer",
    "FlexMFExplicitScorer",
    "FlexMFImplicitScorer",
]
# The module of each.
_PLACES: Mapping[Model, str] = {
    **dict.fromkeys(("BiasedMFScorer", "ImplicitMFScorer"), "lenskit.als"),
    **dict.fromkeys(("ItemKNNScorer", "UserKNNScorer", "EASEScorer"), "lenskit.knn"),
    "SLIMScorer": "lenskit.knn.slim",
    "BiasScorer": "lenskit.basic",
    "FunkSVDScorer": "lenskit.funksvd",
    "BiasedSVDScorer": "lenskit.sklearn.svd",
    **dict.fromkeys(("FlexMFExplicitScorer", "FlexMFImplicitScorer"), "lenskit.flexmf"),
}
_ALS = frozenset({"BiasedMFScorer", "ImplicitMFScorer"})
_NEIGHBOURS = frozenset({"ItemKNNScorer", "UserKNNScorer"})
_WITHOUT_FACTORS = _NEIGHBOURS | {"EASEScorer", "SLIMScorer", "BiasScorer"}
_RANKING = frozenset({"ImplicitMFScorer", "EASEScorer", "SLIMScorer", "FlexMFImplicitScorer"})


@dataclass(frozen=True, eq=False)
class _Scored(RowModel):
    data: Any
    model: Any
    fallback: _Scored | None

    def rows(self, users: Indices) -> Scores:
        from lenskit.data import ItemList, RecQuery

        numbers = np.arange(self.seen.shape[1], dtype=np.int32)
        every = ItemList(item_nums=numbers, vocabulary=self.data.items)
        return np.array(
            [
                self.model(RecQuery(user, self.data.user_row(user)), every).scores()
                for user in users.tolist()
            ],
            np.float32,
        )

    def scores(self, users: Indices, items: Indices) -> Scores:
        scores = super().scores(users, items)
        absent = np.isnan(scores)
        if self.fallback is not None and absent.any():
            scores[absent] = self.fallback.scores(users[absent], items[absent])
        return scores


@parameters(frozen=True, config=STRICT)
class LensKit(Library):
    """Train a scorer of LensKit 2025, which needs pandas 2.

    A score that is predicted from no neighbour is that of BiasScorer, as in LensKit's pipelines;
    lists leave such items out. The scorers of alternating least squares keep the factors of users
    that are trained (`user_embeddings = "prefer"`) instead of fitting them once more. A user or
    item without interactions keeps its initial factors. LK_NUM_THREADS and LK_NUM_BACKEND_THREADS
    set LensKit's threads; the last digits of EASEScorer depend on them.

    Attributes:
        model: the class of the scorer.
        settings: fields of its configuration, such as `embedding_size` and `epochs`.
    """

    model: Model = "BiasedMFScorer"

    name: ClassVar[str] = "lenskit"
    title: ClassVar[str] = "LensKit: alternating least squares, neighbours, EASE and biases"
    source: ClassVar[str] = (
        "Ekstrand, LensKit for Python, 2020, doi:10.1145/3340531.3412778; Zhou et al. 2008, "
        "doi:10.1007/978-3-540-68880-8_32"
    )

    @property
    def predicts_ratings(self) -> bool:
        """Whether the scorer predicts ratings; neighbours do unless `feedback` is implicit."""
        implicit = self.model in _NEIGHBOURS and self.settings.get("feedback") == "implicit"
        return self.model not in _RANKING and not implicit

    @property
    def leaves_out(self) -> Collection[str]:
        """Factors, of models that have none."""
        return ("factors",) if self.model in _WITHOUT_FACTORS else ()

    def fit(self, interactions: csr_array, seed: int) -> _Scored:
        """Train; arguments and errors as in `Recommender.fit`."""
        factory = getattr(required(self.name, _PLACES[self.model], "lenskit"), self.model)
        kept = {"user_embeddings": "prefer"} if self.model in _ALS else {}
        settings = {**kept, **usable(self.label, self.settings, None)}
        model = built(self.label, partial(_made, factory), **settings)
        with trained(self.label), seeded(seed):
            from lenskit.basic import BiasScorer
            from lenskit.training import TrainingOptions

            data, options = _dataset(interactions), TrainingOptions(rng=seed, device="cpu")
            fallback = BiasScorer() if self.model in _NEIGHBOURS and self.predicts_ratings else None
            for scorer in (model, fallback):
                if scorer is not None:
                    scorer.train(data, options)
            return _Scored(
                interactions, data, model, fallback and _Scored(interactions, data, fallback, None)
            )

    def factors(self, fitted: _Scored) -> Factors | None:
        """Return the factors of a factorisation, with biases of items; None for another model."""
        model = fitted.model
        if not hasattr(model, "item_embeddings"):
            return None
        # Otherwise each score fits the factors of its user once more.
        published = getattr(model.config, "user_embeddings", "prefer") == "prefer"
        users, items = model.user_embeddings if published else None, model.item_embeddings
        if hasattr(model, "bias"):
            users = None if users is None else np.column_stack([users, np.ones(len(users))])
            items = np.column_stack([items, model.bias.item_biases])
        return Factors(
            items.astype(np.float32), None if users is None else users.astype(np.float32)
        )


def _made(factory: Any, /, **settings: Any) -> Any:
    """Call a constructor with fields that its configuration knows; it would ignore others."""
    strict = new_class("Configuration", (factory.config_class(),), {"extra": "forbid"})
    return factory(strict(**settings))


def _dataset(interactions: csr_array) -> Any:
    """Return LensKit's data set, in which the id of a user or item is its own index."""
    from lenskit.data import DatasetBuilder
    from pyarrow import table

    entries, builder = interactions.tocoo(), DatasetBuilder()
    for kind, count in zip(("user", "item"), interactions.shape, strict=True):
        builder.add_entities(kind, np.arange(count))
    users, items = (index.astype(np.int64) for index in entries.coords)
    columns = table({"user_id": users, "item_id": items, "rating": entries.data})
    builder.add_interactions("rating", columns, entities=["user", "item"], default=True)
    return builder.build()
