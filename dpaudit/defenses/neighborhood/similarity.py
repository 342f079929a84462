"""Item-item similarities: learned ones, and the baselines PCC and COS of Wang & Tang 2017.

Of learned ones, the training data, gradients, mini-batches and models. The baselines have no
privacy.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Variant
from dpaudit.core.errors import ConfigError, InputError
from dpaudit.core.memory import check_memory
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import FloatArray, IntArray, Observer, SimilarityRows
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Csr, Ratings, Scale
from dpaudit.defenses import observers, precision, training_checks
from dpaudit.defenses.base import TrainedDefense
from dpaudit.kernels import neighborhood as kernels
from dpaudit.kernels.lane_noise import LANE_TILE
from dpaudit.kernels.lanes import LANES

Floats = NDArray[np.float32]
# Clipped gradients are summed in double precision, so that a sum changes by no more than one of
# its summands.
Sums = NDArray[np.float32] | NDArray[np.float64]
Indices = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class SimilarityData:
    """The prepared ratings of a neighbourhood model.

    Attributes:
        profiles: the ratings by user.
        centred: `r_uj − r̄_j` of the ratings by user `(R,)`.
        raters: the training ratings by item, each row with the item's raters.
        targets: `r_ui − r̄_i` of the entries of `raters`.
        places: the indices of these entries among the ratings by user.
        means: `r̄_i` of each item `(M,)`.
        scale: the rating scale.
        initial: the matrix `(M, M)` that the initial rows are proportional to; None for a constant.
    """

    profiles: Csr
    centred: Floats
    raters: Csr
    targets: Floats
    places: NDArray[np.int64]
    means: Floats
    scale: Scale
    initial: Floats | None = None

    @classmethod
    def of(cls, ratings: Ratings, means: Floats, more_than: int) -> SimilarityData:
        """Prepare the ratings, to train on users with more than `more_than` ratings.

        Raises:
            ConfigError: there are no such users.
        """
        counts = np.diff(ratings.by_user.start)
        kept = np.flatnonzero((counts > more_than)[ratings.user])
        if not len(kept):
            raise ConfigError(
                f"no user has more than params.more_than = {more_than} ratings: lower it or use "
                "more data"
            )
        order = kept[np.argsort(ratings.item[kept], kind="stable")]
        start = np.searchsorted(ratings.item[order], np.arange(ratings.n_items + 1))
        centred = (ratings.value - means[ratings.item]).astype(np.float32)
        return cls(
            profiles=ratings.by_user,
            centred=centred,
            raters=Csr(start.astype(np.int64), ratings.user[order], ratings.value[order]),
            targets=centred[order],
            places=order,
            means=means,
            scale=ratings.scale,
        )

    @property
    def n_items(self) -> int:
        """`M`."""
        return len(self.means)

    @property
    def row_space(self) -> int:
        """The number of noise coordinates per row: `M`, rounded up to whole tiles."""
        return -(-self.n_items // LANE_TILE) * LANE_TILE

    def entries(self, item: int) -> slice:
        """Return the slice of the entries of `raters` for this item."""
        return slice(int(self.raters.start[item]), int(self.raters.start[item + 1]))


def item_means(ratings: Ratings) -> Floats:
    """Return `r̄_i` of each item, the mean of all ratings for items without any, `(M,)`."""
    counts = np.bincount(ratings.item, minlength=ratings.n_items)
    sums = np.bincount(ratings.item, ratings.value, ratings.n_items)
    overall = sums.sum() / max(len(ratings), 1)
    return np.where(counts, sums / np.maximum(counts, 1), overall).astype(np.float32)


def middle_means(ratings: Ratings) -> Floats:
    """Return the middle of the scale for every item, which needs no data, `(M,)`."""
    middle = (ratings.scale.minimum + ratings.scale.maximum) / 2
    return np.full(ratings.n_items, middle, np.float32)


def moved_rows(before: SimilarityData, after: SimilarityData) -> Indices:
    """Return the items whose gradients may differ: those rated by users whose ratings differ."""
    n_items = before.n_items
    sides = []
    for data in (before, after):
        counts = np.diff(data.profiles.start)
        users = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        sides.append((users * n_items + data.profiles.column, data.centred))
    (keys, values), (others, changed) = sides
    if np.array_equal(keys, others):
        different = keys[values != changed]
    else:
        common, at, there = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
        different = np.union1d(
            np.setxor1d(keys, others, assume_unique=True), common[values[at] != changed[there]]
        )
    users = np.unique(different // n_items)
    items = [whole[np.isin(whole // n_items, users)] % n_items for whole in (keys, others)]
    return np.union1d(*items).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Slope:
    """How the gradient of one row is computed.

    Attributes:
        neighbors: N_k.
        bound: the largest absolute error; larger ones are clamped.
        flat_from: the prediction minus the item's mean below which the likelihood is flat.
        flat_to: the prediction minus the item's mean above which the likelihood is flat.
        clip: the largest L1 norm of a rater's gradients in all their rows, in equal shares.
    """

    neighbors: int
    bound: float = math.inf
    flat_from: float = -math.inf
    flat_to: float = math.inf
    clip: float = math.inf

    def of(
        self, data: SimilarityData, item: int, row: Floats, taken: Floats | None = None
    ) -> tuple[Sums, Floats]:
        """Return the gradient in the row `(M, 16)`, and the raters' least `Σ |s_j|` `(16,)`.

        Args:
            data: the ratings.
            item: the item of the row.
            row: the row `(M, 16)`.
            taken: the weight of each rater's rating `(n, 16)`; 1 unless given.
        """
        entries = data.entries(item)
        users = data.raters.column[entries]
        starts, stops = data.profiles.start[users], data.profiles.start[users + 1]
        clipped, sizes = math.isfinite(self.clip), stops - starts
        out: Sums = np.empty(row.size, np.float64) if clipped else np.empty(row.size, np.float32)
        least = np.empty(LANES, np.float32)
        kernels.gradient(
            out,
            row.reshape(-1),
            item,
            starts,
            stops,
            data.targets[entries],
            data.profiles.column,
            data.centred,
            _NOTHING if taken is None else taken.reshape(-1),
            np.float32(self.bound),
            np.float32(self.flat_from),
            np.float32(self.flat_to),
            (self.clip * (1 - precision.hair(sizes)) / sizes).astype(np.float32)
            if clipped
            else _NOTHING,
            self.neighbors,
            least,
        )
        return out.reshape(row.shape), least


@dataclass(frozen=True, eq=False)
class Batches:
    """The mini-batches of up to 16 trials, each drawn once and cached for the following rows.

    A batch must be drawn whole to find a row's part of it. It is cached as one bit per trial.

    Attributes:
        draw: maps a trial and a step to the mask of its mini-batch `(n,)`.
        streams: the trials.
        kept: the cached batches, by step.
    """

    draw: Callable[[Streams, int], NDArray[np.bool_]]
    streams: Streams
    kept: dict[int, NDArray[np.uint16]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        draw: Callable[[Streams, int], NDArray[np.bool_]],
        streams: Streams,
        steps: int,
        size: int,
        units: str,
    ) -> Batches:
        """Check that the mini-batches of all steps fit the memory, before any is drawn.

        Args:
            draw: maps a trial and a step to the mask of its mini-batch `(n,)`.
            streams: the trials.
            steps: the number of steps.
            size: n.
            units: what a mini-batch is drawn from, such as `ratings`.

        Raises:
            ConfigError: they do not fit.
        """
        check_memory(
            "the mini-batches that all rows share",
            f"params.steps ({steps:,}) times the number of {units} ({size:,})",
            2 * steps * size,
            "lower params.steps, set params.sampling_rate = 1",
        )
        return cls(draw, streams)

    def taken(self, t: int, chosen: slice | Indices) -> Floats:
        """Return 1 for each of `chosen` in the mini-batch of step t, else 0, `(n, 16)`."""
        bits = self._bits(t)[chosen]
        held: Floats = ((bits[:, None] >> _LANE) & np.uint16(1)).astype(np.float32)
        return held

    def _bits(self, t: int) -> NDArray[np.uint16]:
        if t in self.kept:
            return self.kept[t]
        bits: NDArray[np.uint16] | None = None
        for trial, lane in zip(self.streams.blocks(1), _LANE, strict=False):
            part = self.draw(trial, t).astype(np.uint16) << lane
            bits = part if bits is None else np.bitwise_or(bits, part, out=bits)
        if bits is None:
            raise TypeError("there are no trials: give one or more")
        self.kept[t] = bits
        return bits


@dataclass(frozen=True, eq=False)
class SimilarityModels:
    """Similarities of W trials: `r̂_ui = r̄_i + Σ s_ij (r_uj − r̄_j) / Σ |s_ij|`, on the scale.

    Predictions are clipped to the scale. Rows are independent, and a row is trained when it is
    read. So rows that are never read are not computed, and no matrix is stored.

    Attributes:
        trainer: trains a row.
        data: the ratings; predictions use the user's own.
        streams: the trials.
    """

    trainer: SimilarityDefense
    data: SimilarityData
    streams: Streams

    def row(self, item: int, streams: Streams, batches: Batches | None = None) -> Floats:
        """Train the final row of up to 16 trials `(M, 16)`; mini-batches are drawn unless given."""
        for row in self.trainer.iterates(self.data, item, streams, batches):
            final = row
        return final

    def public(self, items: Indices) -> SimilarityRows:
        """Return the published part: the final rows of these items, and the item means.

        Raises:
            ConfigError: they do not fit the memory.
        """
        trials, size = len(self.streams), self.data.n_items
        check_memory(
            f"the published rows of {len(items):,} items in {trials} trials",
            f"trials times these items times all items ({size:,})",
            8 * trials * len(items) * size,
            "use a target with fewer ratings (train.cap), raise data.least_raters",
        )
        parts = []
        for part in training_checks.lane_blocks(self.streams):
            batches = self.trainer.batches(self.data, part)
            rows = [self.row(int(item), part, batches)[:, : len(part)].T for item in items]
            parts.append(np.stack(rows, axis=1))
        return SimilarityRows(items, np.concatenate(parts), self.data.means)

    def predict(self, users: Indices, items: Indices) -> Floats:
        """Predict the ratings of (user, item) pairs `(W, n)`.

        Raises:
            ConfigError: the predictions do not fit the memory.
        """
        training_checks.check_predictions(len(self.streams), len(users))
        order = np.argsort(items, kind="stable")
        bounds = np.flatnonzero(np.diff(items[order])) + 1
        shown = np.empty((len(self.streams), len(users)), np.float32)
        done = 0
        for part in training_checks.lane_blocks(self.streams):
            block = shown[done : done + len(part)]
            batches = self.trainer.batches(self.data, part)
            for pairs in np.split(order, bounds):
                if len(pairs):
                    item = int(items[pairs[0]])
                    scores = self._scores(item, users[pairs], self.row(item, part, batches))
                    block[:, pairs] = scores[:, : len(part)].T
            done += len(part)
        scale = self.data.scale
        shown += self.data.means[items]
        return np.clip(shown, scale.minimum, scale.maximum, out=shown)

    def _scores(self, item: int, users: Indices, row: Floats) -> Floats:
        out = np.empty((len(users), LANES), np.float32)
        profiles = self.data.profiles
        kernels.scores(
            out.reshape(-1),
            row.reshape(-1),
            item,
            profiles.start[users],
            profiles.start[users + 1],
            profiles.column,
            self.data.centred,
            self.trainer.neighbors,
        )
        return out


class SimilarityDefense(TrainedDefense[SimilarityData]):
    """A defense that trains one row of the similarities in up to 16 trials.

    Attributes:
        neighbors: N_k.
        more_than: only users with more ratings than this are trained on.
    """

    neighbors: int
    more_than: int

    def least_ratings(self) -> int:
        """Return `more_than`."""
        return self.more_than

    def public_statistics(self, prepared: SimilarityData) -> Any:
        """Return the items' means."""
        return prepared.means

    def train(self, prepared: SimilarityData, streams: Streams) -> SimilarityModels:
        """Return the models of these trials; each row is trained when it is read."""
        return SimilarityModels(self, prepared, streams)

    @abstractmethod
    def batches(self, data: SimilarityData, streams: Streams) -> Batches | None:
        """Return the mini-batches of these trials, None if every step uses all ratings."""

    @abstractmethod
    def iterates(
        self, data: SimilarityData, item: int, streams: Streams, batches: Batches | None = None
    ) -> Iterator[Floats]:
        """Yield the row `(M, 16)` before the first step and after each, always the same array.

        Args:
            data: the ratings.
            item: the item of the row.
            streams: up to 16 trials.
            batches: the trials' mini-batches, if already drawn for other rows.

        Raises:
            NoModelError: a training diverged.
        """


_NOTHING = np.empty(0, np.float32)
_LANE = np.arange(LANES, dtype=np.uint16)


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
        values = kernels.predict(
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
        precision.check_finite(self.epsilon, self.variant)
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
        return observers.release_observers(self, None)

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> NeighborStatistics:
        """Compute the items' means and the similarities, without randomness.

        Args:
            ratings: the training ratings.
            public: the data whose item means count as public, `ratings` unless given.

        Raises:
            ConfigError: there are no ratings, or the similarities do not fit the memory.
            DataError: the scale has one value.
        """
        training_checks.check_rated(self.name, ratings)
        check_memory(
            "the similarities of a neighbourhood model",
            f"the square of the number of items ({ratings.n_items:,})",
            4 * ratings.n_items**2,
            "raise data.least_raters, use fewer items",
        )
        scale = ratings.scale
        pearson = self.similarity == "pearson"
        similarity = kernels.similarities(
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
