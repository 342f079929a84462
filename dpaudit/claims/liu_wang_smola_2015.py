"""Liu, Wang & Smola 2015, and Berlioz et al. 2015: what the entries need of code.

The games are beyond noised steps and draws from one posterior law. All data sets are on the scale
1..5. A check takes a seed and describes an instance on which its statement fails, or returns None.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games import GameScores
from dpaudit.audits.trained.pairs import DataPair
from dpaudit.bounds.accounting import gaussian_mechanism_epsilon, noise_multiplier
from dpaudit.claims.games import DataGame, PosteriorGame, scored
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams, generator
from dpaudit.data.ratings import RatedItems, Ratings, from_profiles
from dpaudit.defenses.factorization.exact_posterior import ExactFactors
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.training_checks import step_sizes

_INSTANCES = 30


def factors(
    epsilon: float,
    deviation: float,
    least: float,
    *,
    variant: Literal["published", "corrected"] = "published",
    **parameters: Any,
) -> SampledFactors:
    """Return the defense with one factor whose prior has this standard deviation at B = `least`."""
    return SampledFactors(
        epsilon=epsilon,
        variant=variant,
        decay=2 * least / (epsilon * deviation**2),
        **{"dimensions": 1, "biases": False, **parameters},
    )


def pair(
    before: Sequence[RatedItems],
    after: Sequence[RatedItems],
    n_items: int,
    summary: str,
    *,
    own_means: bool = False,
    budgets: Sequence[float] | None = None,
) -> DataPair:
    """Return a pair with the same budgets of users.

    The first's statistics are public, unless `own_means` gives each its own.
    """
    shares = None if budgets is None else np.array(budgets)
    first, second = (
        replace(from_profiles(profiles, n_items), budgets=shares) for profiles in (before, after)
    )
    return DataPair(first, second, None if own_means else first, summary)


def recomputed_mean(users: int) -> DataPair:
    """Return the pair of users with one item each, where one rating and the mean change."""
    rest: list[RatedItems] = [[(user, 3)] for user in range(1, users)]
    return pair(
        [[(0, 5)], *rest],
        [[(0, 1)], *rest],
        users,
        f"{users} users, each of whom has rated a different item with the middle of the scale, "
        "except one whose rating changes from highest to lowest; the mean is computed from each "
        "data set",
        own_means=True,
    )


@dataclass(frozen=True, eq=False)
class OwnBoundGame(PosteriorGame):
    """Observer `public` of exact draws, with B = `max_u m_u (Δr + κ)²` of each data set."""

    instead: ClassVar[str] = "; B from the data; exact draws of its law"
    purpose: ClassVar[str] = "own bound"

    def laws(self) -> Iterator[ExactFactors]:
        """Return the law on each of the two data sets, with that data set's B."""
        for ratings in (self.data.before, self.data.after):
            most = int(np.diff(ratings.by_user.start).max())
            bound = most * (ratings.scale.width + self.defense.margin) ** 2
            defense = replace(self.defense, loss_bound=bound)
            yield defense.law(defense.prepare(ratings, self.data.public))


@dataclass(frozen=True, eq=False)
class RetriesGame(DataGame):
    """Observer `public` of a run that may fail: whether any of its draws was in range.

    The draws are exact, from the posterior without a range; each trial makes all of its draws.
    """

    instead: ClassVar[str] = "; a run fails that finds no draw in range"

    def run(self, trials: int, seed: int) -> GameScores:
        """Score 1 for a failed run, else 0."""
        draws = self.defense.retries + 1
        free = replace(self.defense, accept="any")

        def score(ratings: Ratings, streams: Streams) -> NDArray[np.float64]:
            law = free.law(free.prepare(ratings, self.data.public))
            passed = law.in_range(*law.draw_both(streams))
            tries: NDArray[np.bool_] = passed.reshape(trials, draws)
            return 1.0 - tries.max(1)

        sides = self.data.before, self.data.after
        return scored(score, sides, "retries", trials * draws, seed, self.truth)


@dataclass(frozen=True, eq=False)
class MovedGame(DataGame):
    """Observer `public` of a descent that starts biases at 0: whether an item's bias has changed.

    Attributes:
        item: the item.
    """

    item: int = field(kw_only=True)

    def run(self, trials: int, seed: int) -> GameScores:
        """Score 1 for a bias that is not 0, else 0."""
        items = np.array([self.item], np.int32)

        def score(rows: object, streams: Streams) -> NDArray[np.float64]:
            models = self.defense.train(rows, streams)
            return (models.public(items).factors[:, self.item, -1] != 0).astype(np.float64)

        return scored(score, self.prepared(), "moved", trials, seed, self.truth)


