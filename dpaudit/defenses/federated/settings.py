"""The parameters and the claim of federated matrix factorisation with fake gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.core.claim import Claim, Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT, Plugin
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.federated.candidates import Candidates
from dpaudit.defenses.precision import kept_budget
from dpaudit.defenses.training_checks import check_private_epsilon


@parameters(frozen=True, config=STRICT)
class FakeGradientsSettings(Plugin):
    """Parameters and claim of `FakeGradients`, whose docstring describes them."""

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    fakes: Literal["zero", "rating", "delayed-mean", "two-valued"] = "delayed-mean"
    density: Annotated[float, Field(ge=0, le=0.99)] = 0.5
    dimensions: Annotated[int, Field(ge=1, le=128)] = 16
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 400
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    delta: Annotated[float, Field(ge=1e-60, lt=1)] = 1e-5
    decay: Annotated[float, Field(ge=0, le=10)] = 0.1
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    offset: Annotated[float, Field(ge=-1e6, le=1e6)] = 0.0
    memory: Annotated[float, Field(ge=0, lt=1)] = 0.95
    learning_rate: Annotated[float, Field(ge=1e-6, le=100)] = 1.0
    truth: Annotated[float, Field(gt=0.5, le=1)] = 0.75
    least_share: Annotated[float, Field(ge=1e-12, le=1)] = 0.05
    fake_clip_norm: Annotated[float, Field(ge=1e-12, le=1e6)] = 5.0
    made_up: Literal["once", "each-round"] = "once"
    made_up_mean: Annotated[float, Field(ge=-1e6, le=1e6)] | None = None
    delay: Annotated[int, Field(ge=0, le=500)] = 0
    amplified: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0

    name: ClassVar[str] = "fake-gradients"
    quick: ClassVar[Mapping[str, Any]] = {"dimensions": 2, "rounds": 3}
    title: ClassVar[str] = "Federated matrix factorisation with fake gradients"
    source: ClassVar[str] = (
        "Luo, Zhang, Zhang, Liu, Wang, A smart privacy-preserving learning method by fake "
        "gradients, 2020, doi:10.1155/2020/6683834, Algorithms 1 and 2; "
        "Shin, Kim, Shin, Xiao 2018, doi:10.1109/TKDE.2018.2805356; Warner 1965, "
        "doi:10.1080/01621459.1965.10480775"
    )

    @model_validator(mode="after")
    def _check(self) -> FakeGradientsSettings:
        check_private_epsilon(self.epsilon, self.variant, "noise")
        if self.variant == "corrected" and self.fakes in {"rating", "two-valued"}:
            raise ValueError(
                f"variant 'corrected' clips distances from a public fake, and "
                f"fakes = {self.fakes!r} are not public: use 'delayed-mean' or 'zero'"
            )
        if self.made_up_mean is not None and self.fakes != "rating":
            raise ValueError(
                f"made_up_mean applies to fakes = 'rating' only, and fakes = {self.fakes!r}: "
                "remove it"
            )
        if self.amplified and (self.variant != "published" or self.fakes == "two-valued"):
            raise ValueError(
                "amplified applies only to variant 'published' with normal noise: remove it"
            )
        return self

    def claim(self) -> Claim | None:
        """The claim: (ε, δ) for one item of a user (published), or for all of them (corrected)."""
        if self.variant == "nonprivate":
            return None
        if self.variant == "corrected":
            return Claim(
                epsilon=self.epsilon,
                delta=self.delta,
                adjacency="user-replace",
                observer="recommender",
                public="each user's candidates and when they are submitted, the initial factors, "
                "the rating scale",
                source="class docstring; Dong, Roth, Su 2019, Corollary 3.3, arXiv:1905.02383",
            )
        if self.fakes == "two-valued":
            return Claim(
                epsilon=self.epsilon,
                delta=0.0,
                adjacency="rating-add-remove",
                observer="recommender",
                public="each user's candidates and when they are submitted",
                source="Shin et al. 2018; ε/K a round, composed as in Luo et al. 2020, section 1",
            )
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency="rating-add-remove",
            observer="recommender",
            public="each user's candidates and when they are submitted, the initial factors, the "
            "estimates from the randomised response",
            assumes=(f"no gradient longer than {self.clip_norm:g}, not enforced",),
            source="Luo et al. 2020, Theorem 3 and section 4.4",
        )

    @property
    def noisy(self) -> bool:
        """Whether submissions have normal noise."""
        return self.variant != "nonprivate" and self.fakes != "two-valued"

    @property
    def public_share(self) -> float | None:
        """The share of real submissions that the server assumes; None if it estimates it."""
        if self.variant == "nonprivate" or self.fakes == "rating":
            return 1.0
        if self.variant == "corrected" or self.fakes != "delayed-mean":
            return 1 - self.density
        return None

    @cached_property
    def level(self) -> float:
        """The size of a two-valued submission, `d (e^ε' + 1)/(e^ε' − 1)`, ε' = ε/K."""
        return self.dimensions / math.tanh(self.epsilon / self.rounds / 2)

    def sigma(self, candidates: Candidates) -> float:
        """σ, the standard deviation of each coordinate's noise; 0 where there is none.

        Raises:
            ConfigError: finite precision would take too much of ε.
        """
        if not self.noisy:
            return 0.0
        counts = candidates.counts[candidates.counts > 0]
        share = 1.0
        if self.amplified and self.batch_size is not None:
            share = float(np.minimum(1.0, self.batch_size / counts).max())
        kept, delta = self.epsilon, self.delta
        if self.variant == "corrected":
            # Finite precision uses up a part of ε and δ.
            numbers = self.rounds * int(counts.max()) * self.dimensions
            kept, delta = kept_budget(kept, delta, numbers)
        return self.clip_norm * noise_multiplier(
            kept,
            delta=delta,
            compositions=self.rounds,
            sampling=share,
            neighbors="replace" if self.variant == "corrected" else "add-remove",
        )

    def steps_mu(self, candidates: Candidates) -> float:
        """Return `2 G √K/σ` of the corrected form; ∞ for forms that do not clip."""
        if self.variant != "corrected":
            return math.inf
        return 2 * self.clip_norm * math.sqrt(self.rounds) / self.sigma(candidates)

    def public_statistics(self, prepared: Candidates) -> Any:
        """Return who may submit for what."""
        return np.stack([prepared.users, prepared.items])

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> Candidates:
        """Draw the candidates of each user.

        Args:
            ratings: the training data.
            public: the data whose rated items are candidates, `ratings` if None. Those that are
                missing from `ratings` get fakes.

        Raises:
            ConfigError: there are no ratings, or a rating's item is no candidate.
        """
        if not len(ratings):
            raise ConfigError("there are no ratings to learn from: use more data")
        density = 0.0 if self.variant == "nonprivate" else self.density
        known = ratings if public is None else public
        return Candidates.of(ratings, known, density, self.seed, self.made_up_mean)
