"""Cosine on purchases with Laplace output perturbation (Park & Acharya 2011, 3.1 and 3.2)."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.data.instances import from_profiles
from dpaudit.data.neighbors import RatingAdded
from dpaudit.data.ratings import Profile, Ratings, Scale
from dpaudit.defenses.base import STRICT, WorldPair
from dpaudit.defenses.item_item import ItemItem, Vector
from dpaudit.errors import DataError


@parameters(frozen=True, config=STRICT)
class Cosine(ItemItem):
    """Cosine similarity of purchase vectors, noised.

    With `a_j` buyers of item `j` and `c_jk` common buyers,

        plain    s_jk = c_jk / √(a_j a_k)                                   (the paper's eq. (7))
        damped   s_jk = c_jk / √((a_j + β)(a_k + β))

    **Published Δf**, eq. (17): `2/T`. It is false: eq. (19) overlooks that one purchase of an item
    that nobody bought moves its similarity to all others at once.

    **Corrected Δf**, adjacency `rating-add-remove` (a purchase more or less), one prediction of an
    item `j` the user has not bought, β = 0 for plain.

    *Another user buys j* (a = a_j before). For each item k of the target, b = a_k. If the buyer has
    k too, then b ≥ 2 (she and the target) and c rises by one:
    (c+1)/√((a+1+β)(b+β)) − c/√((a+β)(b+β)) ≤ 1/√((a+1+β)(b+β)) ≤ δ = 1/√((1+β)(2+β)), attained at
    a = 0, b = 2. If she has not, s falls by (c/√(b+β))(1/√(a+β) − 1/√(a+1+β)) with c ≤ min(a, b−1):
    for β = 0 at most 1 − √(a/(a+1)) ≤ 1 − 1/√2; for β ≥ 1 at most √a/(2(a+β)^{3/2}) ≤ 0.193/β; both
    below δ. A mean of such changes is at most δ. *Another user buys an item l of the target*: one
    term moves, with a_l ≥ 1 and a_j ≥ 1 where c rises: again at most δ, over n ≥ T.

    *Her own purchase* adds one term in [0, 1] to a mean of n ≥ T such terms and moves no s_jk of an
    item she has not bought: `ω = 1/(T+1)`, half of the paper's.

    So plain has Δf = 1/√2 whatever T, and damped with β = 10 and T = 20 has 0.087, less than the
    published 0.1.

    Attributes:
        similarity: `published` takes `plain`, `corrected` takes `damped` unless told.
        damping: β.
    """

    similarity: Literal["plain", "damped"] | None = None
    damping: Annotated[float, Field(ge=1)] = 10.0

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
        """Purchases have one value, 1."""
        if scale.width != 0:
            raise DataError(
                f"cosine needs purchases and these are ratings on {scale.minimum:g}.."
                f"{scale.maximum:g}: set data.binarize to the least rating that counts"
            )

    def pair_floor(self) -> int:
        """Every common buyer counts."""
        return 0

    def pair_similarity(
        self,
        count: NDArray[np.int32],
        total: Vector,
        degrees: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> Vector:
        """`c_jk / √((a_j + β)(a_k + β))`, eq. (7); 0 where nobody bought one of them."""
        product = (degrees[0] + self.beta) * (degrees[1] + self.beta)
        return count / np.sqrt(np.maximum(product, 1.0))

    def similarity_change(self, scale: Scale) -> float:
        """δ of the class docstring."""
        return 1 / math.sqrt((1 + self.beta) * (2 + self.beta))

    def own_change(self, scale: Scale) -> float:
        """ω of the class docstring."""
        return 1 / (self.min_ratings + 1)

    def published_sensitivity(self, scale: Scale) -> float:
        """`2/T`, eq. (17)."""
        return 2 / self.min_ratings

    def bounds(self, scale: Scale) -> tuple[float, float]:
        """None."""
        return -np.inf, np.inf

    def candidates(self, scale: Scale) -> NDArray[np.float32]:
        """Not bought, bought."""
        return np.array([0, 1], np.float32)

    def term(self, value: NDArray[np.float32], row: Vector, scale: Scale) -> Vector:
        """`p_il · s_lj`."""
        return value * row

    def worst_cases(self) -> dict[str, WorldPair]:
        """`first`: a user who holds all T items of the target buys an item that nobody has."""
        size = self.min_ratings
        shared = [(k, 1.0) for k in range(1, size + 1)]
        return {
            "first": WorldPair(
                ratings=from_profiles([shared, shared], size + 1, Scale(1, 1, 1)),
                change=RatingAdded(user=1, item=0, value=1.0),
                target=0,
                item=0,
                summary=(
                    f"a user who holds all {size} items of the target is the first to buy the "
                    "predicted item"
                ),
            )
        }

    def frequency(self, ratings: Ratings) -> Vector:
        """Bought and not bought alike: the audit hides either with probability ½."""
        return np.array([0.5, 0.5])

    def _offsets(self, profile: Profile) -> NDArray[np.float32]:
        return np.zeros(len(profile), np.float32)
