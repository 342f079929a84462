"""Factorisation by noised gradient descent: its parameters, its claim and its training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.core.claim import Claim, Variant
from dpaudit.core.plugin import STRICT, Plugin
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses import factors, precision, training_checks
from dpaudit.kernels import exact_noise
from dpaudit.kernels.factorization import sixteen_models as kernels
from dpaudit.kernels.lane_noise import Source
from dpaudit.kernels.lanes import LANES, aligned


@parameters(frozen=True, config=STRICT)
class SgdSettings(Plugin):
    """Parameters and claim of `SgdFactors`, whose docstring describes them."""

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    dimensions: Annotated[int, Field(ge=1, le=1024)] = 16
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 20
    learning_rate: Annotated[float, Field(ge=1e-12, le=1)] = 0.01
    decay: Annotated[float, Field(ge=0, le=10)] = 0.05
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    error_bound: Annotated[float, Field(ge=1e-12, le=1e6)] = 2.0
    clip_norm: Annotated[float, Field(ge=1e-12, le=1e6)] = 4.0
    item_learning_rate: Annotated[float, Field(ge=1e-12, le=10)] = 0.002
    sampling_rate: Annotated[float, Field(ge=1e-4, le=1)] = 1.0
    delta: Annotated[float, Field(ge=1e-60, lt=1)] = 1e-5
    adjacency: Literal["rating-replace", "user-replace", "user-add-remove"] | None = None

    name: ClassVar[str] = "dpsgd-mf"
    quick: ClassVar[Mapping[str, Any]] = {"dimensions": 2, "epochs": 2, "sampling_rate": 1.0}
    title: ClassVar[str] = "Matrix factorisation by stochastic gradient descent with noised errors"
    source: ClassVar[str] = (
        "Berlioz, Friedman, Kaafar, Boreli, Berkovsky, Applying differential privacy to matrix "
        "factorization, 2015, doi:10.1145/2792838.2800173; Wang & Tang 2017, §5.1"
    )

    @model_validator(mode="after")
    def _check(self) -> SgdSettings:
        training_checks.check_private_epsilon(self.epsilon, self.variant, "noise")
        factors.check_size(self.dimensions)
        if self.variant == "corrected" and self.dimensions > factors.TOGETHER:
            raise ValueError(
                f"dimensions = {self.dimensions}, and the corrected form has at most "
                f"{factors.TOGETHER}: lower it"
            )
        rating = self.adjacency == "rating-replace"
        if self.variant == "published" and not (rating or self.adjacency is None):
            raise ValueError(
                "the published claim is about 'rating-replace': use the variant 'corrected'"
            )
        if self.variant == "corrected" and rating:
            raise ValueError(
                "the corrected form protects whole users: use adjacency 'user-replace', which "
                "covers a rating, or 'user-add-remove'"
            )
        return self

    def claim(self) -> Claim | None:
        """Return the claim: ε for a rating's value, or (ε, δ) for a user if corrected."""
        if self.variant == "nonprivate":
            return None
        if self.variant == "published":
            return Claim(
                epsilon=self.epsilon,
                delta=0.0,
                adjacency="rating-replace",
                observer="iterates",
                public="who rates what, the order of the ratings, their mean b_0",
                source="Berlioz et al. 2015, section 4; Wang & Tang 2017, section 5.1",
            )
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self._users,
            observer="iterates",
            public="the number of items and the scale",
            source="class docstring; Dong, Roth, Su 2019, Corollary 3.3, arXiv:1905.02383",
        )

    @property
    def _users(self) -> Literal["user-replace", "user-add-remove"]:
        return "user-replace" if self.adjacency == "user-replace" else "user-add-remove"

    def noise_scale(self, scale: Scale) -> float:
        """Return `K Δr/ε`, the scale of the Laplace noise on each error; 0 unless `published`."""
        return self.epochs * scale.width / self.epsilon if self.variant == "published" else 0.0

    def noise_deviation(self, n_items: int) -> float:
        """Return `σ c`, the standard deviation of the Gaussian noise of a round.

        Finite precision takes a part of ε and δ, since all `M (d + 1)` numbers of a round may
        differ.

        Raises:
            ConfigError: that part is too large.
        """
        numbers = self.epochs * n_items * (self.dimensions + 1)
        kept, delta = precision.kept_budget(self.epsilon, self.delta, numbers)
        sigma = noise_multiplier(
            kept,
            delta=delta,
            compositions=self.epochs,
            sampling=self.sampling_rate,
            neighbors="replace" if self._users == "user-replace" else "add-remove",
        )
        return sigma * self.clip_norm

    def steps_mu(self, rows: factors.FactorRows) -> float:
        """Return `2 c √K/(σ c)` of the corrected form; ∞ for the others, which do not clip."""
        if self.variant != "corrected":
            return math.inf
        return 2 * self.clip_norm * math.sqrt(self.epochs) / self.noise_deviation(rows.n_items)

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> factors.FactorRows:
        """Build the rows; `b_0` is the mean of `public`, or the middle of the scale if corrected.

        Raises:
            ConfigError: there are no ratings.
            DataError: the ratings have one value.
        """
        training_checks.check_rated(self.name, ratings)
        scale = ratings.scale
        mean = float((ratings if public is None else public).value.mean(dtype=np.float64))
        return factors.FactorRows.of(
            ratings, (scale.minimum + scale.maximum) / 2 if self.variant == "corrected" else mean
        )

    def public_statistics(self, prepared: factors.FactorRows) -> Any:
        """Return `b_0`."""
        return np.array(prepared.mean)

    def drawn(self, rows: factors.FactorRows, streams: Streams) -> factors.FactorBlock:
        """Draw the initial models of up to 16 trials."""
        return factors.FactorBlock.drawn(rows, self.dimensions, self.spread, streams)

    def steps(self, scale: Scale) -> kernels.Descent:
        """Return the steps of the published form, or of plain descent, on this rating scale."""
        noise = self.noise_scale(scale)
        return kernels.Descent(
            np.float32(self.learning_rate),
            np.float32(self.decay),
            noise,
            precision.grid(noise),
            np.float32(math.inf if self.variant == "nonprivate" else self.error_bound),
        )

    def descend(
        self,
        rows: factors.FactorRows,
        block: factors.FactorBlock,
        streams: Streams,
        t: int,
        observed: NDArray[np.int32],
        seen: NDArray[np.float32],
    ) -> None:
        """Run epoch t of the published form, or of plain descent.

        Args:
            rows: the training data.
            block: the models; changed in place.
            streams: their trials.
            t: the epoch, from 0 on.
            observed: the rows whose errors are returned, increasing `(C,)`.
            seen: receives their errors before and after the noise `(C, 2, 16)`, flat.

        Raises:
            NoModelError: the training diverged.
        """
        source = Source(factors.FIRST + t, block.trials, streams.key)
        kernels.descend(
            rows.visits, block.models(rows.mean), self.steps(rows.scale), source, observed, seen,
            rows.subsets,
        )  # fmt: skip
        training_checks.end_step(
            self.variant, self.name, t + 1, "epoch", factors.STEPS_GROW, block.users, block.items
        )


