"""Federated matrix factorisation with fake gradients: its parameters, its claim and its candidates.

Candidates are the items for which each user may submit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.core.claim import Claim, Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.memory import check_memory
from dpaudit.core.plugin import STRICT, Plugin
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings
from dpaudit.defenses import precision, training_checks

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]

# The most bytes of a candidate: while they are drawn, and in a training without single submissions.
_CANDIDATE = 60


@dataclass(frozen=True, eq=False)
class Candidates(training_checks.UserRows):
    """The items that each user rated, and the items for which they submit fakes.

    One of the P rows for each pair of a user and an item. The value of an item that the user has
    not rated is the rating of one of its raters, a stand-in for an ideal attacker, which training
    does not use.

    Attributes:
        made_up: a made-up rating, drawn once `(P,)`.
        real: whether the user has rated the item `(P,)`.
    """

    made_up: Floats
    real: NDArray[np.bool_]

    columns: ClassVar[tuple[str, ...]] = (*training_checks.UserRows.columns, "made_up", "real")

    @classmethod
    def of(
        cls,
        ratings: Ratings,
        public: Ratings,
        density: float,
        draw: int,
        made_up_mean: float | None = None,
    ) -> Candidates:
        """Draw the candidates: a user with n ratings in `public` draws `n q/(1 − q)` others.

        The other items are drawn uniformly, without replacement.

        Args:
            ratings: the training data; each user's items must be among their items in `public`.
            public: the data whose rated items are candidates, whether `ratings` has them or not.
            density: q, the share of fakes among a user's candidates.
            draw: the seed. Except for the stand-ins, a user's draws do not depend on the ratings
                of other users.
            made_up_mean: the mean of made-up ratings, which are then normal with standard
                deviation 1. If None, they are uniform on the rating scale.

        Raises:
            ConfigError: a rating in `ratings` is not in `public`, `public` is empty, or the
                candidates do not fit the memory.
        """
        if not len(public):
            raise ConfigError(
                "there are no public ratings, so no user has candidates: use more data"
            )
        owned = np.diff(public.by_user.start)
        drawn_each = np.minimum(public.n_items - owned, np.rint(owned * density / (1 - density)))
        total = int(owned.sum() + drawn_each.sum())
        check_memory(
            "the items that users submit for",
            f"the number of ratings over 1 - params.density ({total:,})",
            _CANDIDATE * total,
            "lower params.density, set train.cap",
        )
        scale, by_item = ratings.scale, public.by_item
        parts: list[tuple[Indices, Floats, Floats]] = []
        for user in range(public.n_users):
            rated_items = public.profile(user).items
            rng = generator((draw, user), "candidates")
            free = np.ones(public.n_items, np.bool_)
            free[rated_items] = False
            others = np.flatnonzero(free)
            count = min(len(others), round(len(rated_items) * density / (1 - density)))
            drawn = rng.choice(others, count, replace=False).astype(np.int32)
            items = np.sort(np.concatenate([rated_items, drawn]))
            first, last = by_item.start[items], by_item.start[items + 1]
            rater = first + (rng.random(len(items)) * (last - first)).astype(np.int64)
            if made_up_mean is None:
                made_up = scale.values[rng.integers(0, len(scale.values), len(items))]
            else:
                made_up = rng.normal(made_up_mean, 1.0, len(items)).astype(np.float32)
            anybody = rng.integers(0, len(public), len(items))
            stand_in = np.where(
                first < last, by_item.value[np.minimum(rater, len(public) - 1)],
                public.value[anybody],
            )  # fmt: skip
            parts.append((items, stand_in, made_up))
        counts = [len(items) for items, _, _ in parts]
        users = np.repeat(np.arange(public.n_users, dtype=np.int32), counts)
        items, values, made_up = (np.concatenate(column) for column in zip(*parts, strict=True))
        parts.clear()
        cells = users.astype(np.int64) * public.n_items + items
        rated = ratings.user.astype(np.int64) * public.n_items + ratings.item
        place = np.minimum(np.searchsorted(cells, rated), len(cells) - 1)
        if len(rated) and not np.array_equal(cells[place], rated):
            raise ConfigError(
                "a rating is of an item that is no candidate of its user: the candidates are "
                "public, so compare data in which no item is new"
            )
        real = np.zeros(len(cells), np.bool_)
        real[place] = True
        values[place] = ratings.value
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(start, users, items, values, public.n_items, scale, made_up, real)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of candidates of each user `(N,)`."""
        return np.diff(self.start)

    @cached_property
    def rated(self) -> Candidates:
        """The rows whose item the user has rated."""
        return self.only(self.real)


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
        training_checks.check_private_epsilon(self.epsilon, self.variant, "noise")
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
            kept, delta = precision.kept_budget(kept, delta, numbers)
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
