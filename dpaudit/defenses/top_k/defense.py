"""Top-k lists by the exponential mechanism (Park & Acharya 2011, section 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Claim, Variant
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import (
    ItemList,
    ListPair,
    Observer,
    PreparedPair,
    Profile,
    SideInformation,
    View,
)
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingChange
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import BLOCK, EntryPair, ExactScores, ItemModel, ListDefense
from dpaudit.defenses.item_item.similarities import SlopeOne
from dpaudit.defenses.precision import check_finite
from dpaudit.defenses.top_k import bounds, laws

Mechanism = Literal["chain", "exact", "peeling", "joint"]
MECHANISMS: dict[Variant, tuple[Mechanism, ...]] = {
    "nonprivate": (),
    "published": ("chain", "exact"),
    "corrected": ("joint", "peeling"),
}
PUBLISHED_ONLY = (
    "enumeration",
    "rates",
    "left_window",
    "right_window",
    "iterations",
    "u_s",
    "rating_bound",
)
SPREAD = 600.0  # weights e^-600 … 1 and their sums are ordinary doubles

Count = Annotated[int, Field(ge=1, le=1_000_000)]


@parameters(frozen=True, config=STRICT)
class TopK(ListDefense):
    """The k best items of a completed rating matrix, shown without their values.

    The matrix is completed by Slope One without noise, with predictions clipped to the rating
    scale. A user's row of the completed matrix `C` has a score for every item that they have not
    rated. These items are the candidates.

    **Published.** A birth-death chain over sets close to the best one
    (`dpaudit.defenses.top_k.laws`) is meant to draw a set with probability `∝ φ^{ε/2}`,
    `φ = exp(Σ scores / U_r)`, eq. (28). The claim is ε for one entry of `C`. For k ≥ 2 it is false
    for every ε. Only sets that share k − 1 items with the best one can be drawn. Raising an item
    from the last rank to the first changes which sets these are, so a set that was possible before
    is impossible after.

    **Corrected.** Any k candidates can be shown, with weights `w_i = exp(λ · score)`:

    - joint: the set `S` with probability `∝ Π_{i∈S} w_i`;
    - peeling: a list whose items are drawn by weight, one after another without replacement. They
      are the k largest of `λ · score + Gumbel`.

    λ is the largest rate whose privacy loss, bounded in `dpaudit.defenses.top_k.bounds`, is at
    most ε.

    - `entry-replace`: one entry of `C` takes another value on the scale. It changes by at most
      `d = Δr`.
    - `rating-replace`: one rating in the data takes another value. Which items each user has rated
      is public. The completion is Slope One's `damped` form.

      *Another user's rating* of item `l` changes only the similarities of `l`, by at most δ. If `l`
      is a candidate, it changes this one entry, by at most `d = min(δ, Δr)`. If the user who is
      shown the list rated `l`, it changes one of the n ≥ T terms of every entry, by at most
      `c = δ/T` and all in the same direction: a higher rating of `l` lowers every `s_jl` or leaves
      it unchanged.

      *The user's own rating* enters no similarity of a candidate. It changes one clipped term of
      every entry, all in the direction of its own change, by at most `c = ω = Δr/T`.

      So ε must cover a change of one entry by d, and changes of all entries in one direction, whose
      loss is at most `k·max(δ/T, ω)·λ`.

    Random choices have 52 bits, and sums are in double precision. The total variation distance from
    the ideal law is below `k·M·log2(4M)·2^-52` for peeling (5e-11 for k = 10, M = 1682) and about
    `k·M·(ε + ln M)·2^-50` for the joint law (1e-10).

    Attributes:
        epsilon: the claimed ε, 1e-6 to 1e6; `inf` only for `nonprivate`.
        variant: `nonprivate` shows the k best items, best first; see above for the others.
        min_ratings: `T`, the least number of ratings with which a user gets a list.
        top_k: k, the number of items shown.
        min_co_ratings: φ of the Slope One completion.
        adjacency: the adjacency relation of the claim; `published` has `entry-replace`.
        mechanism: `published` has `chain` (default) or `exact`, which draws from the chain's
            stationary law; `corrected` has `joint` (default) or `peeling`.
        enumeration: the published sets: `meant` by the paper's text, or `printed` in its formula.
        rates: `printed` rates, whose stationary law is `φ^ε`, or `halved` ones with `φ^{ε/2}`.
        left_window: N1, the number of last ranks of the best set that may be swapped out.
        right_window: N2, the number of ranks beyond k that are swapped in for one rank left out
            before the next rank is left out.
        iterations: the number of steps of the chain.
        u_s: `U_s = 1/Δt`: a number, `paper-rule` for `10 φ(S_0)/φ(S_1)`, or `largest-rate` for the
            least value that satisfies eq. (36).
        rating_bound: U_r; the scale's maximum unless given.
    """

    epsilon: Annotated[float, Field(ge=1e-6)]
    variant: Variant = "published"
    min_ratings: Count = 20
    top_k: Count = 10
    min_co_ratings: Count = 10
    adjacency: Literal["entry-replace", "rating-replace"] = "entry-replace"
    mechanism: Mechanism | None = None
    enumeration: laws.Enumeration = "meant"
    rates: laws.Rates = "printed"
    left_window: Count = 2
    right_window: Count = 3
    iterations: Annotated[int, Field(ge=1, le=10_000_000)] = 1000
    u_s: Annotated[float, Field(ge=1e-12, le=1e300)] | Literal["paper-rule", "largest-rate"] = 20.0
    rating_bound: Annotated[float, Field(ge=1e-12, le=1e6)] | None = None

    name: ClassVar[str] = "top-k"
    title: ClassVar[str] = "Top-k items by an exponential mechanism on the completed matrix"
    source: ClassVar[str] = (
        "Park & Acharya, Differentially Private Recommendation Systems: Practical Implementation "
        "and Interpretation, 2011, section 4, eqs (28)-(37), Theorem 4.1"
    )

    @model_validator(mode="after")
    def _check(self) -> TopK:
        check_finite(self.epsilon, self.variant)
        known = MECHANISMS[self.variant]
        if self.mechanism not in {None, *known}:
            raise ValueError(
                f"mechanism {self.mechanism!r} does not belong to the {self.variant} variant: "
                + (f"use one of {', '.join(known)}" if known else "remove it")
            )
        if self.variant == "published" and self.adjacency != "entry-replace":
            raise ValueError(
                "adjacency 'rating-replace' belongs to the corrected variant: "
                "the published claim is about 'entry-replace'"
            )
        if self.variant == "published" and self.left_window > self.top_k:
            raise ValueError(
                f"left_window = {self.left_window} is above top_k = {self.top_k}, and only the k "
                "best items can be swapped out: lower left_window"
            )
        if self.variant != "published":
            default = {field.name: field.default for field in fields(self)}
            for name in PUBLISHED_ONLY:
                if getattr(self, name) != default[name]:
                    raise ValueError(f"{name} belongs to the published variant: remove it")
        return self

    @property
    def form(self) -> Mechanism | None:
        """The mechanism in use, None for `nonprivate`."""
        return self.mechanism or next(iter(MECHANISMS[self.variant]), None)

    @property
    def completion(self) -> SlopeOne:
        """Slope One without noise, which completes the matrix."""
        damped = self.variant == "corrected" and self.adjacency == "rating-replace"
        return SlopeOne(
            epsilon=math.inf,
            variant="nonprivate",
            min_ratings=self.min_ratings,
            min_co_ratings=self.min_co_ratings,
            similarity="damped" if damped else "cut",
            adjacency="rating-replace",
        )

    def sensitivity(self, scale: Scale) -> float:
        """Return the unit of scores: U_r (published), the scale's width Δr (corrected), else 0.

        Raises:
            ConfigError: U_r is not given and the scale has no positive maximum.
        """
        if self.variant == "nonprivate":
            return 0.0
        if self.variant == "corrected":
            return scale.width
        bound = scale.maximum if self.rating_bound is None else self.rating_bound
        if bound <= 0:
            raise ConfigError(
                f"the scale's maximum {bound:g} is not positive, so it cannot be U_r: set "
                "rating_bound"
            )
        return bound

    def claim(self) -> Claim | None:
        """Return the claim: ε for the list; None for `nonprivate`."""
        if self.variant == "nonprivate":
            return None
        return Claim(
            epsilon=self.epsilon,
            delta=0.0,
            adjacency=self.adjacency,
            observer="list",
            public=f"which items each user has rated, and who has at least {self.min_ratings} "
            "ratings",
            source=(
                "Park & Acharya 2011, section 4.1, eq. (28), Theorem 4.1 and Proposition 4.2"
                if self.variant == "published"
                else "derivation in TopK and dpaudit.defenses.top_k.bounds"
            ),
            # Total variation distance of a list from its law: each of the M probabilities of a
            # choice is off by 2^-52.
            assumes=("draws of 52 bits: δ = k M (1 + e^ε) 2^-51 at most, for M items",),
        )

    def observers(self) -> Mapping[str, Observer[ExactScores]]:
        """Return the one observer, who is shown the list."""
        return {"list": Observer((ItemList, ListPair), self._listed, "the list", "entry", BLOCK)}

    def _listed(
        self, pair: PreparedPair[ExactScores], shown: ExactScores, streams: Streams
    ) -> Iterator[View]:
        pair_laws = ListPair(self.law(pair.before), self.law(pair.after))
        yield View(self.release_list(shown, streams), pair_laws)

    def is_ordered(self) -> bool:
        """Return whether the list is ordered: true for `nonprivate` and `peeling`."""
        return self.form in {None, "peeling"}

    def walks_chain(self) -> bool:
        """Return whether the mechanism is the published `chain`."""
        return self.form == "chain"

    def similarities(self) -> SlopeOne:
        """Return the completion, which defines the similarities."""
        return self.completion

    def pair_epsilon(self, pair: EntryPair) -> float | None:
        """Return the ε of a list if one entry of the completed matrix changes, None if several do.

        It is the largest |ln P'(list)/P(list)| over the lists that can attain it: for `nonprivate`
        the two that are shown, for `published` the sets of all states in D or D', for `corrected`
        those of `extreme_lists`.
        """
        moved = np.flatnonzero(pair.before.scores != pair.after.scores)
        if len(moved) != 1:
            return None
        rows = (pair.before, pair.after)
        pair_laws = [self.law(exact) for exact in rows]
        if self.variant == "nonprivate":
            lists = np.concatenate([law.draw(Streams.first(0, "shown", 1)) for law in pair_laws])
        elif self.variant == "published":
            sets = [self.chain(exact).sets for exact in rows]
            lists = np.concatenate([states.items(np.arange(len(states.out))) for states in sets])
        else:
            lists = laws.extreme_lists(pair.before.scores, int(moved[0]), self.top_k)
        return laws.largest_ratio(pair_laws, lists)

    def prepare(self, ratings: Ratings) -> ItemModel:
        """Compute the completion's statistics, without randomness.

        Raises:
            DataError: the ratings are purchases.
        """
        if ratings.scale.width == 0:
            raise DataError(
                "top-k needs ratings with at least two values, and these are purchases: "
                "remove data.binarize"
            )
        return self.completion.prepare(ratings)

    def exact(self, model: ItemModel, profile: Profile) -> ExactScores:
        """Compute the completed row of a user with these ratings, clipped to the scale.

        Raises:
            DataError: the user has fewer than `min_ratings` ratings.
        """
        return self._row(self.completion.exact(model, profile).scores, model.ratings.scale)

    def exact_after(self, model: ItemModel, change: RatingChange, target: int) -> ExactScores:
        """Compute the completed row of user `target` after one rating has changed."""
        scores = self.completion.exact_after(model, change, target).scores
        return self._row(scores, model.ratings.scale)

    def release_list(self, exact: ExactScores, streams: Streams) -> ItemList:
        """Draw the items shown in each trial: best first if `is_ordered`, else increasing.

        Raises:
            ConfigError: as `law`.
        """
        return ItemList(self.law(exact).draw(streams))

    def law(self, exact: ExactScores) -> laws.DrawnLaw:
        """Return the law of `release_list`.

        Raises:
            ConfigError: there are fewer than `top_k` candidates, the chain's time step is too long,
                or the weights of `peeling` are too far apart.
        """
        if self.top_k > len(exact.candidates):
            raise ConfigError(
                f"a list of {self.top_k} items was asked for a user with {len(exact.candidates)} "
                "unrated items: choose a smaller top_k"
            )
        match self.form:
            case None:
                return laws.PointLaw(laws.ranked(exact)[: self.top_k])
            case "chain":
                return laws.SwapLaw(self.chain(exact), self.iterations)
            case "exact":
                return laws.SwapLaw(self.chain(exact), None)
            case "joint":
                return laws.JointLaw(exact.candidates, self._log_weights(exact), self.top_k)
            case "peeling":
                return laws.PeelingLaw(exact.candidates, self._log_weights(exact), self.top_k)

    def side_information(
        self, model: ItemModel, profile: Profile, hidden: NDArray[np.int32]
    ) -> SideInformation:
        """Return what an attacker on the completion knows."""
        return self.completion.side_information(model, profile, hidden)

    def log_likelihood(
        self, side: SideInformation, shown: ItemList, scale: Scale
    ) -> NDArray[np.float64]:
        """Return `ln P` of each trial's list under each value of the hidden rating `(W, C)`.

        Each value completes the user's row, `(known + term)/n` clipped to the scale, and so decides
        the law of the list.

        Raises:
            ConfigError: as `law`.
        """
        logs = np.empty((len(side.place), len(side.candidates)))
        for row in range(len(side.known)):
            here = side.place == row
            for value in range(len(side.candidates)):
                scores = (side.known[row] + side.terms[row, :, value]) / side.ratings
                scores[~side.shown[row, :, value]] = -np.inf
                exact = self._row(scores.astype(np.float32), scale)
                logs[here, value] = self.law(exact).log_probability(shown.items[here])
        return logs

    def chain(self, exact: ExactScores) -> laws.SetChain:
        """Build the published chain for this row.

        Raises:
            ConfigError: eq. (36) does not hold; see `dpaudit.defenses.top_k.laws.set_chain`.
        """
        sets = laws.swap_sets(
            laws.ranked(exact), self.top_k, self.enumeration, self.left_window, self.right_window
        )
        # φ(S) = exp(f(S) / U_r)
        log_phi = sets.totals(exact.scores) / exact.sensitivity
        return laws.set_chain(sets, log_phi, self.epsilon, self.rates, self.u_s)

    def weight_rate(self, width: float, items: int) -> float:
        """Return λ of the corrected variant, the log-weight per unit of score.

        `1/λ` is the scale of peeling's Gumbel noise.

        Args:
            width: the scale's Δr.
            items: the number of candidates M.
        """
        bound = bounds.joint_loss if self.form == "joint" else bounds.peeling_loss
        k, one, every = self.top_k, width, 0.0
        if self.adjacency == "rating-replace":
            # Both bounds are multiples of the width and depend on nothing else of the scale.
            scale = Scale(0.0, width, width)
            moved = self.completion.similarity_change(scale)
            one = min(moved, width)
            every = max(moved / self.min_ratings, self.completion.own_change(scale))

        def loss(rate: float) -> float:
            return max(bound(rate * width, rate * one, items, k), k * every * rate)

        # One entry's loss is at least λd/2.
        return bounds.largest_rate(loss, self.epsilon, 2 * self.epsilon / one)

    def pairs(self) -> dict[str, str]:
        """Return the constructed pairs of neighbours under `adjacency`: names and descriptions."""
        if self.adjacency == "rating-replace":
            return dict(bounds.RATING_PAIRS)
        if self.variant == "corrected":
            return dict(bounds.ENTRY_PAIRS)
        return {"last-ranked": bounds.ENTRY_PAIRS["last-ranked"]}

    def pair(self, name: str, scale: Scale) -> EntryPair:
        """Build one of `pairs` on this scale: a row of `C` on which a claim is at its worst."""
        summary = self.pairs()[name]
        if self.adjacency == "rating-replace":
            ratings, change = bounds.own_rating(
                self.min_ratings, self.top_k, self.min_co_ratings, scale
            )
            model = self.prepare(ratings)
            before = self.exact(model, ratings.profile(change.user))
            return EntryPair(before, self.exact_after(model, change, change.user), summary)
        old, new = bounds.entry_rows(name, self.top_k, scale)
        return EntryPair(self._row(old, scale), self._row(new, scale), summary)

    def _row(self, scores: NDArray[np.float32], scale: Scale) -> ExactScores:
        low, high = np.float32(scale.minimum), np.float32(scale.maximum)
        clipped = np.where(np.isfinite(scores), np.clip(scores, low, high), scores)
        return ExactScores(clipped, self.sensitivity(scale))

    def _log_weights(self, exact: ExactScores) -> NDArray[np.float64]:
        scores = exact.scores[exact.candidates].astype(np.float64)
        rate = self.weight_rate(exact.sensitivity, len(scores))
        # By the width of the scale: whether a user is refused must not depend on their scores.
        if self.form == "peeling" and (widest := rate * exact.sensitivity) > SPREAD:
            raise ConfigError(
                f"epsilon = {self.epsilon:g} lets weights differ by a factor e^{widest:.0f}, "
                f"and 'peeling' supports up to e^{SPREAD:.0f}: lower epsilon or use 'joint'"
            )
        return rate * (scores - scores.max())
