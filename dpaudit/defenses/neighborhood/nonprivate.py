"""Item neighbourhood models without privacy, the baselines PCC and COS of Wang & Tang 2017."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Variant
from dpaudit.core.errors import InputError
from dpaudit.core.memory import check_memory
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import FloatArray, IntArray, Observer
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.neighborhood.similarity import item_means
from dpaudit.defenses.observers import release_observers
from dpaudit.defenses.precision import check_finite
from dpaudit.defenses.training_checks import check_rated
from dpaudit.kernels.neighborhood import scores as neighbor_scores

# A variance below this share of the scale's squared width counts as 0, a rounding error.
_FLAT = 1e-12


@dataclass(frozen=True, eq=False)
class NeighborStatistics:
    """The statistics that predictions are computed from.

    Attributes:
        ratings: the training ratings.
        means: `r̄` of every item `(M,)`; the mean of all ratings for an item without ratings.
        similarity: `s_ij` `(M, M)`, 0 on the diagonal and for items without ratings.
    """

    ratings: Ratings
    means: FloatArray
    similarity: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The same neighbourhood model in every trial.

    Attributes:
        statistics: the means and similarities.
        centred: whether ratings minus their item's mean are averaged, rather than raw ratings.
        count: `N_k`.
        trials: the number of trials.
    """

    statistics: NeighborStatistics
    centred: bool
    count: int
    trials: int

    def predict(self, users: IntArray, items: IntArray) -> NDArray[np.float32]:
        """Predict the ratings of (user, item) pairs, `(W, n)`; all rows are views of one.

        Prediction is faster if the pairs of a user are consecutive.

        Raises:
            InputError: `users` and `items` differ in length, or hold an unknown index.
        """
        ratings = self.statistics.ratings
        _check_pairs(ratings, users, items)
        values = neighbor_scores.predict(
            users.astype(np.int32),
            items.astype(np.int32),
            ratings.by_user,
            self.statistics.similarity,
            self.statistics.means,
            self.centred,
            self.count,
            ratings.scale.minimum,
            ratings.scale.maximum,
        )
        return np.broadcast_to(values, (self.trials, len(values)))


