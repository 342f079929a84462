"""Instances that contradict mathematical statements of Park & Acharya 2011.

Each check takes a seed and describes an instance on which its statement fails, or returns None.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.inference.linear import LinearIdeal
from dpaudit.audits.on_demand.measures import run_risk
from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import generator
from dpaudit.core.user_profile import Profile
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.source import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.base import EntryPair
from dpaudit.defenses.item_item.cosine import Cosine
from dpaudit.defenses.item_item.slope_one import SlopeOne
from dpaudit.defenses.item_model import ExactScores
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.defenses.top_k.laws import SetChain, swap_sets

_INSTANCES = 300
# Rounding error of sums and logarithms of some dozens of terms.
_ROUNDING = 1e-9


def _ratings(seed: int, items: int = 200) -> Ratings:
    return generate(
        SyntheticParams(n_users=300, n_items=items, mean_per_user=40, seed=seed % 2**32)
    )


def _users(ratings: Ratings, least: int) -> list[Profile]:
    every = (ratings.profile(user) for user in range(ratings.n_users))
    return [profile for profile in every if least <= len(profile) < ratings.n_items - 1]


def _row(scores: NDArray[np.floating], unit: float = 5.0) -> ExactScores:
    return ExactScores(np.asarray(scores, np.float32), unit)


def cosine_inversion(seed: int, *, alike: bool) -> str | None:
    """Theorem 3.4 without noise: `p_il = 1` iff `n·A_j − Σ_{k≠l} s_kj = s_lj`.

    Args:
        seed: decides the instances.
        alike: whether to use only shown items whose similarity to the hidden item is above 0.
    """
    ratings = _ratings(seed, items=1000)  # so many that some pairs have no buyer in common
    purchases = Ratings.build(
        ratings.user,
        ratings.item,
        np.ones(len(ratings), np.float32),
        ratings.n_users,
        ratings.n_items,
        Scale(1, 1, 1),
    )
    defense = Cosine(epsilon=math.inf, variant="nonprivate", min_ratings=10)
    model = defense.prepare(purchases)
    rng = generator((seed, 34))
    for profile in _users(purchases, 11):
        hidden = int(rng.choice(profile.items))
        others = profile.items[profile.items != hidden]
        shown = np.setdiff1d(np.arange(ratings.n_items), profile.items)
        similarity = model.row(hidden)[shown]
        if alike:
            shown, similarity = shown[similarity > 0], similarity[similarity > 0]
        known = sum(model.row(int(k))[shown] for k in others)
        for mine in (profile, Profile(others, np.ones(len(others), np.float32))):
            read = len(mine) * defense.exact(model, mine).scores[shown] - known
            says_bought = np.abs(read - similarity) < 1e-3 * np.maximum(similarity, 1e-2)
            if np.any(says_bought != (len(mine) == len(profile))):
                wrong = "is read as bought, but was not" if mine is not profile else "is missed"
                return f"user with {len(profile)} purchases: the hidden item {wrong}"
    return None


def random_guessing(seed: int) -> str | None:
    """Definition 3, eq. (21): as ε → 0 the linear adversary is as good as random guessing."""
    from scipy.stats import binom

    ratings = _ratings(seed)
    defense = SlopeOne(epsilon=1e-4, min_ratings=10)
    trials, guess = 20_000, 1 / len(ratings.scale.values)
    right = int(
        run_risk(
            [defense],
            defense.prepare(ratings),
            _users(ratings, 10),
            LinearIdeal(reader="round"),
            trials=trials,
            seed=seed,
        ).sum()
    )
    if binom.cdf(right, trials, guess) > 1e-9:
        return None
    return f"at ε = 0.0001 {right} of {trials} ratings are recovered, random guessing gets 1 in 5"


def _log_law(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return log_weights - np.logaddexp.reduce(log_weights)


def stationary_law(seed: int, *, power: float) -> str | None:
    """The chain of eqs (31) and (34) has the stationary law `∝ φ^{power·ε}`.

    Theorem 4.1 states power 1; the text below eq. (36) states the law of eq. (28), power ½.
    """
    rng = generator((seed, 41))
    for _ in range(_INSTANCES):
        epsilon = float(rng.uniform(0.1, 4))
        exact = _row(rng.uniform(1, 5, 24))
        chain = TopK(epsilon=epsilon, top_k=4, u_s="largest-rate").chain(exact)
        log_phi = chain.sets.totals(exact.scores) / exact.sensitivity
        law = np.exp(_log_law(power * epsilon * log_phi))
        moved = law * (1 - chain.up - chain.down)
        moved[1:] += law[:-1] * chain.up[:-1]
        moved[:-1] += law[1:] * chain.down[1:]
        if np.abs(moved - law).max() > _ROUNDING:
            return (
                f"ε = {epsilon:.3g}, {len(law)} sets: one step changes the law by "
                f"{np.abs(moved - law).sum():.2g} in L1"
            )
    return None


def time_step(_: int) -> str | None:
    """Proposition 4.1 with eq. (31): `Δt = 1/U_s` is short enough where `φ_j/φ_{j+1} ≤ U_s/2`."""
    scores, epsilon = np.array([5.0, 1.0, 1.0]), 4.0
    u_s = 2 * math.exp((5 - 1) / 5)
    defense = TopK(epsilon=epsilon, top_k=1, left_window=1, right_window=1, u_s=u_s)
    try:
        defense.chain(_row(scores))
    except ConfigError:
        # λ_1 + μ_1 = 1 + e^{0.8 ε/2}
        stays = 1 - (1 + math.exp(0.8 * epsilon / 2)) / u_s
        return (
            f"ratings 5, 1, 1, k = 1, U_s = 2e^0.8, ε = 4: S_1 stays with probability {stays:.3g}"
        )
    return None


def decreasing_sets(seed: int) -> str | None:
    """Section 4.4: the sets from the two windows in the text have decreasing scores."""
    rng = generator((seed, 44))
    scores = np.sort(rng.uniform(1, 5, 40))[::-1].astype(np.float32)
    sets = swap_sets(np.arange(40, dtype=np.int32), 10, "meant", 2, 3)
    rises = np.flatnonzero(np.diff(sets.totals(scores)) > 1e-6)
    if not len(rises):
        return None
    j = int(rises[0])
    return f"40 scores at random: the set S_{j + 1} has a larger sum than S_{j}"


def divergence_and_ratio(_: int) -> str | None:
    """Section 4.4: if the chain's law is close to its target in divergence, `Δε` is small."""
    steps, items, epsilon = 20_000, 40, 20.0
    before = np.append(5.0, np.ones(items - 1))
    after = np.append(before[:-1], 5.0)
    defense = TopK(
        epsilon=epsilon,
        top_k=1,
        left_window=1,
        right_window=1,
        u_s="largest-rate",
        iterations=steps,
    )
    pair = EntryPair(_row(before), _row(after), "the last of the predictions becomes the highest")
    gap = max(_divergence(defense.chain(exact), steps) for exact in (pair.before, pair.after))
    loss = defense.pair_epsilon(pair)
    if loss is not None and loss > 2 * epsilon and gap < 0.001:
        return (
            f"k = 1, {items} predictions, every one listed, ε = {epsilon:g}, {steps} steps: a "
            f"divergence of {gap:.2g} and a log-ratio of {loss:.3g}"
        )
    return None


