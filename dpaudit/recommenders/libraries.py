"""The adapters to Cornac, LensKit, LightFM and Surprise, libraries of recommenders."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from inspect import isclass, signature
from io import StringIO
from types import new_class
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import coo_matrix, csr_array
from scipy.special import expit

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.knobs import Knob
from dpaudit.core.messages import show
from dpaudit.core.plugin import STRICT
from dpaudit.core.registry import suggestion
from dpaudit.recommenders import base

_CORNAC_RATINGS = {"BaselineOnly", "GlobalAvg", "ItemKNN", "MF", "NMF", "PMF", "SVD", "UserKNN"}
# The vectors of other models do not give their scores.
_CORNAC_FACTORS = frozenset({"BPR", "HPF", "MF", "MMMF", "NMF", "SVD", "WBPR"})
_CORNAC_SEEDLESS = frozenset({"GlobalAvg", "MostPop"})
_CORNAC_REGULARISED = frozenset({"BPR", "MF", "PMF", "WBPR"})


@dataclass(frozen=True, eq=False)
class _CornacScored(base.RowModel):
    model: Any

    def rows(self, users: base.Indices) -> base.Scores:
        scores = np.array([np.reshape(self.model.score(user), -1) for user in users.tolist()])
        if type(self.model).__name__ == "PMF" and self.model.variant == "non_linear":
            # PMF leaves this last step of its prediction out when it scores all items at once.
            low, high = self.model.min_rating, self.model.max_rating
            scores = low + (high - low) * expit(scores)
        return scores.astype(np.float32)


@parameters(frozen=True, config=STRICT)
class Cornac(base.Library):
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
        return self.model in _CORNAC_RATINGS

    @property
    def leaves_out(self) -> Collection[str]:
        """Factors, unless the model is a factorisation."""
        return () if self.model in _CORNAC_FACTORS else ("factors",)

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """Factors, iterations and regularisation of the factorisations that have these."""
        if self.model not in _CORNAC_REGULARISED:
            return {}
        return {
            "settings.k": Knob(4, 128, log=True),
            "settings.max_iter": Knob(5, 200, log=True),
            "settings.lambda_reg": Knob(0.001, 1.0, log=True),
        }

    def fit(self, interactions: csr_array, seed: int) -> _CornacScored:
        """Train; arguments and errors as in `Recommender.fit`."""
        library = base.required(self.name, "cornac.models", "cornac")
        sequential = (library.NextBasketRecommender, library.NextItemRecommender)
        models = {
            name: kind
            for name, kind in vars(library).items()
            if isclass(kind) and issubclass(kind, library.Recommender)
            if not issubclass(kind, sequential) and name != "FM"
            if name in _CORNAC_SEEDLESS or "seed" in signature(kind).parameters
        }
        if self.model not in models:
            raise ConfigError(
                f"params.model = {self.model!r} is no model of cornac that interactions and a seed "
                f"train{suggestion(self.model, models)}"
            )
        factory = models[self.model]
        quiet = base.taken(factory, num_threads=1, verbose=False)
        model = self.built(factory, base.taken(factory, seed=seed), **quiet)
        # Some models print even with verbose=False.
        with base.trained(self.label), base.seeded(seed), redirect_stdout(StringIO()):
            from cornac.data import Dataset

            entries, (users, items) = interactions.tocoo(), interactions.shape
            # The id of a user or item is its own index, and compiled code takes these types only.
            numbers = (index.astype(np.int64) for index in entries.coords)
            uses = {user: user for user in range(users)}, {item: item for item in range(items)}
            rows = *numbers, entries.data.astype(np.float64)
            model.fit(Dataset(users, items, *uses, rows, seed=seed))
        return _CornacScored(interactions, model)

    def factors(self, fitted: _CornacScored) -> base.Factors | None:
        """Return the factors of a factorisation, with its biases; None for another model."""
        if self.leaves_out:
            return None
        model = fitted.model
        items, users = model.get_item_vectors(), model.get_user_vectors()
        return base.Factors(items.astype(np.float32), users.astype(np.float32))


Scorer = Literal[
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
_LENSKIT_MODULES: Mapping[Scorer, str] = {
    **dict.fromkeys(("BiasedMFScorer", "ImplicitMFScorer"), "lenskit.als"),
    **dict.fromkeys(("ItemKNNScorer", "UserKNNScorer", "EASEScorer"), "lenskit.knn"),
    "SLIMScorer": "lenskit.knn.slim",
    "BiasScorer": "lenskit.basic",
    "FunkSVDScorer": "lenskit.funksvd",
    "BiasedSVDScorer": "lenskit.sklearn.svd",
    **dict.fromkeys(("FlexMFExplicitScorer", "FlexMFImplicitScorer"), "lenskit.flexmf"),
}
_LENSKIT_ALS = frozenset({"BiasedMFScorer", "ImplicitMFScorer"})
_LENSKIT_NEIGHBOURS = frozenset({"ItemKNNScorer", "UserKNNScorer"})
_LENSKIT_FACTORLESS = _LENSKIT_NEIGHBOURS | {"EASEScorer", "SLIMScorer", "BiasScorer"}
_LENSKIT_RANKING = {"ImplicitMFScorer", "EASEScorer", "SLIMScorer", "FlexMFImplicitScorer"}


@dataclass(frozen=True, eq=False)
class _LensKitScored(base.RowModel):
    data: Any
    model: Any
    fallback: _LensKitScored | None

    def rows(self, users: base.Indices) -> base.Scores:
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

    def scores(self, users: base.Indices, items: base.Indices) -> base.Scores:
        scores = super().scores(users, items)
        absent = np.isnan(scores)
        if self.fallback is not None and absent.any():
            scores[absent] = self.fallback.scores(users[absent], items[absent])
        return scores


@parameters(frozen=True, config=STRICT)
class LensKit(base.Library):
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

    model: Scorer = "BiasedMFScorer"

    name: ClassVar[str] = "lenskit"
    title: ClassVar[str] = "LensKit: alternating least squares, neighbours, EASE and biases"
    source: ClassVar[str] = (
        "Ekstrand, LensKit for Python, 2020, doi:10.1145/3340531.3412778; Zhou et al. 2008, "
        "doi:10.1007/978-3-540-68880-8_32"
    )

    @property
    def predicts_ratings(self) -> bool:
        """Whether the scorer predicts ratings; neighbours do unless `feedback` is implicit."""
        implicit = self.model in _LENSKIT_NEIGHBOURS and self.settings.get("feedback") == "implicit"
        return self.model not in _LENSKIT_RANKING and not implicit

    @property
    def leaves_out(self) -> Collection[str]:
        """Factors, of models that have none."""
        return ("factors",) if self.model in _LENSKIT_FACTORLESS else ()

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """Factors, epochs and regularisation, or the number of neighbours."""
        if self.model in _LENSKIT_NEIGHBOURS:
            return {"settings.max_nbrs": Knob(5, 200, log=True)}
        if self.model == "EASEScorer":
            return {"settings.regularization": Knob(1.0, 1000.0, log=True)}
        if self.model not in _LENSKIT_ALS:
            return {}
        return {
            "settings.embedding_size": Knob(4, 128, log=True),
            "settings.epochs": Knob(2, 20, log=True),
            "settings.regularization": Knob(0.001, 10.0, log=True),
        }

    def fit(self, interactions: csr_array, seed: int) -> _LensKitScored:
        """Train; arguments and errors as in `Recommender.fit`."""
        module = base.required(self.name, _LENSKIT_MODULES[self.model], "lenskit")
        factory = getattr(module, self.model)
        kept = {"user_embeddings": "prefer"} if self.model in _LENSKIT_ALS else {}
        settings = {**kept, **base.usable(self.label, self.settings, None)}
        model = base.built(self.label, partial(_configured, factory), **settings)
        with base.trained(self.label), base.seeded(seed):
            from lenskit.basic import BiasScorer
            from lenskit.training import TrainingOptions

            data, options = _dataset(interactions), TrainingOptions(rng=seed, device="cpu")
            predicts = self.model in _LENSKIT_NEIGHBOURS and self.predicts_ratings
            fallback = BiasScorer() if predicts else None
            for scorer in (model, fallback):
                if scorer is not None:
                    scorer.train(data, options)
            biases = fallback and _LensKitScored(interactions, data, fallback, None)
            return _LensKitScored(interactions, data, model, biases)

    def factors(self, fitted: _LensKitScored) -> base.Factors | None:
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
        users = None if users is None else users.astype(np.float32)
        return base.Factors(items.astype(np.float32), users)


def _configured(factory: Any, /, **settings: Any) -> Any:
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


_EPOCHS = 30


@parameters(frozen=True, config=STRICT)
class LightFM(base.Library):
    """Train LightFM without features, on one thread, as several would make its numbers vary.

    A rating above 0 is a purchase. A rating of 0 is a negative example for `logistic`, which draws
    none itself, and nothing for the other losses. A user or item without interactions keeps its
    initial factors.

    Attributes:
        model: the loss, `warp`, `bpr` or `logistic`.
        settings: arguments of the constructor, such as `no_components`, and `epochs` (30 if
            absent).
    """

    model: Literal["warp", "bpr", "logistic"] = "warp"

    name: ClassVar[str] = "lightfm"
    title: ClassVar[str] = "LightFM: factorisation with the WARP, BPR or logistic loss"
    source: ClassVar[str] = (
        "Kula 2015, arXiv:1507.08439; Weston, Bengio & Usunier, WSABIE: Scaling Up to Large "
        "Vocabulary Image Annotation, IJCAI 2011, section 3"
    )

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """Factors and epochs."""
        return {
            "settings.no_components": Knob(4, 128, log=True),
            "settings.epochs": Knob(2, 60, log=True),
        }

    def fit(self, interactions: csr_array, seed: int) -> base.FactorModel:
        """Train; arguments and errors as in `Recommender.fit`."""
        factory = base.required(self.name, "lightfm", "lightfm").LightFM
        if (loss := self.settings.get("loss", self.model)) != self.model:
            raise ConfigError(
                f"recommender.params.settings.loss = {show(loss)} of {self.label}: "
                "params.model decides the loss: set that, and remove loss"
            )
        settings = base.usable(self.label, self.settings, factory, "epochs")
        chosen = {**settings, "loss": self.model, "random_state": seed}
        epochs = chosen.pop("epochs", _EPOCHS)
        model = base.built(self.label, factory, **chosen)
        with base.trained(self.label):
            model.fit(coo_matrix(interactions), epochs=epochs, num_threads=1)
            factors = model.user_embeddings, model.item_embeddings
            return base.with_biases(interactions, *factors, model.item_biases, model.user_biases)


Algorithm = Literal[
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
_SURPRISE_FACTORS = frozenset({"SVD", "SVDpp", "NMF", "BaselineOnly"})


class _Rated(dict[int, list[tuple[int, float]]]):
    """Ratings by user or by item; those who have none get an empty list and stay unknown."""

    def __missing__(self, key: int) -> list[tuple[int, float]]:
        return []


@dataclass(frozen=True, eq=False)
class _Estimates(base.RowModel):
    model: Any
    impossible: type[Exception]

    def rows(self, users: base.Indices) -> base.Scores:
        items = np.arange(self.seen.shape[1], dtype=np.int32)
        scores = self.scores(np.repeat(users, len(items)), np.tile(items, len(users)))
        return scores.reshape(len(users), len(items))

    def scores(self, users: base.Indices, items: base.Indices) -> base.Scores:
        pairs = zip(users.tolist(), items.tolist(), strict=True)
        return np.array([self._estimate(*pair) for pair in pairs], np.float32)

    def _estimate(self, user: int, item: int) -> float:
        try:
            estimate = self.model.estimate(user, item)
        except self.impossible:
            return float(self.model.default_prediction())
        return float(estimate[0] if isinstance(estimate, tuple) else estimate)


@parameters(frozen=True, config=STRICT)
class Surprise(base.Library):
    """Train a prediction algorithm of Surprise.

    Scores are estimates before they are clipped to the rating scale, as clipped ones tie. A pair
    whose user or item has no rating gets Surprise's own estimate: biases, or the mean rating.
    SlopeOne and CoClustering truncate ratings to integers. NormalPredictor is left out, as it draws
    a new number for each call.

    Attributes:
        model: the class of the algorithm.
        settings: arguments of its constructor, such as `n_factors`, or a table `sim_options`.
    """

    model: Algorithm = "SVD"

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
    def knobs(self) -> Mapping[str, Knob]:
        """Factors, epochs and regularisation, or the number of neighbours."""
        if self.model.startswith("KNN"):
            return {"settings.k": Knob(5, 200, log=True)}
        if self.model not in ("SVD", "SVDpp"):
            return {}
        return {
            "settings.n_factors": Knob(4, 128, log=True),
            "settings.n_epochs": Knob(2, 60, log=True),
            "settings.reg_all": Knob(0.005, 0.5, log=True),
        }

    @property
    def leaves_out(self) -> Collection[str]:
        """Factors, unless the model is a factorisation."""
        return () if self.model in _SURPRISE_FACTORS else ("factors",)

    def fit(self, interactions: csr_array, seed: int) -> base.RowModel:
        """Train; arguments and errors as in `Recommender.fit`."""
        library = base.required(self.name, "surprise", "surprise")
        factory = getattr(library, self.model)
        # Without `cache_ratings`, SVDpp of version 1.1.5 leaks an array for each user.
        quiet = base.taken(factory, verbose=False, cache_ratings=True)
        # Constructors of neighbours would ignore a name that they do not know.
        fixed = base.taken(factory, random_state=seed)
        model = self.built(factory, fixed, "bsl_options", **quiet)
        with base.trained(self.label), self._dividing(), warnings.catch_warnings():
            # Some algorithms take the mean of a user without ratings, and never use it.
            warnings.filterwarnings("ignore", category=RuntimeWarning)
            model.fit(_trainset(library, interactions, self.model))
            if self.model in _SURPRISE_FACTORS:
                return _surprise_factors(model, interactions)
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


def _trainset(library: Any, interactions: csr_array, model: Algorithm) -> Any:
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


def _surprise_factors(model: Any, seen: csr_array) -> base.FactorModel:
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
        return base.with_biases(seen, p, q, model.bi, mean + model.bu)
    rows = np.column_stack([p, users]).astype(np.float32)
    columns = np.column_stack([q, np.where(items, 0, mean)]).astype(np.float32)
    return base.FactorModel(seen, rows, columns, np.where(users, 0, mean).astype(np.float32))
