"""Base class of item-item recommenders with output perturbation (Slope One and cosine).

For an unrated item `j`, a user `i` with ratings `r_ik` on `n` items is shown `A_ij`:

    f_ij = (1/n) Σ_{k rated by i} term(r_ik, s_jk),      A_ij = f_ij + Lap(Δf/ε)

(Park & Acharya 2011, eqs (5), (8), (9), (15) and §3.2). Subclasses define `s_jk`, `term` and Δf.
What needs no randomness is prepared once; a trial is one draw of the noise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core import releases
from dpaudit.core.claim import Claim, RatingAdjacency, Variant
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.memory import check_memory, fits
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import Profile
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingChange, edited, without
from dpaudit.data.ratings import Csr, Ratings, Scale
from dpaudit.defenses import precision
from dpaudit.defenses.base import (
    BLOCK,
    ExactScores,
    ItemModel,
    LaplaceNoise,
    PairCounts,
    PredictionDefense,
    Vector,
    frozen,
    frozen_rows,
    in_ticks,
)
from dpaudit.kernels import exact_noise
from dpaudit.kernels import item_item as kernels
from dpaudit.kernels.top_k import laplace_top_k

# The most bytes of a pair of items while the similarities are computed: the pair (4) and its
# similarity (4), in one order and then in both (16).
_PAIR = 24
# The number of pairs whose similarities are computed together.
_AT_ONCE = 2**20


@parameters(frozen=True, config=STRICT)
class ItemItem(PredictionDefense):
    """An item-item recommender with Laplace output perturbation.

    Attributes:
        epsilon: the ε that the noise is scaled to, 1e-6 to 1e6; `inf` only for `nonprivate`.
        variant: `published` adds the paper's noise, `corrected` a noise that makes the claim true,
            `nonprivate` none.
        min_ratings: `T`, the least number of ratings with which a user gets predictions.
        top_k: the length of the list shown to a user.
        adjacency: the adjacency relation of the claim, which the corrected Δf covers.
        outputs: the number of one user's predictions that the corrected Δf covers jointly (L1). A
            list of the best k depends on every prediction: it is covered only if `outputs` is the
            number of the user's unrated items.
    """

    epsilon: Annotated[float, Field(ge=1e-6)]
    variant: Variant = "published"
    min_ratings: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    top_k: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    adjacency: RatingAdjacency = "rating-add-remove"
    outputs: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1

    # s_kj = mirror_sign · s_jk
    mirror_sign: ClassVar[float]
    # The theorem and equation of the published claim.
    claim_source: ClassVar[str]

    @abstractmethod
    def check_scale(self, scale: Scale) -> None:
        """Check that this defense can use ratings on this scale.

        Raises:
            DataError: it cannot.
        """

    @abstractmethod
    def pair_similarity(self, pairs: PairCounts) -> Vector:
        """Return `s_jk` of each pair `(P,)`."""

    @abstractmethod
    def similarity_change(self, scale: Scale) -> float:
        """Return δ, the largest change of one `s_jk` by one rating of another user."""

    @abstractmethod
    def own_change(self, scale: Scale) -> float:
        """Return ω, the largest change of one prediction by one of the user's own ratings."""

    @abstractmethod
    def published_sensitivity(self, scale: Scale) -> float:
        """Return the paper's Δf."""

    @abstractmethod
    def bounds(self, scale: Scale) -> tuple[float, float]:
        """Return the interval that `r_ik + s_jk` is clipped to, infinite if it is not clipped."""

    @abstractmethod
    def candidates(self, scale: Scale) -> NDArray[np.float32]:
        """Return the values that a hidden rating may have, increasing, `(C,)`."""

    @abstractmethod
    def term(self, value: NDArray[np.float32], row: Vector, scale: Scale) -> Vector:
        """Return the term that a rating adds to the prediction of each item.

        Args:
            value: the rating on item l, a number or candidates `(C,)`.
            row: `s_jl` for every item j `(M,)`, or `(M, 1)` with candidates.
            scale: the rating scale.

        Returns:
            The terms `(M,)`, or `(M, C)` with candidates.
        """

    @model_validator(mode="after")
    def _check_epsilon(self) -> Self:
        if self.variant == "published" and self.outputs != 1:
            raise ValueError("outputs belongs to the corrected variant: remove it")
        precision.check_finite(self.epsilon, self.variant)
        if self.variant == "corrected":
            precision.check_pure(self.epsilon)
        return self

    def sensitivity(self, scale: Scale) -> float:
        """Return Δf of this variant.

        Corrected: let δ bound the change of one `s_jk` by another user's rating, and ω the change
        of one prediction by one of the target user's own ratings. Another user's rating on item `l`
        changes only the similarities of `l`. If `l` is a predicted item, its prediction is a mean
        of terms that change by at most δ, and no other prediction changes. If the target user rated
        `l`, one term of each prediction changes, by at most δ/n with n ≥ T. So `M'` predictions
        shown together change in L1 by at most

            Δf = max(δ, M' · max(δ/T, ω)),

        and one prediction by `max(δ, ω)`.
        """
        if self.variant == "nonprivate":
            return 0.0
        if self.variant == "published":
            return self.published_sensitivity(scale)
        delta, omega = self.similarity_change(scale), self.own_change(scale)
        return max(delta, self.outputs * max(delta / self.min_ratings, omega))

    def claim(self) -> Claim | None:
        """Return the claim: ε for the jointly covered predictions; None for `nonprivate`."""
        if self.variant == "nonprivate":
            return None
        published = self.variant == "published"
        return Claim(
            epsilon=self.epsilon,
            delta=0.0,
            adjacency=self.adjacency,
            observer="values",
            public=(
                f"who has at least {self.min_ratings} ratings, and which items' predictions are "
                f"shown; predictions covered jointly: {1 if published else self.outputs}"
            ),
            source=self.claim_source if published else "derivation in ItemItem.sensitivity",
        )

    def observers(self) -> Mapping[str, releases.Observer[ExactScores]]:
        """Return the observers of predicted values and of the best items without values."""
        return {
            "values": releases.Observer(
                (releases.Predictions, releases.LaplacePair),
                self._values,
                "predictions",
                "game",
                BLOCK,
            ),
            "list": releases.Observer(
                (releases.ItemList, releases.ItemInDoubt), self._listed, "the list", "list", BLOCK
            ),
        }

    def _values(
        self, pair: releases.PreparedPair[ExactScores], shown: ExactScores, streams: Streams
    ) -> Iterator[releases.View]:
        items = np.repeat(pair.items[None], len(streams), axis=0)
        scale = self._spread(pair.before.sensitivity)
        absent, present = (
            exact.scores[pair.items].astype(np.float64) for exact in (pair.before, pair.after)
        )
        law = releases.LaplacePair(absent, present, scale, precision.list_grid(scale))
        yield releases.View(self.release_items(shown, streams, items), law)

    def _listed(
        self, pair: releases.PreparedPair[ExactScores], shown: ExactScores, streams: Streams
    ) -> Iterator[releases.View]:
        yield releases.View(
            self.release_list(shown, streams), releases.ItemInDoubt(int(pair.items[0]))
        )

    def serving(self, min_ratings: int) -> ItemItem:
        """Return the same recommender with this `min_ratings`."""
        return replace(self, min_ratings=min_ratings)

    def similarities(self) -> ItemItem:
        """Return itself, which defines the similarities."""
        return self

    def prepare(self, ratings: Ratings) -> ItemModel:
        """Compute the item-item statistics, without randomness.

        Raises:
            ConfigError: they do not fit the memory.
            DataError: this defense cannot use the ratings' scale.
        """
        self.check_scale(ratings.scale)
        start, other, value = self._lower(ratings, self._room(ratings))
        rows = kernels.mirror(start, other, value, np.float32(self.mirror_sign))
        return ItemModel(ratings, Csr(*rows), np.diff(ratings.by_item.start))

    def _room(self, ratings: Ratings) -> int:
        """Return an upper bound on the number of similarities, which fit the memory.

        They are counted, which takes a third of the time of computing them, only if all that are
        possible would not fit.

        Raises:
            ConfigError: they do not fit.
        """
        by_item, by_user = ratings.by_item, ratings.by_user
        room = kernels.most_pairs(by_user.start, ratings.n_items)
        if not fits(room * _PAIR):
            columns = frozen(by_item.column), by_user.start, frozen(by_user.column)
            room = kernels.count_pairs(by_item.start, *columns, self.pair_floor())
        least = f" with more than {self.pair_floor()} common raters" if self.pair_floor() else ""
        check_memory(
            f"the similarities of {self.name}",
            f"the number of pairs of items that have one{least} ({room:,}), up to half the square "
            f"of the number of items ({ratings.n_items:,})",
            room * _PAIR,
            "raise data.least_raters, use fewer items",
        )
        return room

    def _lower(
        self, ratings: Ratings, room: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """Return compressed rows of `s_jk` for k < j: start `(M + 1,)`, `k` and `s_jk` `(P,)`."""
        degree, total = np.diff(ratings.by_item.start), np.empty(0)
        if self.mirror_sign < 0:
            ticks = in_ticks(ratings)
            start, other, count, total = kernels.co_ratings(*ticks, self.pair_floor(), room)
        else:
            both = frozen_rows(ratings.by_item), frozen_rows(ratings.by_user)
            start, other, count = kernels.co_counts(*both, room)
        value = np.empty(len(other), np.float32)
        # Blocks of whole rows of about `_AT_ONCE` pairs, so that nothing else is as large.
        ends = np.searchsorted(start, np.arange(0, len(other), _AT_ONCE), side="left")
        ends = np.unique(np.append(ends, ratings.n_items))
        for first, last in pairwise(ends.tolist()):
            part = slice(int(start[first]), int(start[last]))
            rows = np.arange(first, last, dtype=np.int32)
            item = np.repeat(rows, np.diff(start[first : last + 1]))
            counts = PairCounts(item, other[part], count[part], total[part], degree)
            value[part] = self.pair_similarity(counts)
        return start, other, value

    def exact(self, model: ItemModel, profile: Profile) -> ExactScores:
        """Compute the noiseless predictions for a user with these ratings.

        Raises:
            DataError: the user has fewer than `min_ratings` ratings.
        """
        return self._scores(model, profile, self._sums(model, profile))

    def exact_after(self, model: ItemModel, change: RatingChange, target: int) -> ExactScores:
        """Compute the noiseless predictions of user `target` after one rating has changed.

        A rating's change affects one row of the similarity, so the model is not rebuilt.
        """
        profile = model.ratings.profile(target)
        if change.user == target:
            profile = edited(profile, change)
        old, new = model.row(change.item), self._row_after(model, change)
        scale, sign = model.ratings.scale, self.mirror_sign
        sums = self._sums(model, profile)
        # Rows hold s_j,item, and the prediction of `item` itself needs s_item,k = sign · s_k,item.
        before = self._own_terms(profile, sign * old[profile.items], scale)
        after = self._own_terms(profile, sign * new[profile.items], scale)
        sums[change.item] += np.sum(after - before)
        values = profile.values[profile.items == change.item]
        if len(values):
            sums += self.term(values[0], new, scale) - self.term(values[0], old, scale)
        return self._scores(model, profile, sums)

    def noise_scale(self, scale: Scale) -> float:
        """Return the Laplace scale `b = Δf/ε` of each prediction's noise."""
        return self._spread(self.sensitivity(scale))

    def noise_of_predictions(self, scale: Scale) -> LaplaceNoise:
        """Return Δf and the noise's scale."""
        return LaplaceNoise(self.sensitivity(scale), self.noise_scale(scale))

    def grid(self, scale: Scale) -> float:
        """Return the step of the public grid that predictions are rounded to, 0 without noise."""
        return precision.list_grid(self.noise_scale(scale))

    def _spread(self, sensitivity: float) -> float:
        kept = self.epsilon
        if self.variant == "corrected":
            kept = precision.kept_epsilon(self.epsilon, self.outputs * precision.LIST_EXCESS)
        return sensitivity / kept

    def release(
        self, exact: ExactScores, streams: Streams, request: releases.Request
    ) -> releases.Predictions | releases.TopList:
        """Return what is shown in each trial: `f_ij + Lap(Δf/ε)`.

        The noise of item `j` is coordinate `j` of the noise source, so a list and a single
        prediction in one trial show the same value for an item. Values are rounded to a public
        grid, as the low-order bits of a floating-point sum would reveal its exact part; see
        `precision`.

        Raises:
            ConfigError: the requested list is longer than the number of unrated items.
        """
        if isinstance(request, releases.SeesTop):
            return self.release_top(exact, streams, request.count)
        return self.release_items(exact, streams, request.items)

    def release_items(
        self, exact: ExactScores, streams: Streams, items: NDArray[np.int32]
    ) -> releases.Predictions:
        """Return the noised predictions of `items` `(W, k)`; see `release`."""
        scale = self._spread(exact.sensitivity)
        values = exact.scores[items].astype(np.float64)
        if scale:
            draws = np.empty(items.shape, np.float64)
            exact_noise.laplace_at(draws, items, streams.trials, 0, streams.key)
            values += scale * draws
        return releases.Predictions(items, precision.rounded(values, precision.list_grid(scale)))

    def release_top(self, exact: ExactScores, streams: Streams, count: int) -> releases.TopList:
        """Return the `count` items of largest noised prediction; see `release`."""
        if count > len(exact.candidates):
            raise ConfigError(
                f"a list of {count} items was asked for a user with {len(exact.candidates)} "
                "unrated items: choose a smaller top_k"
            )
        items = np.empty((len(streams), count), np.int32)
        values = np.empty(items.shape, np.float32)
        scale = self._spread(exact.sensitivity)
        laplace_top_k(
            items,
            values,
            exact.scores,
            scale,
            precision.list_grid(scale),
            streams.trials,
            0,
            streams.key,
        )
        return releases.TopList(items, values)

    def release_list(self, exact: ExactScores, streams: Streams) -> releases.ItemList:
        """Return the `top_k` items of largest noised prediction, without values; see `release`."""
        return releases.ItemList(self.release_top(exact, streams, self.top_k).items)

    def exact_held_out(self, model: ItemModel, profile: Profile, item: int) -> float:
        """Compute the noiseless prediction of a rated item from the user's other ratings."""
        others = without(profile, item)
        similarity = self.mirror_sign * model.row(item)[others.items]
        return float(self._own_terms(others, similarity, model.ratings.scale).mean())

    def side_information(
        self, model: ItemModel, profile: Profile, hidden: NDArray[np.int32]
    ) -> releases.SideInformation:
        """Return the knowledge of the linear ideal adversary about the rating on a hidden item.

        The adversary knows all but that rating, which is not read here. An item that the user has
        not rated may be hidden too (a purchase that was not made). The published count `n` is the
        number of the user's ratings.

        Args:
            model: the item-item statistics, all known to the adversary.
            profile: the user's ratings.
            hidden: the hidden item in each trial `(W,)`.

        Raises:
            ConfigError: the knowledge does not fit the memory.
        """
        scale = model.ratings.scale
        values = self.candidates(scale)
        items, place = np.unique(hidden, return_inverse=True)
        size = len(items) * model.ratings.n_items
        check_memory(
            "what the attacker knows of a user's hidden ratings",
            f"the number of hidden ratings ({len(items)}) times items "
            f"({model.ratings.n_items:,}) times values ({len(values)})",
            # Terms, whether they are shown, and the likelihoods' predictions twice.
            size * (8 + (8 + 1 + 16) * len(values)),
            "lower audit.trials, raise data.least_raters",
        )
        known = np.empty((len(items), model.ratings.n_items))
        terms = np.empty((*known.shape, len(values)))
        shown = np.ones(terms.shape, bool)
        shown[:, profile.items] = False
        for i, item in enumerate(items):
            known[i] = self._sums(model, without(profile, item))
            terms[i] = self.term(values, model.row(item)[:, None], scale)
            shown[i, item] = self.unrated(values)
        return releases.SideInformation(
            ratings=len(profile),
            known=known,
            terms=terms,
            shown=shown,
            place=place,
            candidates=values,
            frequency=self.frequency(model.ratings),
        )

    def unrated(self, values: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return which candidate values mean that the user has not rated the item `(C,)`."""
        return np.zeros(len(values), bool)

    def frequency(self, ratings: Ratings) -> Vector:
        """Return the adversary's prior: the share of each candidate value in the data `(C,)`."""
        values = self.candidates(ratings.scale)
        nearest = np.rint((ratings.value - values[0]) / ratings.scale.step).astype(int)
        counts = np.bincount(nearest, minlength=len(values)).astype(np.float64)
        return counts / counts.sum()

    def _offsets(self, profile: Profile) -> NDArray[np.float32]:
        """Return the part of each term that does not depend on the predicted item."""
        return profile.values

    def _sums(self, model: ItemModel, profile: Profile) -> Vector:
        low, high = map(float, self.bounds(model.ratings.scale))
        items, offsets = frozen(profile.items), frozen(self._offsets(profile))
        sums: Vector = kernels.pair_sums(model.similarity, items, offsets, low, high)
        return sums + offsets.sum(dtype=np.float64)

    def _own_terms(self, profile: Profile, similarity: Vector, scale: Scale) -> Vector:
        low, high = self.bounds(scale)
        return np.clip(self._offsets(profile) + similarity, low, high)

    def _row_after(self, model: ItemModel, change: RatingChange) -> Vector:
        """Return `s_j,item` for every item `j` after one rating of `item` has changed, `(M,)`."""
        ratings, item = model.ratings, change.item
        before = ratings.profile(change.user)
        after = edited(before, change)
        count, total = kernels.co_rating_row(item, *model.ticks)
        degree = model.degree.copy()
        for profile, weight in ((before, -1), (after, 1)):
            rated = profile.items == item
            if rated.any():
                others = profile.items[~rated]
                count[others] += weight
                total[others] += weight * (profile.values[rated][0] - profile.values[~rated])
                degree[item] += weight
        every = np.arange(ratings.n_items, dtype=np.int32)
        value = self.pair_similarity(PairCounts(item, every, count, total, degree))
        value[count <= self.pair_floor()] = 0.0
        return self.mirror_sign * value.astype(np.float32).astype(np.float64)

    def _scores(self, model: ItemModel, profile: Profile, sums: Vector) -> ExactScores:
        if len(profile) < self.min_ratings:
            raise DataError(
                f"a user has {len(profile)} ratings and min_ratings is {self.min_ratings}: "
                "audit users with more ratings or lower model.params.min_ratings"
            )
        scores = (sums / len(profile)).astype(np.float32)
        scores[profile.items] = -np.inf
        return ExactScores(scores, self.sensitivity(model.ratings.scale))