def unflushed(seed: int) -> str | None:
    """The law stays the same if the noise that is due at the end is not drawn."""
    rng = generator((seed, 23))
    for _ in range(_INSTANCES):
        dense, lazy, due = _covariances(rng)
        bare = np.flatnonzero((lazy == 0).all(0))
        if len(bare):
            return (
                f"{len(due)} biases: one without ratings is released as initialised, but its "
                f"variance should be {dense[bare[0], bare[0]]:g}"
            )
    return None


def _covariances(
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Propagate the covariances of the biases.

    Returns:
        the covariances after dense steps; those after lazy steps; and the variances of the noise
        that is still due to the latter.
    """
    users, items, steps = (int(rng.integers(*ends)) for ends in ((1, 4), (3, 6), (3, 30)))
    count, pull, gain = users + items, 0.2 * rng.random(), 0.5 * rng.random()
    sizes = step_sizes(0.1, 0.3, "text", steps)
    dense, lazy, due = np.zeros((count, count)), np.zeros((count, count)), np.zeros(count)
    for size in sizes:
        # The last item has no ratings.
        touched = [int(rng.integers(users)), users + int(rng.integers(items - 1))]
        lazy[touched, touched] += due[touched]
        due[touched] = 0
        # b ← b + η (gain e − pull b) for both, e = r − b_u − b_i
        step = np.eye(count)
        step[np.ix_(touched, touched)] -= size * (gain + pull * np.eye(2))
        dense = step @ dense @ step.T + size * np.eye(count)
        lazy = step @ lazy @ step.T
        due += size
    return dense, lazy, due


def personal_replaced(_: int) -> str | None:
    """A user with one rating and ε_u = ε/τ who is replaced by one with τ ratings loses at most ε_u.

    The law clips predictions; d = 1, no biases, κ = 0, b_0 = 3, all ratings 5. Flipping the sign of
    an unrated factor changes no density, so on D all sign patterns of v are equally likely; on D'
    the signs of u v_i are independent given u. The event: at least `least` of the τ factors agree
    in sign.
    """
    from scipy.stats import binom

    tau, epsilon, least = 100, 64.0, 65
    k = np.arange(tau + 1)
    far = np.maximum(k, tau - k) >= least
    absent = binom.pmf(k, tau, 0.5)
    present = sign_law(tau, epsilon, 100.0)
    loss = math.log(present[far].sum() / absent[far].sum())
    if loss <= epsilon / tau:
        return None
    return (
        f"τ = {tau}, ε = {epsilon:g}, ε_u = {epsilon / tau:g}: at least {least} of the signs agree "
        f"with probability {absent[far].sum():.3g} and {present[far].sum():.3g}, ε >= {loss:.3g}"
    )


def sign_law(tau: int, epsilon: float, deviation: float) -> NDArray[np.float64]:
    """Return the law of the number of positive factors `(τ + 1,)` for one user with τ ratings of 5.

    With `c(z) = min(z, 2)`, `z = |u v|`, the two signs of v have the weights
    `A_±(u) = E_v e^{−(ε/4B)(2 ∓ c)²}`, and k positive factors have `E_u ½ (A_+^k A_−^{τ−k} + …)`.
    """
    from scipy.stats import binom, norm

    k = np.arange(tau + 1)
    factor = epsilon / (4 * 16 * tau)
    # The midpoint rule over the quantiles of |u| and |v|.
    nodes = deviation * norm.isf((np.arange(1000) + 0.5) / 2000)
    weights = [
        np.array(
            [np.exp(-factor * (2 - sign * np.minimum(u * nodes, 2)) ** 2).mean() for u in nodes]
        )
        for sign in (1, -1)
    ]
    plus, minus = (np.log(weight)[:, None] for weight in weights)
    one = np.exp(k * plus + (tau - k) * minus).mean(0)
    law = binom.pmf(k, tau, 0.5) * (one + one[::-1]) / 2
    normalised: NDArray[np.float64] = law / law.sum()
    return normalised


def one_round() -> SgdFactors:
    """Return the corrected form with one epoch of clipped sums and normal noise, for user-replace.

    All factors start at 0, so a rating's gradient is along its item's bias and has the full norm.
    """
    return SgdFactors(
        epsilon=1.0, variant="corrected", epochs=1, dimensions=1, spread=0.0, clip_norm=1.0,
        adjacency="user-replace",
    )  # fmt: skip


def normal_noise() -> Estimate:
    """Return the ε of opposite gradients of the full norm, which attains the guarantee."""
    defense = one_round()
    about: dict[str, Any] = {"delta": defense.delta, "compositions": 1, "neighbors": "replace"}
    return gaussian_mechanism_epsilon(noise_multiplier(defense.epsilon, **about), **about)
