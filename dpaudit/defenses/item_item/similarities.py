"""Slope One and cosine predictions with Laplace noise (Park & Acharya 2011, section 3)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import DataError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import Profile
from dpaudit.data.neighbors import RatingAdded, RatingChange, RatingReplaced
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.base import PairCounts, PredictionPair, Vector
from dpaudit.defenses.item_item.recommender import ItemItem

Similarity = Literal["cut", "shrunk", "damped"]


@parameters(frozen=True, config=STRICT)
class SlopeOne(ItemItem):
    """Slope One predictions from ratings, with Laplace noise.

    With `m = |Φ(j,k)|` common raters of items `j` and `k`, and φ = `min_co_ratings`, the similarity
    is one of

        cut      s_jk = (1/m) Σ_Φ (r_ij − r_ik)   if m > φ, else 0          (the paper's eq. (4))
        shrunk   s_jk = Σ_Φ (r_ij − r_ik) / max(m, φ)
        damped   s_jk = Σ_Φ (r_ij − r_ik) / (m + φ),  each r_ik + s_jk clipped to the scale

    **Published Δf**, eq. (11): `max(Δr/T · (1 + 2/φ), Δr/φ)`. It is false: eq. (14) overlooks that
    one rating more or less can move `m` across the threshold.

    **Corrected Δf**, for one prediction, adjacency `rating-add-remove`. One more difference
    `x ∈ [−Δr, Δr]` is added to `m` differences with mean `a`.

    *Another user's rating* changes one s_jk by at most δ:

    - cut: if m rises from φ to φ + 1, s_jk goes from 0 to a mean of differences: `δ = Δr`. (For
      m > φ it changes by |x − a|/(m+1) ≤ 2Δr/(φ+2), which is smaller.)
    - shrunk: for m ≥ φ it changes by |x − a|/(m+1) ≤ 2Δr/(φ+1), and for m < φ by |x|/φ. So
      `δ = 2Δr/(φ+1)` (φ ≥ 1).
    - damped: it changes by |x(m+φ) − ma| / ((m+φ)(m+φ+1)) ≤ Δr (2m+φ)/((m+φ)(m+φ+1)). This is at
      most `δ = Δr/(φ+1)`, since (m+φ)(m+φ+1) − (2m+φ)(φ+1) = m(m−1) ≥ 0. Clipping does not increase
      it.

    *The target user's own rating* changes a prediction by at most ω. The prediction is a mean of
    n ≥ T terms r_ik + s_jk, each in an interval of width 3Δr, or Δr if clipped. One term more or
    less changes it by at most that width over T + 1. The own rating enters no s_jk of an item j
    that the user has not rated. So `ω = 3Δr/(T+1)`, and `ω = Δr/(T+1)` for damped.

    With adjacency `rating-replace`, x becomes x'. Then `δ` = Δr/(φ+1), Δr/φ, Δr/(φ+1) for cut,
    shrunk, damped, and `ω = Δr/T`. Here the published Δf is large enough.

    Attributes:
        min_co_ratings: φ (the paper's `φ_m`).
        similarity: see above; `published` takes `cut`; `corrected` takes `damped` unless given.
        delta_r: Δr that the noise is scaled to; the scale's width unless given. The paper's own run
            on the scale 1..5 uses 5. Only `published` may set it.
    """

    min_co_ratings: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    similarity: Similarity | None = None
    delta_r: Annotated[float, Field(ge=1e-12, le=1e6)] | None = None

    name: ClassVar[str] = "slope-one"
    title: ClassVar[str] = "Slope One with Laplace noise on every prediction"
    source: ClassVar[str] = (
        "Park & Acharya, Differentially Private Recommendation Systems: Practical Implementation "
        "and Interpretation, 2011, eqs (3)-(6), (9)-(11), Theorem 3.1"
    )
    claim_source: ClassVar[str] = "Park & Acharya 2011, Theorem 3.1 and eq. (11)"
    mirror_sign: ClassVar[float] = -1.0

    @model_validator(mode="after")
    def _check(self) -> SlopeOne:
        if self.variant == "published" and self.similarity not in {None, "cut"}:
            raise ValueError("the published variant has similarity 'cut': use variant 'corrected'")
        if self.variant != "published" and self.delta_r is not None:
            raise ValueError("delta_r belongs to the published variant: remove it")
        return self

    @property
    def form(self) -> Similarity:
        """The similarity in use."""
        return self.similarity or ("damped" if self.variant == "corrected" else "cut")

    def check_scale(self, scale: Scale) -> None:
        """Check that the scale has at least two values.

        Raises:
            DataError: the data are purchases.
        """
        if scale.width == 0:
            raise DataError(
                "slope-one needs ratings with at least two values, and these are purchases: "
                "remove data.binarize or use the defense 'cosine'"
            )

    def pair_floor(self) -> int:
        """Return φ for `cut`, else 0."""
        return self.min_co_ratings if self.form == "cut" else 0

    def pair_similarity(self, pairs: PairCounts) -> Vector:
        """Return `Σ_Φ (r_ij − r_ik)` over this form's denominator (class docstring)."""
        if self.form == "damped":
            return pairs.total / (pairs.count + self.min_co_ratings)
        least = 1 if self.form == "cut" else self.min_co_ratings
        return pairs.total / np.maximum(pairs.count, least)

    def similarity_change(self, scale: Scale) -> float:
        """Return δ of the class docstring."""
        phi, width = self.min_co_ratings, scale.width
        if self.adjacency == "rating-replace":
            return width / (phi if self.form == "shrunk" else phi + 1)
        return width * {"cut": 1.0, "shrunk": 2 / (phi + 1), "damped": 1 / (phi + 1)}[self.form]

    def own_change(self, scale: Scale) -> float:
        """Return ω of the class docstring."""
        if self.adjacency == "rating-replace":
            return scale.width / self.min_ratings
        return (1 if self.form == "damped" else 3) * scale.width / (self.min_ratings + 1)

    def published_sensitivity(self, scale: Scale) -> float:
        """Return `max(Δr/T · (1 + 2/φ), Δr/φ)`, eq. (11)."""
        width = scale.width if self.delta_r is None else self.delta_r
        phi = self.min_co_ratings
        return max(width / self.min_ratings * (1 + 2 / phi), width / phi)

    def bounds(self, scale: Scale) -> tuple[float, float]:
        """Return the ends of the scale for `damped`, else infinite bounds."""
        return (scale.minimum, scale.maximum) if self.form == "damped" else (-np.inf, np.inf)

    def candidates(self, scale: Scale) -> NDArray[np.float32]:
        """Return every rating of the scale."""
        return scale.values

    def term(self, value: NDArray[np.float32], row: Vector, scale: Scale) -> Vector:
        """Return `r_ik + s_jk`, clipped for `damped`."""
        return np.clip(value + row, *self.bounds(scale))

    def pairs(self) -> dict[str, str]:
        """Return the constructed pairs: names and descriptions.

        In each, another user gives the predicted item the highest rating, as a new rating or in
        place of the lowest. In `support-threshold` the number of co-raters crosses φ. In `opposite`
        the new rating contradicts theirs. In `tight` and `alone` there are no co-raters.
        """
        phi = self.min_co_ratings
        agree = f"{phi} users agree, as far as the scale goes, how the predicted item differs"
        if self.adjacency == "rating-replace":
            return {
                "beside": f"{agree} from the target's; another user's rating of it rises from the "
                "lowest to the highest",
                "alone": "the predicted item's only rating rises from the lowest to the highest",
            }
        return {
            "support-threshold": f"{agree} from the target's; one more user joins them",
            "opposite": f"{agree} from the target's; one more user contradicts them",
            "tight": "nobody has rated the predicted item; one user does",
        }

    def pair(self, name: str, scale: Scale) -> PredictionPair:
        """Build the pair: user 0 is the target, and user 1's rating of item 0 changes."""
        low, high, size = scale.minimum, scale.maximum, self.min_ratings
        middle = float(scale.values[len(scale.values) // 2])

        def row(rating: float) -> list[tuple[int, float]]:
            return [(k, rating) for k in range(1, size + 1)]

        predicted, rest = (low, high) if name == "opposite" else (high, low)
        co_raters = 0 if name in {"tight", "alone"} else self.min_co_ratings
        profiles = [row(middle), row(low), *[[(0, predicted), *row(rest)]] * co_raters]
        change: RatingChange = RatingAdded(user=1, item=0, value=high)
        if self.adjacency == "rating-replace":
            profiles[1] = [(0, low), *profiles[1]]
            change = RatingReplaced(user=1, item=0, value=high)
        ratings = from_profiles(profiles, size + 1, scale)
        return PredictionPair(ratings, change, target=0, items=(0,), summary=self.pairs()[name])


@parameters(frozen=True, config=STRICT)
class Cosine(ItemItem):
    """Item-item predictions from cosine similarities of purchases, with Laplace noise.

    With `a_j` buyers of item `j` and `c_jk` common buyers of `j` and `k`, the similarity is one of

        plain    s_jk = c_jk / √(a_j a_k)                                   (the paper's eq. (7))
        damped   s_jk = c_jk / √((a_j + β)(a_k + β))

    **Published Δf**, eq. (17): `2/T`. It is false: eq. (19) overlooks that one purchase of an item
    that nobody had bought changes its similarity to all other items at once.

    **Corrected Δf**, for one prediction, of an item `j` that the target user has not bought. The
    adjacency is `rating-add-remove` (one purchase more or less), and β = 0 for plain. The target
    user's purchases may be in the data, or the target may be a new user who is only served.

    *Another user buys j.* Let a = a_j before the purchase. Take an item k of the target user, and
    let b = a_k and c = c_jk.

    - If the buyer has bought k too, then b ≥ 1 and c rises by one. The change of s_jk,
      (c+1)/√((a+1+β)(b+β)) − c/√((a+β)(b+β)), is at least 0, since c ≤ a, and at most
      1/√((a+1+β)(b+β)) ≤ δ = 1/(1+β), which is attained at a = 0, b = 1. (If the target's own
      purchases are in the data, then b ≥ 2, and the bound is 1/√((1+β)(2+β)): 1/√2 for plain.)
    - If the buyer has not bought k, s_jk falls by (c/√(b+β))(1/√(a+β) − 1/√(a+1+β)) with
      c ≤ min(a, b). For β = 0 this is at most 1 − √(a/(a+1)) ≤ 1 − 1/√2, and for β ≥ 1 at most
      √a/(2(a+β)^{3/2}) ≤ 0.193/β. Both are below δ.

    The prediction is a mean of the s_jk, so it changes by at most δ.

    *Another user buys an item l of the target user.* One term of the prediction of j changes, s_jl.
    It changes by at most δ, as above (in the falling case with a and b swapped), and is divided by
    n ≥ T.

    *The target user's own purchase* adds one term in [0, 1] to a mean of n ≥ T such terms. It
    changes no s_jk of an item j that they have not bought. So `ω = 1/(T+1)`, half of the paper's
    bound.

    So plain has Δf = 1 for every T, which is the range of a prediction itself. Damped with β = 10
    and T = 20 has Δf = 0.091, less than the published 0.1.

    Attributes:
        similarity: `published` takes `plain`; `corrected` takes `damped` unless given.
        damping: β.
    """

    similarity: Literal["plain", "damped"] | None = None
    damping: Annotated[float, Field(ge=1, le=1e6)] = 10.0

    name: ClassVar[str] = "cosine"
    title: ClassVar[str] = "Cosine item-item on purchases with Laplace noise on every prediction"
    source: ClassVar[str] = (
        "Park & Acharya, Differentially Private Recommendation Systems: Practical Implementation "
        "and Interpretation, 2011, eqs (7), (8), (15)-(17), Theorem 3.2"
    )
    claim_source: ClassVar[str] = "Park & Acharya 2011, Theorem 3.2 and eq. (17)"
    mirror_sign: ClassVar[float] = 1.0

    @model_validator(mode="after")
    def _check(self) -> Cosine:
        if self.variant == "published" and self.similarity not in {None, "plain"}:
            raise ValueError("the published variant has similarity 'plain': use 'corrected'")
        if self.adjacency == "rating-replace":
            raise ValueError("a purchase has one value: use adjacency 'rating-add-remove'")
        return self

    @property
    def beta(self) -> float:
        """β of the similarity in use."""
        form = self.similarity or ("damped" if self.variant == "corrected" else "plain")
        return self.damping if form == "damped" else 0.0

    def check_scale(self, scale: Scale) -> None:
        """Check that the data are purchases, whose only value is 1.

        Raises:
            DataError: the data are ratings.
        """
        if scale.width != 0:
            raise DataError(
                f"cosine needs purchases, and these are ratings on {scale.minimum:g}.."
                f"{scale.maximum:g}: set data.binarize to the least rating that counts as one"
            )

    def pair_floor(self) -> int:
        """Return 0: one common buyer is enough for a similarity."""
        return 0

    def pair_similarity(self, pairs: PairCounts) -> Vector:
        """Return `c_jk / √((a_j + β)(a_k + β))`, eq. (7), 0 if an item has no buyer."""
        root = 1 / np.sqrt(np.maximum(pairs.degree + self.beta, 1.0))
        return pairs.count * root[pairs.first] * root[pairs.second]

    def similarity_change(self, scale: Scale) -> float:
        """Return δ of the class docstring."""
        return 1 / (1 + self.beta)

    def own_change(self, scale: Scale) -> float:
        """Return ω of the class docstring."""
        return 1 / (self.min_ratings + 1)

    def published_sensitivity(self, scale: Scale) -> float:
        """Return `2/T`, eq. (17)."""
        return 2 / self.min_ratings

    def bounds(self, scale: Scale) -> tuple[float, float]:
        """Return infinite bounds: terms are not clipped."""
        return -np.inf, np.inf

    def candidates(self, scale: Scale) -> NDArray[np.float32]:
        """Return 0 (not bought) and 1 (bought)."""
        return np.array([0, 1], np.float32)

    def term(self, value: NDArray[np.float32], row: Vector, scale: Scale) -> Vector:
        """Return `p_il · s_lj`, where p_il is 1 if user i bought item l, else 0."""
        return value * row

    def pairs(self) -> dict[str, str]:
        """Return the one constructed pair, `tight`: the predicted item gets its first buyer."""
        return {
            "tight": f"a user who holds all {self.min_ratings} items of the target is the first to "
            "buy the predicted item"
        }

    def pair(self, name: str, scale: Scale) -> PredictionPair:
        """Build the pair: user 0 is the target, and user 1 buys item 0."""
        size = self.min_ratings
        shared = [(k, 1.0) for k in range(1, size + 1)]
        ratings = from_profiles([shared, shared], size + 1, scale)
        change = RatingAdded(user=1, item=0, value=1.0)
        return PredictionPair(ratings, change, target=0, items=(0,), summary=self.pairs()[name])

    def unrated(self, values: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return where the value is 0, not bought."""
        return values == 0

    def frequency(self, ratings: Ratings) -> Vector:
        """Return ½ for each value: the audit hides a bought or an unbought item equally often."""
        return np.array([0.5, 0.5])

    def _offsets(self, profile: Profile) -> NDArray[np.float32]:
        return np.zeros(len(profile), np.float32)
