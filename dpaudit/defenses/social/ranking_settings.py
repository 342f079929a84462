"""The parameters and the claim of social ranking under privacy settings."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.core.claim import Claim, Variant
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.plugin import STRICT, Plugin
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.precision import kept_budget
from dpaudit.defenses.social.noise import RankingNoise
from dpaudit.defenses.social.ranking_rows import RankingRows
from dpaudit.defenses.social.shared_noise import Summation, check_summation, honest_raters
from dpaudit.defenses.training_checks import check_private_epsilon


@parameters(frozen=True, config=STRICT)
class RankingSettings(Plugin):
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
        check_private_epsilon(self.epsilon, self.variant, "noise")
        check_summation(self.summation, self.variant)
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
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency="user-replace",
            observer="recommender",
            public=public,
            source="class docstring; Dong, Roth, Su 2019, Corollary 3.3, arXiv:1905.02383",
        )

    def steps_mu(self, rows: RankingRows) -> float:
        """Return the μ of the corrected form's noise; ∞ for forms that do not clip."""
        if self.variant != "corrected":
            return math.inf
        # Finite precision uses up a part of ε and δ.
        numbers = self.rounds * rows.n_items * self.dimensions
        return gaussian_mu(*kept_budget(self.epsilon, self.delta, numbers))

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
            secure = self.summation == "secure"
            among = honest_raters(rows.keepers.sum(0), self.insiders) if secure else 1
            variances = np.broadcast_to(sigma**2 / among, (2, rows.n_items))
            return RankingNoise(variances, False)
        # The total variance (√(2d)/ε)² of each kind, for ε_n and then ε_s.
        whole = 2 * self.dimensions / np.array(self._epsilons)[:, None] ** 2
        return RankingNoise(whole / np.maximum(rows.keepers, 1), True)

    @property
    def _epsilons(self) -> tuple[float, float]:
        """ε_n and ε_s."""
        return (1 + 1 / self.beta) * self.epsilon, (1 + self.beta) * self.epsilon

    @property
    def most(self) -> float:
        """The norm to which a user's submissions are clipped; infinite if they are not."""
        # Slightly below clip_norm, because the clipped vector is rounded.
        return self.clip_norm * (1 - 1e-5) if self.variant == "corrected" else math.inf

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

    def check_observed(self, observer: str) -> None:
        """Refuse games on each round if there is no noise, or its law is a mixture.

        Raises:
            ConfigError: the game is refused; names the remedy.
        """
        if observer not in {"recommender", "iterates"}:
            return
        if self.variant == "nonprivate":
            raise ConfigError(
                "a game on each round needs noised submissions, and variant = 'nonprivate' "
                "has none: use a private variant, or observe = 'public'"
            )
        if self.triples != "all":
            raise ConfigError(
                "a game on each round needs the law of the submissions, and that is a mixture over "
                f"unobserved triples, as params.triples = {self.triples}: set params.triples = "
                "'all', or observe = 'public'"
            )
