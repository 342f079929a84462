"""Matrix factorisation by posterior sampling (Liu, Wang, Smola 2015)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Claim, Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.observation import Observer
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.factorization.sampled_training import (
    FactorChain,
    FactorDraw,
    SampledRows,
    accepted,
)
from dpaudit.defenses.factorization.single_model import TOGETHER, check_size
from dpaudit.defenses.factorization.single_model_chain import draw_single
from dpaudit.defenses.factorization.user_fits import fitted
from dpaudit.defenses.factors import FactorModels, FactorRows
from dpaudit.defenses.release_observation import release_observers
from dpaudit.defenses.schedule import Schedule, step_sizes
from dpaudit.defenses.training import CHAIN, check_epsilon, check_rated, lane_blocks

if TYPE_CHECKING:
    from dpaudit.defenses.factorization.exact_posterior import ExactFactors


@parameters(frozen=True, config=STRICT)
class SampledFactors(TrainedDefense[SampledRows]):
    """Matrix factorisation with biases, one draw from a scaled posterior by Langevin dynamics.

    The target is the law with density proportional to

        exp(−(ε/4B) (Σ_u w_u Σ_i (r_ui − r̂_ui)² + λ (‖U‖² + ‖V‖²))),
        w_u = min(1, B/(m_u (Δr + κ)²)),

    λ for the biases too, no prediction outside `[r_min − κ, r_max + κ]`. It is approached by
    stochastic gradient Langevin dynamics with step `η_t = η_1 t^−ξ` in pass t: a mini-batch is one
    rating, in an order on which the target does not depend; noise that is due to a coordinate is
    drawn when it is next read. A user or item without ratings, which no step touches, is drawn from
    the prior. Only the items' side is released; each user fits the rest to their own ratings, by
    ridge regression whose prior allows for the noise of what is released (`own_fits`).

    **Published** draws again while a prediction, of any pair, leaves the range, up to `retries`
    times. **Corrected** cuts predictions to the range inside the likelihood instead: then no user
    changes the log-density by more than ε/4, and none can be told from another by more than ε/2
    under `user-replace`, which the claim says, from her own absence by more than ε/4. `b_0` is the
    middle of the scale.

    Both claims are about the target; how many draws it takes until one is accepted, or that none
    is, they do not cover. A chain that is δ away from it in total variation has
    (ε, (1 + e^ε) δ), and no δ is known of a chain that is stopped: the claim says so.

    With `prior_shape` α and `prior_rate` β the precisions are drawn too: each of the d + 1
    coordinates has a λ_k ~ Gamma(α, β) for the users and a μ_k for the items, and the joint
    density of (U, V, λ, μ) is proportional to

        exp(−(ε/4B) Σ_u w_u Σ_i (r_ui − r̂_ui)²) · Π_k g(λ_k) g(μ_k)
            · Π_uk N(u_k; 0, 2B/(ελ_k)) · Π_ik N(v_k; 0, 2B/(εμ_k)),

    g the density of Gamma(α, β): given λ and μ the law above, with a λ of each coordinate. What
    multiplies the likelihood, the range of the predictions too, does not depend on the ratings.
    So a user changes the log-density by as much as without these priors, at most, and the claims
    stand as they are, for V with λ and μ as well, which users need for their own fit. Below a
    temperature of 1, ε/4B is divided by it throughout.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only of `nonprivate`, which follows the gradient alone.
        variant: whose mechanism it is.
        dimensions: d, 1 to 1024. Models of more than 127, a multiple of 16, are trained one at a
            time and visit the popular items first.
        passes: passes over the ratings.
        step: η_1 times the number of ratings: the step of a pass.
        exponent: ξ.
        schedule: `text`: `η_t = η_1 t^−ξ`; `printed`: `η_{t+1} = η_t / t^ξ`, which freezes.
        decay: λ where it is not drawn.
        prior_shape: α of the precisions' Gamma law; none is drawn unless given.
        prior_rate: β of it, given with α: the prior's mean of λ is α/β.
        spread: the standard deviation of the initial factors.
        cap: τ, the most ratings of a user; more are a mistake: trim the data first.
        margin: κ.
        bound: B, public; `τ (Δr + κ)²` unless given, and at most that.
        temperature: what multiplies the noise's variance; below 1 the claim is false by that
            factor, so `corrected` has 1.
        retries: how often a draw is made again.
        accept: which predictions must be in range: `all` pairs, only the `rated` ones (a reading
            that reveals who rated what), or `any` draw passes.
        mean: `b_0`, a constant; unless given the middle of the scale if corrected, else the mean
            of the ratings, which counts as public.
        biases: whether users and items have biases, as in the paper.
    """

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    dimensions: Annotated[int, Field(ge=1, le=1024)] = 16
    passes: Annotated[int, Field(ge=1, le=100_000)] = 50
    step: Annotated[float, Field(ge=1e-12, le=1e6)] = 0.1
    exponent: Annotated[float, Field(ge=0, le=1)] = 0.3
    schedule: Schedule = "text"
    decay: Annotated[float, Field(ge=1e-12, le=1e6)] = 10.0
    prior_shape: Annotated[float, Field(ge=1e-12, le=1e6)] | None = None
    prior_rate: Annotated[float, Field(ge=1e-9, le=1e6)] | None = None
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    cap: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    margin: Annotated[float, Field(ge=0, le=1e3)] = 1.0
    bound: Annotated[float, Field(ge=1e-12, le=1e12)] | None = None
    temperature: Annotated[float, Field(ge=1e-12, le=1)] = 1.0
    retries: Annotated[int, Field(ge=0, le=1000)] = 10
    accept: Literal["all", "rated", "any"] | None = None
    mean: Annotated[float, Field(ge=-1e6, le=1e6)] | None = None
    biases: bool = True

    name: ClassVar[str] = "dpps-mf"
    title: ClassVar[str] = "Matrix factorisation drawn from a scaled posterior by Langevin dynamics"
    source: ClassVar[str] = (
        "Liu, Wang, Smola, Fast Differentially Private Matrix Factorization, 2015, "
        "doi:10.1145/2792838.2800191; Wang & Tang 2017, §5.1"
    )

    @model_validator(mode="after")
    def _check(self) -> SampledFactors:
        check_epsilon(self.epsilon, self.variant, "posterior")
        check_size(self.dimensions)
        if self.variant == "corrected" and (self.temperature != 1 or self.accept is not None):
            raise ValueError(
                "the corrected form has temperature 1 and cuts predictions instead of accepting "
                "draws: remove temperature and accept"
            )
        if (self.prior_shape is None) != (self.prior_rate is None):
            raise ValueError(
                "prior_shape and prior_rate make one Gamma law: give both, or neither for λ = decay"
            )
        if self.variant == "nonprivate" and self._gamma:
            raise ValueError(
                "the variant 'nonprivate' draws nothing, so no precisions: remove prior_shape and "
                "prior_rate"
            )
        if self._gamma and self._large:
            raise ValueError(
                f"precisions are drawn of models of at most {TOGETHER} dimensions: lower "
                "dimensions, or remove prior_shape and prior_rate"
            )
        return self

    @property
    def _large(self) -> bool:
        return self.dimensions > TOGETHER

    def claim(self) -> Claim | None:
        """ε for a user, of the law that the chain is to reach."""
        if self.variant == "nonprivate":
            return None
        corrected = self.variant == "corrected"
        return Claim(
            epsilon=self.epsilon / 2 if corrected else self.epsilon,
            delta=0.0,
            adjacency="user-replace",
            observer="public",
            public="the numbers of users and items, the scale, τ, B"
            + ("" if corrected or self.mean is not None else ", the mean b_0"),
            assumes=(CHAIN,),
            source="class docstring" if corrected else "Liu, Wang, Smola 2015, Theorem 2",
        )

    def observers(self) -> Mapping[str, Observer[SampledRows]]:
        """Everybody has the items' side of the model."""
        return release_observers(self, ItemFactors)

    def largest_loss(self, scale: Scale) -> float:
        """B.

        Raises:
            ConfigError: the given B is beyond `τ (Δr + κ)²`.
        """
        most = self.cap * (scale.width + self.margin) ** 2
        if self.bound is not None and self.bound > most:
            raise ConfigError(
                f"params.bound = {self.bound:g} lies above cap (Δr + margin)² = {most:g}, where "
                "every weight is 1 already: lower it"
            )
        return most if self.bound is None else self.bound

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> SampledRows:
        """The rows with `b_0` and the weights.

        Raises:
            ConfigError: there is nothing to learn from, or a user has more than τ ratings.
        """
        check_rated(self.name, ratings)
        counts = np.diff(ratings.by_user.start)
        if self.variant != "nonprivate" and counts.max() > self.cap:
            raise ConfigError(
                f"a user has {counts.max()} ratings and params.cap = {self.cap}: trim the data to "
                "that many ratings a user, or raise it"
            )
        scale, mean = ratings.scale, self.mean
        if mean is None and self.variant == "corrected":
            mean = (scale.minimum + scale.maximum) / 2
        elif mean is None:
            mean = float((ratings if public is None else public).value.mean(dtype=np.float64))
        # w_u = min(1, B / (m_u (Δr + κ)²))
        most = counts * (scale.width + self.margin) ** 2
        largest = self.largest_loss(scale)
        weights = largest / np.maximum(most, largest)
        return SampledRows(
            FactorRows.of(ratings, mean),
            np.ones(len(counts)) if self.variant == "nonprivate" else weights,
        )

    def law(self, prepared: SampledRows) -> ExactFactors:
        """What the chain is to reach, drawn exactly: for small data.

        Raises:
            ConfigError: of `nonprivate`, which is no draw, and where precisions are drawn.
        """
        from dpaudit.defenses.factorization.exact_posterior import ExactFactors

        if self.variant == "nonprivate":
            raise ConfigError("the variant 'nonprivate' draws from no law: use another")
        if self._gamma:
            raise ConfigError(
                "precisions that are drawn are not part of the exact law: remove "
                "params.prior_shape and params.prior_rate"
            )
        # The density to the power 1/temperature: k_u = (ε/4B) w_u / T, s² = T / (2 (ε/4B) λ)
        scale = prepared.rows.scale
        factor = self.epsilon / (4 * self.largest_loss(scale)) / self.temperature
        return ExactFactors(
            rows=prepared.rows,
            weights=factor * prepared.weights,
            deviation=math.sqrt(1 / (2 * factor * self.decay)),
            dimensions=self.dimensions,
            biases=self.biases,
            bounds=self._range(scale),
            form="cut" if self.variant == "corrected" else self.accept or "all",
            name=self.name,
        )

    def train(self, prepared: SampledRows, streams: Streams) -> FactorModels:
        """The models of these worlds, with each user's own fit.

        Raises:
            RunError: a training diverged, or no draw of a world was accepted.
        """
        parts = streams.blocks(1) if self._large else lane_blocks(streams)
        draws = [self._draw(prepared, part) for part in parts]
        rows = prepared.rows
        spread = self._temperature / (2 * self._factor(rows.scale))
        own = [
            fitted(rows, draw.items, decay, spread / drawn, self.biases)
            for draw in draws
            for decay, drawn in [draw.precisions]
        ]
        return FactorModels(
            users=[side for side, _ in own],
            items=[draw.items for draw in draws],
            worlds=len(streams),
            mean=rows.mean,
            scale=rows.scale,
            shares=[share for _, share in own],
        )

    def _draw(self, prepared: SampledRows, streams: Streams) -> FactorDraw:
        draw = partial(self._chain, prepared, streams)
        if self.variant != "published" or self.accept == "any":
            return draw(0)
        bounds = self._range(prepared.rows.scale)
        return accepted(
            draw, prepared.rows, bounds, self.accept == "rated", self.retries, self.name
        )

    def _range(self, scale: Scale) -> tuple[float, float]:
        return scale.minimum - self.margin, scale.maximum + self.margin

    def _chain(self, prepared: SampledRows, streams: Streams, attempt: int) -> FactorDraw:
        scale = prepared.rows.scale
        chain = FactorChain(
            data=prepared,
            factor=self._factor(scale),
            temperature=self._temperature,
            decay=self.decay,
            gamma=self._gamma,
            dimensions=self.dimensions,
            spread=self.spread,
            sizes=step_sizes(self.step, self.exponent, self.schedule, self.passes),
            bounds=self._range(scale) if self.variant == "corrected" else (-math.inf, math.inf),
            biases=self.biases,
            name=self.name,
        )
        return (draw_single if self._large else FactorChain.draw)(chain, streams, attempt)

    def _factor(self, scale: Scale) -> float:
        """The log-density is −factor · (Σ w e² + λ‖·‖²); plain descent takes ½ (Σ e² + λ‖·‖²)."""
        private = self.variant != "nonprivate"
        return self.epsilon / (4 * self.largest_loss(scale)) if private else 0.5

    @property
    def _temperature(self) -> float:
        return 0.0 if self.variant == "nonprivate" else self.temperature

    @property
    def _gamma(self) -> tuple[float, float] | None:
        """α and β."""
        if self.prior_shape is None or self.prior_rate is None:
            return None
        return self.prior_shape, self.prior_rate
