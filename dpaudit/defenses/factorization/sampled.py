"""Matrix factorisation by posterior sampling (Liu, Wang, Smola 2015)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Claim, PersonalLosses, Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors, Observer
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses import factors, observers, training_checks
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.factorization.sampled_training import (
    Exact,
    FactorChain,
    FactorDraw,
    SampledRows,
    accepted,
    draw_single,
)
from dpaudit.kernels.lanes import LANES
from dpaudit.kernels.normal_equations import ridged, solved

if TYPE_CHECKING:
    from dpaudit.defenses.factorization.exact_posterior import ExactFactors


@parameters(frozen=True, config=STRICT)
class SampledFactors(TrainedDefense[SampledRows]):
    """Matrix factorisation with biases, one draw from a scaled posterior by Langevin dynamics.

    The target law has a density proportional to

        exp(−(ε/4B) (Σ_u w_u Σ_i (r_ui − r̂_ui)² + λ (‖U‖² + ‖V‖²))),
        w_u = min(1, s_u B/(m_u (Δr + κ)²)),

    with no prediction outside `[r_min − κ, r_max + κ]`. m_u is the number of ratings of user u.
    s_u is 1, or the user's own budget, a share of ε. λ applies to the biases too. The law is
    approached by stochastic gradient Langevin dynamics with step `η_t = η_1 t^−ξ` in epoch t. A
    mini-batch is one rating; the target does not depend on their order. The noise due to a
    coordinate is drawn when the coordinate is next read. No step changes a user or item without
    ratings, so these are drawn from the prior. Only the items' side is released. Each user fits the
    rest to their own ratings, by a ridge regression whose prior allows for the noise of the
    released factors (`user_fits.fitted`).

    **Published** repeats the draw while the prediction of any pair leaves the range, up to
    `retries` times.

    **Corrected** clips predictions to the range inside the likelihood instead. Then no user changes
    the log-density by more than ε/4. So replacing a user (`user-replace`) costs at most ε/2, which
    is the claim; adding or removing one costs at most ε/4. `b_0` is the middle of the scale.

    **Personal budgets.** The user u has ε_u = ε w_u m_u (Δr + κ)²/B, at most s_u ε, and changes the
    log-density by at most ε_u/4. So removing the ratings of u costs at most ε_u/4. Replacing them
    by any others costs at most s_u ε/2, if s_u is public, does not depend on the ratings, and stays
    (`docs/claims/lws15.md`). The claim is that of s_u = 1, which covers every user.

    Both claims are about the target law. They do not cover how many draws it takes until one is
    accepted, or that none is. A chain whose law is within δ of the target in total variation is
    (ε, (1 + e^ε) δ)-private, but no δ is known for a chain of finitely many steps. The claim states
    this assumption.

    With `prior_shape` α and `prior_rate` β the precisions are drawn too. Each of the d + 1
    coordinates has a λ_k ~ Gamma(α, β) for the users and a μ_k ~ Gamma(α, β) for the items. The
    joint density of (U, V, λ, μ) is proportional to

        exp(−(ε/4B) Σ_u w_u Σ_i (r_ui − r̂_ui)²) · Π_k g(λ_k) g(μ_k)
            · Π_uk N(u_k; 0, 2B/(ελ_k)) · Π_ik N(v_k; 0, 2B/(εμ_k)),

    where g is the density of Gamma(α, β). Given λ and μ it is the law above, with a λ for each
    coordinate. The factors besides the likelihood, including the range of the predictions, do not
    depend on the ratings. So a user changes the log-density by at most as much as without these
    priors, and the claims hold unchanged, also for V released with λ and μ, which users need for
    their own fit.

    With a temperature below 1, ε/4B is divided by it throughout.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only for `nonprivate`, which follows the gradient without
            noise.
        variant: `published`, `corrected` or `nonprivate`.
        dimensions: d, 1 to 1024; above 127 a multiple of 16. Models of more than 127 dimensions are
            trained one at a time and visit the popular items first.
        epochs: the number of passes over the ratings.
        learning_rate: η_1 times the number of ratings: the step size summed over an epoch.
        exponent: ξ.
        schedule: `text`: `η_t = η_1 t^−ξ`; `printed`: `η_{t+1} = η_t / t^ξ`, which soon stops the
            chain.
        decay: λ, if it is not drawn.
        prior_shape: α of the precisions' Gamma law; unless given, no precisions are drawn.
        prior_rate: β of the precisions' Gamma law, given together with α: the prior mean of λ is
            α/β.
        spread: the standard deviation of the initial factors.
        cap: τ, the largest number of ratings of a user; data with more are refused.
        margin: κ.
        loss_bound: B, public; `τ (Δr + κ)²` unless given, and at most that.
        temperature: the factor of the noise's variance. Below 1 the true ε is larger than the
            claimed one by its inverse, so `corrected` has 1.
        retries: how often a draw is repeated.
        accept: which predictions must be in range: `all` pairs, only the `rated` ones (an
            interpretation of the paper that reveals who rated what), or `any` to accept every draw.
        mean: `b_0`, a constant. Unless given it is the middle of the scale for `corrected`, else
            the mean of the ratings, which counts as public.
        biases: whether users and items have biases, as in the paper.
        budgets: whether s_u are the budgets of the data (`data.budgets`), which count as public.
    """

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    dimensions: Annotated[int, Field(ge=1, le=1024)] = 16
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 50
    learning_rate: Annotated[float, Field(ge=1e-12, le=1e6)] = 0.1
    exponent: Annotated[float, Field(ge=0, le=1)] = 0.3
    schedule: training_checks.Schedule = "text"
    decay: Annotated[float, Field(ge=1e-12, le=1e6)] = 10.0
    prior_shape: Annotated[float, Field(ge=1e-12, le=1e6)] | None = None
    prior_rate: Annotated[float, Field(ge=1e-9, le=1e6)] | None = None
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    cap: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    margin: Annotated[float, Field(ge=0, le=1e3)] = 1.0
    loss_bound: Annotated[float, Field(ge=1e-12, le=1e12)] | None = None
    temperature: Annotated[float, Field(ge=1e-12, le=1)] = 1.0
    retries: Annotated[int, Field(ge=0, le=1000)] = 10
    accept: Literal["all", "rated", "any"] | None = None
    mean: Annotated[float, Field(ge=-1e6, le=1e6)] | None = None
    biases: bool = True
    budgets: bool = False

    personal: ClassVar[bool] = True
    name: ClassVar[str] = "dpps-mf"
    quick: ClassVar[Mapping[str, Any]] = {
        "dimensions": 2,
        "epochs": 3,
        "cap": 40,
        "loss_bound": 0.1,
    }
    title: ClassVar[str] = "Matrix factorisation drawn from a scaled posterior by Langevin dynamics"
    source: ClassVar[str] = (
        "Liu, Wang, Smola, Fast Differentially Private Matrix Factorization, 2015, "
        "doi:10.1145/2792838.2800191; Wang & Tang 2017, §5.1"
    )

    @model_validator(mode="after")
    def _check(self) -> SampledFactors:
        training_checks.check_private_epsilon(self.epsilon, self.variant, "posterior")
        factors.check_size(self.dimensions)
        if self.variant == "corrected" and (self.temperature != 1 or self.accept is not None):
            raise ValueError(
                "the corrected form has temperature 1 and clips predictions instead of rejecting "
                "draws: remove temperature and accept"
            )
        if (self.prior_shape is None) != (self.prior_rate is None):
            raise ValueError(
                "prior_shape and prior_rate define one Gamma law: give both, or neither for "
                "λ = decay"
            )
        if self.variant == "nonprivate" and self._gamma:
            raise ValueError(
                "the variant 'nonprivate' draws nothing, so no precisions: remove prior_shape and "
                "prior_rate"
            )
        if self._gamma and self._large:
            raise ValueError(
                f"precisions are drawn only for models of at most {factors.TOGETHER} dimensions: "
                "lower dimensions, or remove prior_shape and prior_rate"
            )
        return self

    @property
    def _large(self) -> bool:
        return self.dimensions > factors.TOGETHER

    def claim(self) -> Claim | None:
        """Return the claim: ε for a user, about the target law; None for `nonprivate`."""
        if self.variant == "nonprivate":
            return None
        corrected = self.variant == "corrected"
        return Claim(
            epsilon=self.epsilon / 2 if corrected else self.epsilon,
            delta=0.0,
            adjacency="user-replace",
            observer="public",
            public="the numbers of users and items, the scale, τ, B"
            + ("" if corrected or self.mean is not None else ", the mean b_0")
            + (", each user's budget" if self.budgets else ""),
            assumes=(training_checks.CHAIN,),
            source="class docstring" if corrected else "Liu, Wang, Smola 2015, Theorem 2",
        )

    def observers(self) -> Mapping[str, Observer[SampledRows]]:
        """Return the observers of the released items' side and of predictions."""
        return observers.release_observers(self, ItemFactors)

    def largest_loss(self, scale: Scale) -> float:
        """Return B.

        Raises:
            ConfigError: the given B is above `τ (Δr + κ)²`.
        """
        most = self.cap * (scale.width + self.margin) ** 2
        if self.loss_bound is not None and self.loss_bound > most:
            raise ConfigError(
                f"params.loss_bound = {self.loss_bound:g} lies above cap (Δr + margin)² = "
                f"{most:g}, where every weight is 1 already: lower it"
            )
        return most if self.loss_bound is None else self.loss_bound

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> SampledRows:
        """Build the rows with `b_0` and the weights `w_u`.

        Raises:
            ConfigError: there are no ratings, a user has more than τ ratings, or the data lack the
                budgets that are to be used.
            DataError: the ratings have one value.
        """
        training_checks.check_rated(self.name, ratings)
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
        # w_u = min(1, s_u B / (m_u (Δr + κ)²))
        most = counts * (scale.width + self.margin) ** 2
        largest = self.largest_loss(scale) * self._shares(ratings)
        weights = largest / np.maximum(most, largest)
        return SampledRows(
            factors.FactorRows.of(ratings, mean),
            np.ones(len(counts)) if self.variant == "nonprivate" else weights,
        )

    def public_statistics(self, prepared: SampledRows) -> Any:
        """Return `b_0`."""
        return np.array(prepared.rows.mean)

    def _shares(self, ratings: Ratings) -> Exact:
        """Return s_u `(N,)`."""
        if not self.budgets:
            return np.ones(ratings.n_users)
        if ratings.budgets is None:
            raise ConfigError(
                f"params.budgets = true of {self.name} needs the budget of each user, and the data "
                "have none: set data.budgets, or remove it"
            )
        return ratings.budgets

    def personal_losses(self, ratings: Ratings, seed: int) -> PersonalLosses:
        """Compute each user's own ε, and 4ℓ_u at draws of the model; see `PersonalLosses`.

        Raises:
            NoModelError: as `train`.
        """
        prepared = self.prepare(ratings)
        rows, scale = prepared.rows, prepared.rows.scale
        rated = np.diff(rows.start) > 0
        draw = self._draw(prepared, Streams.first(seed, "personal", 1 if self._large else LANES))
        bounds = self._range(scale) if self.variant == "corrected" else (-math.inf, math.inf)
        weights = 4 * self._factor(scale) / self.temperature * prepared.weights[rated]
        most = np.diff(rows.start)[rated] * (scale.width + self.margin) ** 2
        return PersonalLosses(
            weights * most, weights[:, None] * draw.squared_errors(rows, bounds)[rated]
        )

    def law(self, prepared: SampledRows) -> ExactFactors:
        """Return the target law of the chain, for exact draws on small data.

        Raises:
            ConfigError: the variant is `nonprivate`, or precisions are drawn.
        """
        from dpaudit.defenses.factorization.exact_posterior import ExactFactors

        if self.variant == "nonprivate":
            raise ConfigError("the variant 'nonprivate' draws from no law: use another")
        if self._gamma:
            raise ConfigError(
                "the exact law does not support drawn precisions: remove params.prior_shape and "
                "params.prior_rate"
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

    def train(self, prepared: SampledRows, streams: Streams) -> factors.FactorModels:
        """Train the models of these trials, and fit each user's own side.

        Raises:
            NoModelError: a training diverged, or no draw of a trial was accepted.
        """
        if self._large:
            factors.check_models(prepared.rows, self.dimensions, 2 * len(streams))
        parts = streams.blocks(1) if self._large else training_checks.lane_blocks(streams)
        draws = [self._draw(prepared, part) for part in parts]
        rows = prepared.rows
        spread = self._temperature / (2 * self._factor(rows.scale))
        fits = [
            fitted(rows, draw.items, decay, spread / drawn, self.biases)
            for draw in draws
            for decay, drawn in [draw.precisions]
        ]
        return factors.FactorModels(
            users=[side for side, _ in fits],
            items=[draw.items for draw in draws],
            trials=len(streams),
            mean=rows.mean,
            scale=rows.scale,
            shares=[share for _, share in fits],
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
            sizes=training_checks.step_sizes(
                self.learning_rate, self.exponent, self.schedule, self.epochs
            ),
            bounds=self._range(scale) if self.variant == "corrected" else (-math.inf, math.inf),
            biases=self.biases,
            variant=self.variant,
            name=self.name,
        )
        return (draw_single if self._large else FactorChain.draw)(chain, streams, attempt)

    def _factor(self, scale: Scale) -> float:
        """Return the factor of −(Σ w e² + λ‖·‖²) in the log-density; ½ for plain descent."""
        private = self.variant != "nonprivate"
        return self.epsilon / (4 * self.largest_loss(scale)) if private else 0.5

    @property
    def _temperature(self) -> float:
        return 0.0 if self.variant == "nonprivate" else self.temperature

    @property
    def _gamma(self) -> tuple[float, float] | None:
        """α and β; None if precisions are not drawn."""
        if self.prior_shape is None or self.prior_rate is None:
            return None
        return self.prior_shape, self.prior_rate


# Public constants, as shares of the scale's width Δr: the standard deviation of each of the items'
# biases, the users' means and the tastes, and that of the residual of a rating.
_PART, _REST = 1 / 8, 1 / 4


def fitted(
    rows: factors.FactorRows,
    items: factors.Floats,
    decay: float | NDArray[np.float64],
    noise: float | NDArray[np.float64] = 0.0,
    biases: bool = True,
) -> tuple[factors.Floats, factors.Floats]:
    """Fit every user's own factors and constant, and the weight that they give the items' biases.

    A released coordinate is modelled as signal plus noise. The signal's variance `S_k` follows from
    the width Δr of the scale: s² = (Δr/8)² for the bias, and s/√d for each of d factors, which
    gives the taste `u·v` the variance s². The noise's variance of an item is not known. It is at
    most the prior's, and at most the observed mean square:

        ν_k = min(noise_k, mean_i v_ik²),    ρ_k = S_k / (S_k + ν_k).

    A share ρ_k of each released coordinate is expected to be signal. So with σ = Δr/4 user u
    assumes

        r_ui − b_0 = c + a b_i + Σ_k u_k v_ik + e,    e ~ N(0, σ²),
        c ~ N(0, max(σ²/λ, s²)),    a ~ N(ρ, ρ² (1 − ρ)²),    u_k ~ N(0, ρ_k² σ²/λ_k),

    where ρ is that of the biases, and the deviation of a allows for the unknown ν. The user fits
    the mean of (c, a, u) given their own ratings, a ridge regression. Without noise ρ = 1, and it
    is the ridge regression on `(v_i, 1)` with precision λ, and min(λ, 4) for c. If all is noise,
    only c remains, the user's mean, shrunk. The fit is computed from the release and the user's own
    ratings, so it costs no privacy.

    Args:
        rows: the ratings; a user's fit reads only their own.
        items: the released factors, then the biases, `(M, d + 1, L)`.
        decay: λ of each coordinate of the users' side `(d + 1, L)`, or one for all.
        noise: the variance of the released side's prior, for each coordinate `(d + 1, L)` or one
            for all; 0 without noise.
        biases: whether the model has biases; else c is 0.

    Returns:
        The factors u, then c, `(N, d + 1, L)`, and a `(N, L)`. Users without ratings get the prior
        means.
    """
    full, lanes = items.shape[1:]
    width = rows.scale.width
    part, rest = (_PART * width) ** 2, (_REST * width) ** 2
    ridge = np.broadcast_to(np.maximum(decay, 1e-6), (full, lanes))
    blurred = np.minimum(noise, np.square(items, dtype=np.float64).mean(0))
    signal = np.full((full, 1), part)
    signal[:-1] = math.sqrt(part / (full - 1))
    trust = signal / (signal + blurred)
    share = trust[-1]
    # Prior deviations of (u, c, a) over σ. With z = x times them, the mean over them is
    # zᵀ (z zᵀ + 1)⁻¹ y.
    scale = np.stack(
        [
            *(trust / np.sqrt(ridge))[:-1],
            np.sqrt(np.maximum(1 / ridge[-1], part / rest)),
            share * (1 - share) / math.sqrt(rest),
        ],
        axis=1,
    )
    user_side = np.zeros((rows.n_users, full, lanes), np.float32)
    shares = np.empty((rows.n_users, lanes), np.float32)
    shares[:] = share
    for u in range(rows.n_users):
        rated = slice(rows.start[u], rows.start[u + 1])
        count = rated.stop - rated.start
        if not count:
            continue
        z = np.ones((lanes, count, full + 1))
        z[:, :, :-1] = np.moveaxis(items[rows.items[rated]], 2, 0)
        biased = z[:, :, full - 1].copy()
        z[:, :, full - 1], z[:, :, full] = float(biases), biased
        z *= scale[:, None]
        y = (rows.values[rated] - rows.mean - share[:, None] * biased)[:, :, None]
        if count <= full:
            solution = np.einsum("wif,wi->wf", z, solved(ridged(np.swapaxes(z, 1, 2)), y)[:, :, 0])
        else:
            solution = solved(ridged(z), np.einsum("wif,wik->wfk", z, y))[:, :, 0]
        solution *= scale
        user_side[u], shares[u] = solution[:, :-1].T, share + solution[:, -1]
    return user_side, shares