def run_round(
    defense: SgdSettings,
    rows: factors.FactorRows,
    block: factors.FactorBlock,
    streams: Streams,
    t: int,
    total: NDArray[np.float64],
) -> None:
    """Run round t of the corrected form.

    Args:
        defense: the corrected form.
        rows: the training data.
        block: the models; changed in place.
        streams: their trials.
        t: the round, from 0 on.
        total: receives the sum of the users' gradients without noise, of the size of `block.items`.

    Raises:
        NoModelError: the training diverged.
    """
    deviation = defense.noise_deviation(rows.n_items)
    total[:] = 0
    sum_clipped(defense, rows, block, total, taking_part(defense, rows.n_users, streams, t))
    rate, decay = np.float32(defense.item_learning_rate), np.float32(defense.decay)
    source = Source(factors.FIRST + 2 * t, block.trials, streams.key)
    items = block.items.reshape(-1)
    kernels.take_step(items, total, rate, decay, deviation, precision.grid(deviation), source)
    training_checks.end_step(
        defense.variant, defense.name, t + 1, "round", factors.STEPS_GROW, block.users, block.items
    )


def sum_clipped(
    defense: SgdSettings,
    rows: factors.FactorRows,
    block: factors.FactorBlock,
    total: NDArray[np.float64],
    taken: NDArray[np.float32] | None = None,
) -> None:
    """Fit every user's own factors, and add their clipped gradients to `total`.

    Args:
        defense: the corrected form.
        rows: the users' ratings.
        block: the models; the users' side is changed in place.
        total: the sum to add to, of the size of `block.items`.
        taken: 1 where a user takes part, else 0, `(N, 16)`; all take part unless given.
    """
    if taken is None:
        taken = np.ones((rows.n_users, LANES), np.float32)
    most = int(np.diff(rows.start).max(initial=0))
    rate, decay = np.float32(defense.learning_rate), np.float32(defense.decay)
    clip = np.float32(defense.clip_norm * (1 - precision.hair(rows.n_items + defense.dimensions)))
    kernels.sum_clipped(
        rows.start, rows.visits, block.models(rows.mean), rate, decay, clip, taken.reshape(-1),
        total, aligned(most * LANES), rows.subsets,
    )  # fmt: skip


def taking_part(defense: SgdSettings, users: int, streams: Streams, t: int) -> NDArray[np.float32]:
    """Draw a Poisson sample of the users in round t: 1 for participants, else 0, `(N, 16)`."""
    if defense.sampling_rate == 1:
        return np.ones((users, LANES), np.float32)
    draws = np.empty((len(streams), users))
    exact_noise.uniform(draws, streams.trials, factors.FIRST + 2 * t + 1, streams.key)
    # Unused lanes repeat the last trial here too, so that they diverge only if it does.
    full = np.pad(draws, ((0, LANES - len(streams)), (0, 0)), mode="edge")
    return np.ascontiguousarray((defense.sampling_rate > full.T).astype(np.float32))