def _divergence(chain: SetChain, steps: int) -> float:
    """Return `KL(P ‖ P̂)` of the limit law P from the law P̂ after `steps` steps, section 4.4."""
    limit, law = chain.stationary, chain.law(steps)
    if np.any((law == 0) & (limit > 0)):
        return math.inf
    return float(np.sum(limit * (chain.log_stationary - np.log(law))))


def convex_curve(_: int) -> str | None:
    """Risk is a convex function of utility, as in Definitions 5 and 6.

    The list shows one of two items whose predictions are g apart, each with Laplace noise of scale
    b = Δf/ε, to a user with 20 ratings. With t = g/b the two swap with probability
    `½ e^{−t}(1 + t/2)`, at most ½. The rounded reading of a rating is right with probability
    `1 − e^{−1/(40 b)}`.
    """
    gap, delta_f, ratings = 0.01, 0.5, 20

    def point(epsilon: float) -> tuple[float, float]:
        """Return utility, which is lost where the two swap, and risk."""
        b = delta_f / epsilon
        return 1 - math.exp(-gap / b) * (1 + gap / (2 * b)), -math.expm1(-1 / (2 * ratings * b))

    (lowest, low_risk), (utility, risk), (highest, high_risk) = map(point, (10.0, 100.0, 300.0))
    chord = low_risk + (high_risk - low_risk) * (utility - lowest) / (highest - lowest)
    if risk <= chord:
        return None
    return (
        f"two items {gap} stars apart: at utility {utility:.3f} the risk is {risk:.3f}, above the "
        f"chord's {chord:.3f} between ε = 10 and ε = 300"
    )


PARTS = (
    convex_curve,
    cosine_inversion,
    decreasing_sets,
    divergence_and_ratio,
    random_guessing,
    stationary_law,
    time_step,
)
