"""The probabilistic neighbourhood model by posterior sampling (Wang & Tang 2017, §4).

**Exact draws from the target law.** Rows are independent given the ratings. Let ℓ be the loss of a
row's raters, and `ℓ_σ` a lower bound on it for similarities with the signs σ. A row gets its signs
with probability `∝ exp(−ℓ_σ)` and its absolute values from the normal prior. It is accepted with
probability `exp(−(ℓ(s) − ℓ_σ))`. This is von Neumann's rejection sampling, whose accepted draws
have exactly the target law. Without the bounds, practically no row with hundreds of raters would
be accepted.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Claim, Variant
from dpaudit.core.errors import ConfigError, NoModelError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import Observer, SimilarityRows
from dpaudit.core.streams import Key, Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses import observers, training_checks
from dpaudit.defenses.neighborhood.similarity import (
    Batches,
    SimilarityData,
    SimilarityDefense,
    Slope,
    item_means,
    middle_means,
)
from dpaudit.kernels import exact_noise, noise
from dpaudit.kernels import neighborhood as kernels
from dpaudit.kernels.lane_noise import trial_words
from dpaudit.kernels.lanes import LANES

Numbers = NDArray[np.float64]

# The most items, since a matrix of each trial is kept; the most proposals of a row in a trial.
_MOST_ITEMS, _MOST_ATTEMPTS = 64, 20_000
# Trials at a time; draws do not depend on it.
_BLOCK = 65_536
# The least denominator, against division by 0: if all weights are 0, so is the numerator.
_TINY = 1e-300
# The share that rounding may add to a computed minimum.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class _Raters:
    """Raters of one item with the same ratings.

    Attributes:
        places: the indices of their other items among the row's neighbours `(n,)`.
        values: `x_j` of these items `(n,)`.
        target: `x_i`.
        count: the number of these users.
    """

    places: tuple[int, ...]
    values: tuple[float, ...]
    target: float
    count: int

    def reach(self, low: float, high: float) -> tuple[float, float]:
        """Return the least and the largest possible prediction, clipped to [low, high]."""
        most = max(map(abs, self.values))
        return max(low, -most), min(high, most)


@dataclass(frozen=True, eq=False)
class RowLoss:
    """The loss of row i as a function of its similarities s.

        ℓ(s) = k Σ_u (clip(y_u, low, high) − x_ui)²,    y_u = Σ s_j x_uj / Σ |s_j|

    Attributes:
        neighbors: the items, other than the row's, that some rater of the row's item has rated
            `(n,)`. No other item enters the loss.
        raters: the users, grouped by equal ratings.
        weight: k.
        low: the lower bound of predictions.
        high: the upper bound of predictions.
    """

    neighbors: NDArray[np.int64]
    raters: tuple[_Raters, ...]
    weight: float
    low: float
    high: float

    def of(self, s: Numbers) -> Numbers:
        """Return the loss in each trial `(W,)`; `s` are similarities to the neighbours `(n, W)`."""
        sizes, total = abs(s), np.zeros(s.shape[1])
        for alike in self.raters:
            # Not a matrix product, whose rounding may depend on W.
            top = sum(x * s[j] for j, x in zip(alike.places, alike.values, strict=True))
            weight = sum(sizes[j] for j in alike.places)
            y = np.clip(top / np.maximum(weight, _TINY), self.low, self.high)
            total += alike.count * (y - alike.target) ** 2
        return self.weight * total

    def floors(self) -> tuple[Numbers | None, Numbers]:
        """Return lower bounds on the loss.

        With at most two neighbours there is a bound for each combination of signs, its least loss:
        y is linear in `w = |s_1|/(|s_1| + |s_2|)`, and the loss is a parabola in w. With more
        neighbours, or if predictions are clipped, there is one bound for all signs, the sum of
        every user's least loss.

        Returns:
            The signs `(Q, n)`, or None for all, and their bounds `(Q,)`.
        """
        known = len(self.neighbors)
        ranges = [alike.reach(-np.inf, np.inf) for alike in self.raters]
        cut = any(low < self.low or high > self.high for low, high in ranges)
        if known <= 2 and not cut:
            every = list(itertools.product((-1.0, 1.0), repeat=known))
            least = np.array([self._least_within(signs) for signs in every])
            return np.array(every), self.weight * (1 - _ROUNDING) * least
        bound = 0.0
        for alike in self.raters:
            low, high = alike.reach(self.low, self.high)
            bound += alike.count * (np.clip(alike.target, low, high) - alike.target) ** 2
        return None, np.array([self.weight * (1 - _ROUNDING) * bound])

    def _least_within(self, signs: tuple[float, ...]) -> float:
        """Return the least `Σ n (slope·w + level)²` over w in [0, 1], for these signs of s."""
        square = mixed = constant = 0.0
        for alike in self.raters:
            ends = [signs[j] * x for j, x in zip(alike.places, alike.values, strict=True)]
            # With one neighbour y does not depend on w.
            slope, level = ends[0] - ends[-1], ends[-1] - alike.target
            square += alike.count * slope**2
            mixed += alike.count * slope * level
            constant += alike.count * level**2
        w = min(1.0, max(0.0, -mixed / square)) if square > 0 else 0.0
        return max(0.0, square * w**2 + 2 * mixed * w + constant)


@dataclass(frozen=True, eq=False)
class ExactSimilarity:
    """The law with density `∝ exp(−Σ_i ℓ_i(S_i) − ‖S‖²/2s²)` of the similarities S, `(M, M)`.

    The diagonal is never read and follows the prior. Draws are made from Laplace draws of the noise
    source. Their absolute values are exponential, as needed for the radius of two normal numbers
    and for the acceptance test, with 31 bits. Signs whose probability is below 2^-31 are not drawn.

    Attributes:
        losses: `ℓ_i` of each item.
        spread: s.
    """

    losses: tuple[RowLoss, ...]
    spread: float

    @classmethod
    def of(
        cls, data: SimilarityData, slope: Slope, *, weight: float, spread: float
    ) -> ExactSimilarity:
        """Build the law for these ratings.

        Args:
            data: the ratings.
            slope: the range of predictions, and N_k.
            weight: k, the factor of a squared error.
            spread: the standard deviation of the prior.

        Raises:
            ConfigError: a user has more than N_k neighbours of an item, or there are too many items
                to keep a matrix of each trial.
        """
        most = int(np.diff(data.profiles.start).max(initial=0)) - 1
        if most > slope.neighbors:
            raise ConfigError(
                f"a user has {most} neighbours of an item and params.neighbors = {slope.neighbors} "
                "leaves some out, which the exact law does not support: raise it"
            )
        if data.n_items > _MOST_ITEMS:
            raise ConfigError(
                f"{data.n_items} items are too many for exact draws of whole matrices: use at "
                f"most {_MOST_ITEMS}"
            )
        losses = (
            RowLoss(*_raters(data, item), weight, slope.flat_from, slope.flat_to)
            for item in range(data.n_items)
        )
        return cls(tuple(losses), spread)

    def draw(self, streams: Streams) -> Numbers:
        """Draw the similarities of each trial `(W, M, M)`, from the trial's index alone.

        Raises:
            NoModelError: 20 000 proposals of a row were rejected.
        """
        items = len(self.losses)
        draws = np.empty((len(streams), items, items))
        done = 0
        for part in streams.blocks(_BLOCK):
            for item in range(items):
                self._draw_row(draws[done : done + len(part), item], item, part)
            done += len(part)
        return draws

    def log_density(self, draws: Numbers) -> Numbers:
        """Return the logarithm of the density, up to a constant, `(W,)`."""
        total = -(draws**2).sum((1, 2)) / (2 * self.spread**2)
        for item, loss in enumerate(self.losses):
            total -= loss.of(np.ascontiguousarray(draws[:, item, loss.neighbors].T))
        return total

    def _draw_row(self, out: Numbers, item: int, streams: Streams) -> None:
        loss, items = self.losses[item], len(self.losses)
        signs, floors = loss.floors()
        chances = np.exp(floors.min() - floors)
        ends, near = np.cumsum(chances)[:-1] / chances.sum(), loss.neighbors
        # The similarities to all other items follow the prior.
        far = np.setdiff1d(np.arange(items), near)
        out[:, far] = self._propose(streams.key, streams.trials, item, len(far))[0].T
        left, proposals = np.arange(len(streams)), 0
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            step = attempt * items + item
            s, limit, choice = self._propose(streams.key, streams.trials[left], step, len(near))
            proposals += len(left)
            chosen = np.searchsorted(ends, choice, side="right")
            if signs is not None:
                s = abs(s) * signs[chosen].T
            # P(E >= x) = e^−x of an exponential E
            accepted = loss.of(s) - floors[chosen] <= limit
            out[np.ix_(left[accepted], near)] = s[:, accepted].T
            left = left[~accepted]
            if not len(left):
                return
        share = (len(streams) - len(left)) / proposals
        raise NoModelError(
            f"row {item} of the exact law: only {share:.1e} of {proposals} proposals were "
            "accepted: use fewer ratings, a smaller epsilon or rows with at most two neighbours"
        )

    def _propose(
        self, key: Key, trials: NDArray[np.int64], step: int, count: int
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Draw numbers from the prior `(count, W)`, an exponential and a uniform number `(W,)`.

        The normal numbers are by Box & Muller 1958.
        """
        pairs = (count + 1) // 2
        draws = np.empty((len(trials), 2 * pairs + 2), np.float64)
        exact_noise.laplace(draws, trials, step, key)
        sizes = abs(np.ascontiguousarray(draws.T))
        radius = self.spread * np.sqrt(2 * sizes[:pairs])
        angle = 2 * np.pi * np.exp(-sizes[pairs:-2])
        s = np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))
        return s[:count], sizes[-2], np.exp(-sizes[-1])


