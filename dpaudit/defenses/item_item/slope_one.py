"""Slope One with Laplace output perturbation (Park & Acharya 2011, sections 3.1 and 3.2)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import DataError
from dpaudit.core.plugin import STRICT
from dpaudit.data.instances import from_profiles
from dpaudit.data.neighbors import RatingAdded, RatingChange, RatingReplaced
from dpaudit.data.ratings import Scale
from dpaudit.defenses.base import WorldPair
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_model import PairCounts, Vector

Similarity = Literal["cut", "shrunk", "damped"]


@parameters(frozen=True, config=STRICT)
class SlopeOne(ItemItem):
    """Slope One on ratings, noised.

    The similarity of items `j` and `k`, with `m = |Φ(j,k)|` common raters and φ = `min_co_ratings`,
    is one of

        cut      s_jk = (1/m) Σ_Φ (r_ij − r_ik)   if m > φ, else 0          (the paper's eq. (4))
        shrunk   s_jk = Σ_Φ (r_ij − r_ik) / max(m, φ)
        damped   s_jk = Σ_Φ (r_ij − r_ik) / (m + φ),  each r_ik + s_jk clipped to the scale

    **Published Δf**, eq. (11): `max(Δr/T · (1 + 2/φ), Δr/φ)`. It is false: eq. (14) overlooks that
    a rating more or less moves `m` across the threshold.

    **Corrected Δf**, adjacency `rating-add-remove`, one prediction. A further difference
    `x ∈ [−Δr, Δr]` joins `m` differences with mean `a`.

    *Another user's rating* (bound δ on one s_jk):

    - cut: from m = φ to φ + 1 the value goes from 0 to a mean of differences: `δ = Δr`. (For m > φ
      it moves by |x − a|/(m+1) ≤ 2Δr/(φ+2), which is smaller.)
    - shrunk: m ≥ φ: |x − a|/(m+1) ≤ 2Δr/(φ+1); m < φ: |x|/φ. So `δ = 2Δr/(φ+1)` (φ ≥ 1).
    - damped: |x(m+φ) − ma| / ((m+φ)(m+φ+1)) ≤ Δr (2m+φ)/((m+φ)(m+φ+1)), and that is at most
      `δ = Δr/(φ+1)`, since (m+φ)(m+φ+1) − (2m+φ)(φ+1) = m(m−1) ≥ 0. Clipping does not add to it.

    *Her own rating* (bound ω): the prediction is a mean of n ≥ T terms r_ik + s_jk, each in an
    interval of width 3Δr, or Δr when clipped; one term more or less moves it by at most that width
    over T + 1. Her own rating enters no s_jk of an item j that she has not rated. So
    `ω = 3Δr/(T+1)`, damped `ω = Δr/(T+1)`.

    Adjacency `rating-replace`: x becomes x': `δ` = Δr/(φ+1), Δr/φ, Δr/(φ+1) in the same order, and
    `ω = Δr/T`. Here the published Δf is large enough.

    Attributes:
        min_co_ratings: φ (the paper's `φ_m`).
        similarity: see above; `published` takes `cut`, `corrected` takes `damped` unless told.
        delta_r: Δr used for the noise; the scale's width unless given. The paper's own run on the
            scale 1..5 uses 5. Only `published` may set it.
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
        """Ratings need at least two values."""
        if scale.width == 0:
            raise DataError(
                "slope-one needs ratings with at least two values and these are purchases: "
                "remove data.binarize or use the defense 'cosine'"
            )

    def pair_floor(self) -> int:
        """φ for `cut`, else 0."""
        return self.min_co_ratings if self.form == "cut" else 0

    def pair_similarity(self, pairs: PairCounts) -> Vector:
        """`Σ_Φ (r_ij − r_ik)` over the denominator of this form (class docstring)."""
        if self.form == "damped":
            return pairs.total / (pairs.count + self.min_co_ratings)
        least = 1 if self.form == "cut" else self.min_co_ratings
        return pairs.total / np.maximum(pairs.count, least)

    def similarity_change(self, scale: Scale) -> float:
        """δ of the class docstring."""
        phi, width = self.min_co_ratings, scale.width
        if self.adjacency == "rating-replace":
            return width / (phi if self.form == "shrunk" else phi + 1)
        return width * {"cut": 1.0, "shrunk": 2 / (phi + 1), "damped": 1 / (phi + 1)}[self.form]

    def own_change(self, scale: Scale) -> float:
        """ω of the class docstring."""
        if self.adjacency == "rating-replace":
            return scale.width / self.min_ratings
        return (1 if self.form == "damped" else 3) * scale.width / (self.min_ratings + 1)

    def published_sensitivity(self, scale: Scale) -> float:
        """`max(Δr/T · (1 + 2/φ), Δr/φ)`, eq. (11)."""
        width = scale.width if self.delta_r is None else self.delta_r
        phi = self.min_co_ratings
        return max(width / self.min_ratings * (1 + 2 / phi), width / phi)

    def bounds(self, scale: Scale) -> tuple[float, float]:
        """The scale for `damped`, else none."""
        return (scale.minimum, scale.maximum) if self.form == "damped" else (-np.inf, np.inf)

    def candidates(self, scale: Scale) -> NDArray[np.float32]:
        """Every rating of the scale."""
        return scale.values

    def term(self, value: NDArray[np.float32], row: Vector, scale: Scale) -> Vector:
        """`r_ik + s_jk`, clipped for `damped`."""
        return np.clip(value + row, *self.bounds(scale))

    def pairs(self) -> dict[str, str]:
        """Another user gives the predicted item the greatest rating, anew or in place of the least.

        In `crossing` the count of co-raters crosses the threshold, in `opposite` the newcomer
        contradicts them, in `first` and `alone` there are none.
        """
        phi = self.min_co_ratings
        agree = f"{phi} users agree, as far as the scale goes, how the predicted item differs"
        if self.adjacency == "rating-replace":
            return {
                "beside": f"{agree} from the target's; another user's rating of it changes ends",
                "alone": "the only rating of the predicted item changes ends",
            }
        return {
            "crossing": f"{agree} from the target's; one more user joins them",
            "opposite": f"{agree} from the target's; one more user contradicts them",
            "first": "nobody has rated the predicted item; one user does",
        }

    def pair(self, name: str, scale: Scale) -> WorldPair:
        """User 0 is the target, user 1 the one whose rating of item 0 changes."""
        low, high, size = scale.minimum, scale.maximum, self.min_ratings
        middle = float(scale.values[len(scale.values) // 2])

        def row(rating: float) -> list[tuple[int, float]]:
            return [(k, rating) for k in range(1, size + 1)]

        predicted, rest = (low, high) if name == "opposite" else (high, low)
        co_raters = 0 if name in {"first", "alone"} else self.min_co_ratings
        profiles = [row(middle), row(low), *[[(0, predicted), *row(rest)]] * co_raters]
        change: RatingChange = RatingAdded(user=1, item=0, value=high)
        if self.adjacency == "rating-replace":
            profiles[1] = [(0, low), *profiles[1]]
            change = RatingReplaced(user=1, item=0, value=high)
        ratings = from_profiles(profiles, size + 1, scale)
        return WorldPair(ratings, change, target=0, items=(0,), summary=self.pairs()[name])
