"""The parameters and the claim of social matrix factorisation under privacy settings."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.core.claim import Claim, Variant
from dpaudit.core.plugin import STRICT, Plugin
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import Floats, Indices
from dpaudit.defenses.precision import kept_budget
from dpaudit.defenses.social.noise import Noise
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.shared_noise import Summation, check_summation, honest_raters
from dpaudit.defenses.training_checks import check_private_epsilon, check_rated
from dpaudit.kernels.federated import submissions as kernels


@parameters(frozen=True, config=STRICT)
class PrivSRSettings(Plugin):
    """Parameters and claim of `PrivSR`, whose docstring describes them."""

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    noise_kind: Literal["personal", "equal"] = "personal"
    beta: Annotated[float, Field(ge=1e-3, le=1)] = 0.1
    dimensions: Annotated[int, Field(ge=1, le=128)] = 10
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 400
    learning_rate: Annotated[float, Field(ge=1e-12, le=10)] = 1e-4
    decay: Annotated[float, Field(ge=0, le=10)] = 1e-3
    social: Annotated[float, Field(ge=0, le=10)] = 1e-2
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    start: Literal["normal", "constant"] = "normal"
    offset: Annotated[float, Field(ge=-1e6, le=1e6)] = 0.0
    clip_norm: Annotated[float, Field(ge=1e-12, le=1e6)] = 1.0
    summation: Summation = "local"
    insiders: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    friends_share: Annotated[float, Field(ge=1e-12, lt=1)] = 0.1
    delta: Annotated[float, Field(ge=1e-60, lt=1)] = 1e-5

    name: ClassVar[str] = "privsr"
    title: ClassVar[str] = "Social matrix factorisation under personal privacy settings"
    source: ClassVar[str] = (
        "Meng, Wang, Shu, Li, Chen, Liu, Zhang, Towards privacy preserving social recommendation "
        "under personalized privacy settings, 2018, doi:10.1007/s11280-018-0620-z, equations (5) "
        "to (10), Algorithm 1; Hua, Xia, Zhong, Differentially private matrix factorization, IJCAI "
        "2015, pages 1763 to 1770; Ma et al. 2011, doi:10.1145/1935826.1935877"
    )

    @model_validator(mode="after")
    def _check(self) -> PrivSRSettings:
        check_private_epsilon(self.epsilon, self.variant, "noise")
        check_summation(self.summation, self.variant)
        return self

    def claim(self) -> Claim | None:
        """The claim: ε for one rating (published), or (ε, δ) for all of a user's (corrected)."""
        if self.variant == "nonprivate":
            return None
        if self.variant == "published":
            return Claim(
                epsilon=self.epsilon,
                delta=0.0,
                adjacency="rating-replace",
                observer="recommender",
                public="who rates what and which ratings are sensitive, the ratings that are not "
                "sensitive except the one that differs, who is whose friend, the initial factors",
                assumes=("no user's factors longer than 1, not enforced",),
                source="Meng et al. 2018, Theorems 1 to 3",
                also=("friend",),
            )
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency="user-replace",
            observer="recommender",
            public="who rates what, who is whose friend and how similar friends are, the initial "
            "factors, the rating scale",
            source="class docstring; Dong, Roth, Su 2019, Corollary 3.3, arXiv:1905.02383",
            # A friend may rate the same items, and so know a share of a secure sum's noise.
            also=() if self.summed and not self.insiders else ("friend",),
        )

    def noise(self, rows: SocialRows) -> Noise:
        """Return the noise on submissions and messages.

        Raises:
            ConfigError: finite precision would use up too much of ε.
        """
        if self.variant == "nonprivate":
            return Noise.none(rows)
        if self.variant == "corrected":
            return self._corrected(rows)
        # The total variance (2Δ √(2d)/ε)² of each kind, for ε_n and then ε_s.
        whole = 8 * self.dimensions * (rows.scale.width / np.array(self._epsilons)[:, None]) ** 2
        raters = rows.raters
        if self.noise_kind == "equal":
            raters = np.broadcast_to(raters.sum(0), raters.shape)
        return Noise(
            submitted=whole / np.maximum(raters, 1),
            sent=8 * self.dimensions / self.epsilon**2 / np.maximum(rows.friends, 1),
            shared=True,
        )

    @property
    def _epsilons(self) -> tuple[float, float]:
        """ε_n and ε_s."""
        if self.noise_kind == "equal":
            return self.epsilon, self.epsilon
        return (1 + 1 / self.beta) * self.epsilon, (1 + self.beta) * self.epsilon

    def steps_mu(self, rows: SocialRows) -> float:
        """Return the μ of the corrected form's noise; ∞ for forms that do not clip."""
        if self.variant != "corrected":
            return math.inf
        # Finite precision uses up a part of ε and δ.
        numbers = self.rounds * (rows.n_items + 1) * self.dimensions
        return gaussian_mu(*kept_budget(self.epsilon, self.delta, numbers))

    def _corrected(self, rows: SocialRows) -> Noise:
        mu = self.steps_mu(rows)
        share = self.friends_share
        if not self.social:
            share = 0.0
        # σ = 2c √(T/(1 − share))/μ,  σ_u = 2 √(T/share)/μ
        variance = (2 * self.clip_norm / mu) ** 2 * self.rounds / (1 - share)
        among = honest_raters(rows.raters.sum(0), self.insiders) if self.summed else 1
        return Noise(
            submitted=np.broadcast_to(variance / among, (2, rows.n_items)),
            sent=np.zeros(rows.n_users),
            shared=False,
            broadcast=4 / mu**2 * self.rounds / share if share else 0.0,
        )

    def centred(self, rows: SocialRows) -> Floats:
        """The ratings less the offset `(R,)`."""
        return rows.values - np.float32(self.offset)

    def project(self, users: Floats) -> None:
        """Project users' factors onto the unit ball, in place, in the corrected form."""
        if self.variant == "corrected":
            norms = np.sqrt(np.einsum("nf,nf->n", users, users, dtype=np.float64))
            users /= np.maximum(norms, 1.0).astype(np.float32)[:, None]

    def cuts(self, rows: SocialRows, order: Indices, users: Floats, items: Floats) -> Floats:
        """Return the clipping factor of each row's submission `(R,)`; 1 without clipping."""
        if self.variant != "corrected":
            return np.ones(len(rows), np.float32)
        # ‖s_i‖² = 4 ‖u_i‖² Σ_j e_ij²
        squares = np.zeros(rows.n_users)
        kernels.deviations(
            order, rows.users, rows.items, self.centred(rows), np.ones(len(rows), np.float32),
            users.reshape(-1), items.reshape(-1), np.zeros(items.size, np.float32), items.shape[1],
            squares,
        )  # fmt: skip
        # Slightly below clip_norm, because the clipped vector is rounded.
        most = self.clip_norm * (1 - 1e-5)
        cuts: Floats = (most / np.maximum(2 * np.sqrt(squares), most)).astype(np.float32)
        return cuts[rows.users]

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> SocialRows:
        """Prepare the rows and the similarities of friends.

        Args:
            ratings: the training data.
            public: the data whose friends and shared ratings count as public; `ratings` if None.

        Raises:
            ConfigError: there are no ratings, or `social` is set and the data have no friends.
            DataError: the data are purchases, not ratings.
        """
        check_rated(self.name, ratings)
        return SocialRows.of(ratings, ratings if public is None else public, self.social > 0)

    @property
    def summed(self) -> bool:
        """Whether the recommender sees only sums of submissions."""
        return self.variant == "corrected" and self.summation == "secure"