def _raters(data: SimilarityData, item: int) -> tuple[NDArray[np.int64], tuple[_Raters, ...]]:
    """Return the row's neighbours and the item's raters who rated any, grouped by equal ratings."""
    entries, profiles = data.entries(item), data.profiles
    counts: Counter[tuple[tuple[int, ...], tuple[float, ...], float]] = Counter()
    for user, target in zip(data.raters.column[entries], data.targets[entries], strict=True):
        span = slice(int(profiles.start[user]), int(profiles.start[user + 1]))
        others = profiles.column[span] != item
        items = tuple(profiles.column[span][others].tolist())
        if items:
            counts[items, tuple(data.centred[span][others].tolist()), float(target)] += 1
    near = sorted({other for items, _, _ in counts for other in items})
    return np.array(near, np.int64), tuple(
        _Raters(tuple(near.index(other) for other in items), values, target, count)
        for (items, values, target), count in counts.items()
    )


@parameters(frozen=True, config=STRICT)
class SampledSimilarity(SimilarityDefense):
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
    schedule: training_checks.Schedule = "text"
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
        training_checks.check_private_epsilon(self.epsilon, self.variant, "posterior")
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
            assumes=(training_checks.CHAIN,),
            source="class docstring" if corrected else "Wang & Tang 2017, Theorem 2",
        )

    def observers(self) -> Mapping[str, Observer[SimilarityData]]:
        """Return the observers of the final model and of predictions."""
        return observers.release_observers(self, SimilarityRows)

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> SimilarityData:
        """Prepare the ratings, with item means of `public` or the scale's middle if corrected.

        Raises:
            ConfigError: there are no ratings, a user has more than τ ratings, or no user has more
                than `more_than`.
            DataError: the ratings have one value.
        """
        training_checks.check_rated(self.name, ratings)
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
            training_checks.step_sizes(
                self.learning_rate, self.exponent, self.schedule, self.steps
            ),
            1,
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
            training_checks.end_step(
                self.variant, self.name, t, "step", "lower params.learning_rate", row
            )
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
