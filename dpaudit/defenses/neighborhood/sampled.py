"""The probabilistic neighbourhood model by posterior sampling (Wang & Tang 2017, §4)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Claim, Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import Observer, SimilarityRows
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.neighborhood.exact_posterior import ExactSimilarity
from dpaudit.defenses.neighborhood.similarity import (
    Batches,
    SimilarityData,
    SimilarityModels,
    Slope,
    item_means,
    middle_means,
)
from dpaudit.defenses.observers import release_observers
from dpaudit.defenses.training_checks import (
    CHAIN,
    Schedule,
    check_private_epsilon,
    check_rated,
    end_step,
    step_sizes,
)
from dpaudit.kernels import noise
from dpaudit.kernels.lane_noise import trial_words
from dpaudit.kernels.lanes import LANES
from dpaudit.kernels.neighborhood import rows as kernels


@parameters(frozen=True, config=STRICT)
class SampledSimilarity(TrainedDefense[SimilarityData]):
    """Item-item similarities drawn from a scaled posterior by Langevin dynamics.

    **Published**, Algorithm 2, for t = 1 … K,

        S ← S − (ε/4B) (η_t/2) (Σ_{(u,i)} e_ui ∂r̂_ui/∂S_i + λ S) + N(0, ϱ η_t),   B = (Δr)² τ

    where the sum is estimated from a share γ of the ratings, drawn anew in every step and trial. At
    ϱ = 1 its target law has a density `∝ exp(−(ε/4B) (½ Σ e² + ½ λ ‖S‖²))`. ϱ multiplies only the
    noise, and therefore the true ε by 1/ϱ. The `likelihood` `squares` is that of eq. (6),
    `exp(−(ε/4B) (Σ e² + λ ‖S‖²))` with its sign corrected. Every step applies the whole gradient
    λ S of the prior, so the paper's H is not needed.

    **Corrected** has ϱ = 1 and constant means, the middle of the scale. With `|x_j| ≤ Δr/2` no
    prediction leaves the scale (beyond it the likelihood is flat, against rounding). So `Σ_i e_ui²`
    is at most B for every user. With `halves`, replacing a user changes the log-density by at most
    ε/8 and its normaliser by at most as much, which makes ε/4. With `squares` it makes ε/2. The
    claim states these.

    Both claims are about exact draws from the target law. The distance from it of a chain of
    finitely many steps is not known. The density is discontinuous where a rater's single neighbour
    changes its sign, and where the set of a rater's N_k largest similarities changes. No gradient
    shows these jumps. So a chain reaches the law only if all raters have two neighbours or more and
    at most N_k.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only for `nonprivate`, which follows the gradient without
            noise.
        variant: `published`, `corrected` or `nonprivate`.
        steps: K, the number of updates, each on a fresh sample of rate `sampling_rate`.
        learning_rate: `(ε/4B) η_1/2`, twice that with `squares`: the factor of the first gradient
            of `½ (Σ e² + λ ‖S‖²)`.
        exponent: ξ.
        schedule: `text`: `η_t = η_1 t^−ξ`; `printed`: `η_{t+1} = η_t / t^ξ`, which soon stops the
            chain.
        decay: λ.
        temperature: ϱ.
        likelihood: `halves` of Algorithm 2 or `squares` of eq. (6).
        start: the value of every similarity before the first step. As the likelihood depends on a
            row's direction, a start s divides `learning_rate` by s² and multiplies `decay` by it.
        neighbors: N_k.
        sampling_rate: γ, the probability with which a step uses each rating.
        cap: τ, the largest number of ratings of a user; data with more are refused.
        more_than: only users with more ratings than this are trained on.
        centred: whether r̂ is that of eq. (2) with the items' means. If false, it is the last form
            in eqs (5) and (6), which omits them; that is an interpretation of the paper.
    """

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    steps: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    learning_rate: Annotated[float, Field(ge=1e-12, le=1e6)] = 0.05
    exponent: Annotated[float, Field(ge=0, le=1)] = 0.3
    schedule: Schedule = "text"
    decay: Annotated[float, Field(ge=1e-12, le=1e6)] = 0.02
    temperature: Annotated[float, Field(ge=1e-12, le=1)] = 1.0
    likelihood: Literal["halves", "squares"] = "halves"
    start: Annotated[float, Field(ge=-1e6, le=1e6)] = 1.0
    neighbors: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    sampling_rate: Annotated[float, Field(ge=1e-12, le=1)] = 1.0
    cap: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    more_than: Annotated[int, Field(ge=0, le=1_000_000)] = 20
    centred: bool = True

    name: ClassVar[str] = "dpps-pnbm"
    quick: ClassVar[Mapping[str, Any]] = {"steps": 2, "more_than": 1, "cap": 40}
    title: ClassVar[str] = "Item similarities drawn from a scaled posterior by Langevin dynamics"
    source: ClassVar[str] = (
        "Wang & Tang, Differentially Private Neighborhood-Based Recommender Systems, 2017, "
        "Algorithm 2 and Theorem 2, doi:10.1007/978-3-319-58469-0_31"
    )

    @model_validator(mode="after")
    def _check(self) -> SampledSimilarity:
        check_private_epsilon(self.epsilon, self.variant, "posterior")
        if self.variant == "corrected" and self.temperature != 1:
            raise ValueError("the corrected form has temperature 1: remove temperature")
        if self.variant == "corrected" and not self.centred:
            raise ValueError("the corrected form subtracts the middle of the scale: remove centred")
        return self

    def claim(self) -> Claim | None:
        """Return the claim: ε for a user, about the target law; None for `nonprivate`."""
        if self.variant == "nonprivate":
            return None
        corrected = self.variant == "corrected"
        share = 4 if self.likelihood == "halves" else 2
        return Claim(
            epsilon=self.epsilon / share if corrected else self.epsilon,
            delta=0.0,
            adjacency="user-replace",
            observer="public",
            public="the number of users, the scale and τ"
            if corrected
            else "the means of the items and τ",
            assumes=(CHAIN,),
            source="class docstring" if corrected else "Wang & Tang 2017, Theorem 2",
        )

    def observers(self) -> Mapping[str, Observer[SimilarityData]]:
        """Return the observers of the final model and of predictions."""
        return release_observers(self, SimilarityRows)

    def least_ratings(self) -> int:
        """Return `more_than`."""
        return self.more_than

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> SimilarityData:
        """Prepare the ratings, with item means of `public` or the scale's middle if corrected.

        Raises:
            ConfigError: there are no ratings, a user has more than τ ratings, or no user has more
                than `more_than`.
            DataError: the ratings have one value.
        """
        check_rated(self.name, ratings)
        most = int(np.diff(ratings.by_user.start).max(initial=0))
        if self.variant != "nonprivate" and most > self.cap:
            raise ConfigError(
                f"a user has {most} ratings and params.cap = {self.cap}: trim the data to that "
                "many ratings a user, or raise it"
            )
        known = ratings if public is None else public
        means = middle_means(known) if self.variant == "corrected" else item_means(known)
        if not self.centred:
            means = np.zeros_like(means)
        return SimilarityData.of(ratings, means, self.more_than)

    def public_statistics(self, prepared: SimilarityData) -> Any:
        """Return the items' means."""
        return prepared.means

    def train(self, prepared: SimilarityData, streams: Streams) -> SimilarityModels:
        """Return the models of these trials; each row is trained when it is read."""
        return SimilarityModels(self, prepared, streams)

    def law(self, prepared: SimilarityData) -> ExactSimilarity:
        """Return the target law of the chain, for exact draws on small data.

        At temperature ϱ it is the posterior to the power 1/ϱ.

        Raises:
            ConfigError: the variant is `nonprivate`, a user has more than N_k neighbours of an
                item, or there are too many items.
        """
        if self.variant == "nonprivate":
            raise ConfigError(
                "the variant 'nonprivate' follows the gradient alone and has no law to draw from: "
                "use another variant"
            )
        factor = self.factor(prepared.scale)
        return ExactSimilarity.of(
            prepared,
            self.slope(prepared),
            weight=factor / (2 * self.temperature),
            spread=math.sqrt(self.temperature / (factor * self.decay)),
        )

    def factor(self, scale: Scale) -> float:
        """Return the factor of `−½ (Σ e² + λ ‖S‖²)`: `ε/4B`, twice that with `squares`."""
        twice = 2 if self.likelihood == "squares" else 1
        return twice * self.epsilon / (4 * scale.width**2 * self.cap)

    def slope(self, data: SimilarityData) -> Slope:
        """Return how the gradient is computed."""
        if self.variant != "corrected":
            return Slope(self.neighbors)
        middle = float(data.means[0])
        low, high = data.scale.minimum - middle, data.scale.maximum - middle
        return Slope(self.neighbors, flat_from=low, flat_to=high)

    def iterates(
        self, data: SimilarityData, item: int, streams: Streams, batches: Batches | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the row `(M, 16)` before the first step and after each, always the same array.

        Args:
            data: the ratings.
            item: the item of the row.
            streams: up to 16 trials.
            batches: the trials' mini-batches, if already drawn for other rows.

        Raises:
            NoModelError: a training diverged.
        """
        row = np.full((data.n_items, LANES), self.start, np.float32)
        trials = trial_words(streams.trials)
        slope = self.slope(data)
        # s ← s − h (g + λ s) + √(2 h ϱ / factor) N(0, 1), from η/2 = h / factor
        noisy = self.variant != "nonprivate"
        variance = 2 * self.temperature / self.factor(data.scale) if noisy else 0.0
        batches = batches or self.batches(data, streams)
        yield row
        for t, size in enumerate(
            step_sizes(self.learning_rate, self.exponent, self.schedule, self.steps), 1
        ):
            taken = batches.taken(t, data.entries(item)) if batches else None
            gradient, _ = slope.of(data, item, row, taken)
            kernels.langevin_step(
                row.reshape(-1),
                gradient.astype(np.float32, copy=False).reshape(-1),
                np.float32(size / self.sampling_rate),
                np.float32(size * self.decay),
                np.float32(math.sqrt(size * variance)),
                item * data.row_space,
                2 * t,
                trials,
                streams.key,
            )
            end_step(self.variant, self.name, t, "step", "lower params.learning_rate", row)
            yield row

    def batches(self, data: SimilarityData, streams: Streams) -> Batches | None:
        """Return the mini-batches of these trials, None if every step uses all ratings."""
        if self.sampling_rate == 1:
            return None

        def draw(trial: Streams, t: int) -> NDArray[np.bool_]:
            draws = np.empty((1, len(data.places)), np.float32)
            noise.uniform(draws, trial.trials, 2 * t + 1, trial.key)
            taken: NDArray[np.bool_] = draws[0] < self.sampling_rate
            return taken

        return Batches.of(draw, streams, self.steps, len(data.places), "ratings")
