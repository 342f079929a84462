"""The parameters and the claims of social recommenders under privacy settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.core.claim import Claim, Variant
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.plugin import STRICT, Plugin
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import Floats, Indices
from dpaudit.defenses.precision import kept_budget
from dpaudit.defenses.social.noise import Noise, RankingNoise
from dpaudit.defenses.social.rows import RankingRows, SocialRows
from dpaudit.defenses.training_checks import check_private_epsilon, check_rated
from dpaudit.kernels.federated import submissions as kernels

# What the recommender sees: each submission (local), or only sums (secure).
Summation = Literal["local", "secure"]


class SocialSettings(Plugin):
    """What the settings of the rating form and of the ranking form have in common.

    Attributes:
        messages: the number of vectors that a user publishes in a round beside one for each item.
    """

    epsilon: float
    variant: Variant
    beta: float
    dimensions: int
    rounds: int
    learning_rate: float
    decay: float
    spread: float
    start: str
    clip_norm: float
    summation: Summation
    insiders: int
    delta: float

    messages: ClassVar[int]

    def check_social(self) -> None:
        """Refuse a private ε above 1e6, and a secure summation in a variant that does not use it.

        Raises:
            ValueError: one of the two is set.
        """
        check_private_epsilon(self.epsilon, self.variant, "noise")
        if self.summation == "secure" and self.variant != "corrected":
            raise ValueError(
                f"summation = 'secure' is part of variant 'corrected', and variant "
                f"{self.variant!r} shows the recommender each submission: leave it out"
            )

    @property
    def summed(self) -> bool:
        """Whether the recommender sees only sums of submissions."""
        return self.variant == "corrected" and self.summation == "secure"

    @property
    def most(self) -> float:
        """The norm to which a user's submissions are clipped; infinite if they are not."""
        # Slightly below clip_norm, because the clipped vector is rounded.
        return self.clip_norm * (1 - 1e-5) if self.variant == "corrected" else math.inf

    @property
    def personal_epsilons(self) -> tuple[float, float]:
        """ε_n and ε_s."""
        return (1 + 1 / self.beta) * self.epsilon, (1 + self.beta) * self.epsilon

    def steps_mu(self, prepared: Any) -> float:
        """Return the μ of the corrected form's noise; ∞ for forms that do not clip."""
        if self.variant != "corrected":
            return math.inf
        # Finite precision uses up a part of ε and δ.
        numbers = self.rounds * (prepared.n_items + self.messages) * self.dimensions
        return gaussian_mu(*kept_budget(self.epsilon, self.delta, numbers))

    def split(self, variance: float, raters: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the variance of each user's submission for each item `(2, M)`, if corrected.

        Under a secure summation these are shares, of which insiders know their own: the sum of the
        other `max(n − k, 1)` has the variance that is asked for.

        Args:
            variance: σ².
            raters: n, the number of users who submit for each item, of both kinds `(2, M)`.
        """
        among = np.maximum(raters.sum(0) - self.insiders, 1) if self.summed else 1
        return np.broadcast_to(variance / among, raters.shape)

    def whole_claim(self, public: str, also: tuple[str, ...] = ()) -> Claim:
        """Return the claim of the corrected form: (ε, δ) for all that a user has.

        Args:
            public: what it takes for public.
            also: the observers besides the recommender for whom it holds.
        """
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency="user-replace",
            observer="recommender",
            public=public,
            source="class docstring; Dong, Roth, Su 2019, Corollary 3.3, arXiv:1905.02383",
            also=also,
        )

    def check_observed(self, observer: str) -> None:
        """Refuse games on each round if there is no noise.

        Raises:
            ConfigError: there is none; names the remedy.
        """
        if self.variant == "nonprivate" and observer in {"recommender", "iterates", "friend"}:
            raise ConfigError(
                "a game on each round needs noised submissions, and variant = 'nonprivate' "
                "has none: use a private variant, or observe = 'public'"
            )


@parameters(frozen=True, config=STRICT)
class PrivSRSettings(SocialSettings):
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

    messages: ClassVar[int] = 1
    quick: ClassVar[Mapping[str, Any]] = {"dimensions": 2, "rounds": 3}
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
        self.check_social()
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
        return self.whole_claim(
            "who rates what, who is whose friend and how similar friends are, the initial "
            "factors, the rating scale",
            # A friend may rate the same items, and so know a share of a secure sum's noise.
            () if self.summed and not self.insiders else ("friend",),
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
        raters, epsilons = rows.raters, self.personal_epsilons
        if self.noise_kind == "equal":
            raters = np.broadcast_to(raters.sum(0), raters.shape)
            epsilons = self.epsilon, self.epsilon
        # The total variance (2Δ √(2d)/ε)² of each kind, for ε_n and then ε_s.
        whole = 8 * self.dimensions * (rows.scale.width / np.array(epsilons)[:, None]) ** 2
        return Noise(
            submitted=whole / np.maximum(raters, 1),
            sent=8 * self.dimensions / self.epsilon**2 / np.maximum(rows.friends, 1),
            shared=True,
        )

    def _corrected(self, rows: SocialRows) -> Noise:
        mu = self.steps_mu(rows)
        share = self.friends_share
        if not self.social:
            share = 0.0
        # σ = 2c √(T/(1 − share))/μ,  σ_u = 2 √(T/share)/μ
        variance = (2 * self.clip_norm / mu) ** 2 * self.rounds / (1 - share)
        return Noise(
            submitted=self.split(variance, rows.raters),
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
        cuts: Floats = (self.most / np.maximum(2 * np.sqrt(squares), self.most)).astype(np.float32)
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

    def public_statistics(self, prepared: SocialRows) -> Any:
        """Return how similar friends are."""
        return prepared.similarity.toarray()


@parameters(frozen=True, config=STRICT)
class RankingSettings(SocialSettings):
    """Parameters and claim of `PrivSRRanking`, whose docstring describes them."""

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    beta: Annotated[float, Field(ge=1e-3, le=1)] = 1.0
    dimensions: Annotated[int, Field(ge=1, le=128)] = 10
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 400
    learning_rate: Annotated[float, Field(ge=1e-12, le=10)] = 1e-4
    decay: Annotated[float, Field(ge=0, le=10)] = 1e-3
    social: bool = True
    triples: Annotated[int, Field(ge=1, le=100_000)] | Literal["all"] = 10
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    start: Literal["normal", "constant"] = "normal"
    clip_norm: Annotated[float, Field(ge=1e-12, le=1e6)] = 1.0
    summation: Summation = "local"
    insiders: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    delta: Annotated[float, Field(ge=1e-60, lt=1)] = 1e-5

    messages: ClassVar[int] = 0
    quick: ClassVar[Mapping[str, Any]] = {"dimensions": 2, "rounds": 3, "triples": "all"}
    # The models rank items and do not predict ratings.
    ranks: ClassVar[bool] = True
    name: ClassVar[str] = "privsr-ranking"
    title: ClassVar[str] = "Social ranking under personal privacy settings"
    source: ClassVar[str] = (
        "Meng, Wang, Shu, Li, Chen, Liu, Zhang, Towards privacy preserving social recommendation "
        "under personalized privacy settings, 2018, doi:10.1007/s11280-018-0620-z, section 5.4, "
        "equations (11) to (14), Algorithm 2; Zhao, McAuley, King 2014, "
        "doi:10.1145/2661829.2661998; Rendle et al. 2009, arXiv:1205.2618"
    )

    @model_validator(mode="after")
    def _check(self) -> RankingSettings:
        self.check_social()
        return self

    def claim(self) -> Claim | None:
        """The claim: ε for one purchase (published), or (ε, δ) for all of a user's (corrected)."""
        if self.variant == "nonprivate":
            return None
        public = (
            "who is whose friend, what users share with friends (so what the target user shares "
            "is the same in both data sets), the initial factors"
        )
        if self.variant == "published":
            return Claim(
                epsilon=self.epsilon,
                delta=0.0,
                adjacency="rating-add-remove",
                observer="recommender",
                public=f"{public}, which items each user keeps private, held or not",
                assumes=("no user's factors longer than 1, not enforced",),
                source="Meng et al. 2018, Theorem 4",
            )
        return self.whole_claim(public)

    def noise(self, rows: RankingRows) -> RankingNoise:
        """Return the noise on submissions.

        Raises:
            ConfigError: finite precision would use up too much of ε.
        """
        if self.variant == "nonprivate":
            return RankingNoise(np.zeros((2, rows.n_items)), False)
        if self.variant == "corrected":
            # σ = 2c√T/μ
            sigma = 2 * self.clip_norm * math.sqrt(self.rounds) / self.steps_mu(rows)
            return RankingNoise(self.split(sigma**2, rows.keepers), False)
        # The total variance (√(2d)/ε)² of each kind, for ε_n and then ε_s.
        whole = 2 * self.dimensions / np.array(self.personal_epsilons)[:, None] ** 2
        return RankingNoise(whole / np.maximum(rows.keepers, 1), True)

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> RankingRows:
        """Prepare the items that users hold and that their friends offer.

        Args:
            ratings: the purchases to train on.
            public: the data whose friends, settings and shared purchases are public; `ratings` if
                None.

        Raises:
            ConfigError: there are no purchases, or `social` is set and the data have no friends.
            DataError: the data are ratings, not purchases.
        """
        if not len(ratings):
            raise ConfigError("there are no ratings to learn from: use more data")
        if ratings.scale.width != 0:
            raise DataError(
                f"privsr-ranking needs purchases and these are ratings on "
                f"{ratings.scale.minimum:g}..{ratings.scale.maximum:g}: set data.binarize to the "
                "least rating that counts as a purchase"
            )
        return RankingRows.of(ratings, ratings if public is None else public, self.social)

    def public_statistics(self, prepared: RankingRows) -> Any:
        """Return what each user keeps private, held or not."""
        return np.stack([prepared.kept_users, prepared.kept_items])

    def check_observed(self, observer: str) -> None:
        """Refuse games on each round if there is no noise, or its law is a mixture.

        Raises:
            ConfigError: the game is refused; names the remedy.
        """
        super().check_observed(observer)
        if self.triples != "all" and observer in {"recommender", "iterates"}:
            raise ConfigError(
                "a game on each round needs the law of the submissions, and that is a mixture over "
                f"unobserved triples, as params.triples = {self.triples}: set params.triples = "
                "'all', or observe = 'public'"
            )