@parameters(frozen=True, config=STRICT)
class Neighborhood(TrainedDefense[NeighborStatistics]):
    """Item neighbourhood model, eq. (2), with similarities that are computed, not learned.

        r̂_ui = r̄_i + Σ_{j ∈ N} s_ij (r_uj − r̄_j) / Σ_{j ∈ N} |s_ij|

    or, if `centred` is false, without the items' means, as in many libraries,

        r̂_ui = Σ_{j ∈ N} s_ij r_uj / Σ_{j ∈ N} |s_ij|.

    N is the set of the `neighbors` items j ≠ i of largest |s_ij| among those that u rated. If the
    denominator is 0, the prediction is `r̄_i`, which for an item without ratings is the mean of all
    ratings. Predictions are clipped to the scale. With `U_i` the raters of item i, and `U_ij` those
    of both i and j, `s_ij` is one of

        pearson   Σ (r_ui − m_i)(r_uj − m_j) / sqrt(Σ (r_ui − m_i)² Σ (r_uj − m_j)²), all over U_ij,
                  m_i the mean of item i over U_ij; 0 if either item has only one value there
        cosine    Σ_{U_ij} r_ui r_uj / sqrt(Σ_{U_i} r_ui² Σ_{U_j} r_uj²)

    The cosine is that of whole columns, with 0 for a missing rating. (With all sums over U_ij, as
    in some libraries, a pair with a single co-rater has cosine 1. On MovieLens-100K the RMSE is
    then larger by .013.) `shrinkage` β multiplies `s_ij` by `|U_ij| / (|U_ij| + β)`, which reduces
    similarities of few co-raters.

    The model is a baseline without any privacy guarantee.

    Attributes:
        epsilon: ignored; a sweep over ε gives the same model each time.
        variant: only `nonprivate`.
        similarity: see above; PCC is `pearson`, COS is `cosine`.
        neighbors: `N_k`; the paper has 900 on MovieLens-100K, more than any user rated there, and
            1300 on MovieLens-1M.
        shrinkage: β; 0 for none, as in the paper; 100 is usual.
        centred: whether the first form predicts, else the second. The second allows only the
            cosine, since a negative similarity would predict a rating below the scale.
    """

    epsilon: Annotated[float, Field(ge=1e-6)] = math.inf
    variant: Variant = "nonprivate"
    similarity: Literal["pearson", "cosine"] = "cosine"
    neighbors: Annotated[int, Field(ge=1, le=1_000_000)] = 900
    shrinkage: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    centred: bool = True

    name: ClassVar[str] = "neighborhood"
    title: ClassVar[str] = "Item neighbourhood model with Pearson or cosine similarity, no privacy"
    source: ClassVar[str] = (
        "Wang & Tang, Differentially Private Neighborhood-based Recommender Systems, 2017, eq. (2) "
        "and section 5.1; similarities and shrinkage after Desrosiers & Karypis, A Comprehensive "
        "Survey of Neighborhood-based Recommendation Methods, 2011, section 4.3.2, "
        "doi:10.1007/978-0-387-85820-3_4"
    )

    @model_validator(mode="after")
    def _check(self) -> Neighborhood:
        if self.variant != "nonprivate":
            raise ValueError(
                f"variant {self.variant!r} does not exist: the model adds no noise, use "
                "'nonprivate'"
            )
        check_finite(self.epsilon, self.variant)
        if self.similarity == "pearson" and not self.centred:
            raise ValueError(
                "similarity 'pearson' may be negative, and averages of raw ratings with negative "
                "weights lie below the scale: remove centred, or use 'cosine'"
            )
        return self

    def claim(self) -> None:
        """Return None: the model has no privacy guarantee."""
        return

    def observers(self) -> Mapping[str, Observer[NeighborStatistics]]:
        """Return the observers of predictions and lists; no model is published."""
        return release_observers(self, None)

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> NeighborStatistics:
        """Compute the items' means and the similarities, without randomness.

        Args:
            ratings: the training ratings.
            public: the data whose item means count as public, `ratings` unless given.

        Raises:
            ConfigError: there are no ratings, or the similarities do not fit the memory.
            DataError: the scale has one value.
        """
        check_rated(self.name, ratings)
        check_memory(
            "the similarities of a neighbourhood model",
            f"the square of the number of items ({ratings.n_items:,})",
            4 * ratings.n_items**2,
            "raise data.least_raters, use fewer items",
        )
        scale = ratings.scale
        pearson = self.similarity == "pearson"
        similarity = neighbor_scores.similarities(
            ratings.by_item,
            ratings.by_user,
            (scale.minimum + scale.maximum) / 2 if pearson else 0.0,
            pearson,
            _FLAT * scale.width**2,
            self.shrinkage,
        )
        known = ratings if public is None else public
        return NeighborStatistics(ratings, item_means(known), similarity)

    def public_statistics(self, prepared: NeighborStatistics) -> Any:
        """Return the items' means."""
        return prepared.means

    def train(self, prepared: NeighborStatistics, streams: Streams) -> Neighbors:
        """Return the same model in every trial, since nothing is drawn."""
        return Neighbors(prepared, self.centred, self.neighbors, len(streams))


def _check_pairs(ratings: Ratings, users: IntArray, items: IntArray) -> None:
    if users.shape != items.shape or users.ndim != 1:
        raise InputError(
            f"users has shape {users.shape} and items has shape {items.shape}: give one item for "
            "each user"
        )
    for name, index, count in (("user", users, ratings.n_users), ("item", items, ratings.n_items)):
        outside = index[(index < 0) | (index >= count)]
        if len(outside):
            raise InputError(f"{name} {outside[0]} lies outside 0..{count - 1}: correct the index")
