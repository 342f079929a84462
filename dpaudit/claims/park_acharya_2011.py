"""Park & Acharya 2011: what the entries need of code.

A check takes a seed and describes an instance on which its statement fails, or returns None. Each
pair of neighbouring data sets is an instance of the paper's setting: ratings on the scale 1..5, or
purchases, and at least `T = 20` of them for every user, whether or not the user is shown
predictions. User 0 is the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.inference import LinearIdeal
from dpaudit.audits.on_demand.measures import run_risk
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import Profile
from dpaudit.core.streams import generator
from dpaudit.data.neighbors import RatingAdded, RatingChange, RatingReplaced
from dpaudit.data.ratings import STARS, Ratings, Scale, from_profiles
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.base import EntryPair, ExactScores, PredictionPair
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne
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


_T, _CO_RATERS = 20, 11

MakePair = Callable[[ItemItem], PredictionPair]
Profiles = list[list[tuple[int, float]]]


def worst_pair(name: str, purchases: bool = False) -> Callable[[Any], Any]:
    """Return a function that builds the defense's own worst pair with this name.

    The pair is on stars, unless on `purchases`.
    """
    return lambda defense: defense.pair(name, Scale(1, 1, 1) if purchases else STARS)


def _rows(items: Sequence[int], rating: float) -> list[tuple[int, float]]:
    return [(item, rating) for item in items]


def _stars(
    profiles: Profiles, change: RatingChange, items: Sequence[int], summary: str
) -> PredictionPair:
    n_items = 1 + max(item for profile in profiles for item, _ in profile)
    n_items = max(n_items, 1 + max(items), 1 + change.item)
    ratings = from_profiles(profiles, n_items)
    return PredictionPair(ratings, change, target=0, items=tuple(items), summary=summary)


def above_threshold(_: ItemItem) -> PredictionPair:
    """Return a pair in which a twelfth co-rater changes similarities of −4 by 8/12."""
    rest = range(1, _T + 1)
    profiles = [_rows(rest, 3), _rows(rest, 1), *[[(0, 1.0), *_rows(rest, 5)]] * _CO_RATERS]
    return _stars(
        profiles,
        RatingAdded(user=1, item=0, value=5),
        (0,),
        f"{_CO_RATERS} users rate the predicted item lowest and the target's items highest; one "
        "more user, with opposite ratings, adds the one of the predicted item; every count of "
        "co-raters stays above the threshold",
    )


def own_added(_: ItemItem) -> PredictionPair:
    """Return a pair in which the target's own rating changes a mean of 20 terms by 12/21.

    The terms are 1 − 4, and the added one is 5 + 4.
    """
    rest, new = range(1, _T + 1), _T + 1
    others = range(_T + 2, 2 * _T + 1)
    low = [(0, 1.0), *_rows(rest, 5)]
    high = [(0, 5.0), (new, 1.0), *_rows(others, 3)]
    return _stars(
        [_rows(rest, 1), *[low] * _CO_RATERS, *[high] * _CO_RATERS],
        RatingAdded(user=0, item=new, value=5),
        (0,),
        f"{_CO_RATERS} users rate the predicted item 4 below each of the target's, and as many "
        "rate it 4 above one more item; the target, who gave all items the lowest rating, gives "
        "that item the highest",
    )


def other_replaced(_: ItemItem) -> PredictionPair:
    """Return a pair in which one of 11 co-raters moves a rating from end to end: 4/11."""
    rest = range(1, _T + 1)
    profiles = [_rows(rest, 3), *[[(0, 1.0), *_rows(rest, 3)]] * _CO_RATERS]
    return _stars(
        profiles,
        RatingReplaced(user=1, item=0, value=5),
        (0,),
        f"the least number of co-raters above the threshold, {_CO_RATERS}; one of them changes the "
        "rating of the predicted item from lowest to highest",
    )


def own_replaced(outputs: int) -> MakePair:
    """Return a builder of a pair in which the target's own rating shifts all predictions by 4/20.

    Args:
        outputs: number of predictions shown to the target.
    """

    def make_pair(_: ItemItem) -> PredictionPair:
        rest, shown = range(outputs, outputs + _T), range(outputs)
        viewers = _rows(range(max(outputs, _T)), 3)
        mine = [(rest[0], 1.0), *_rows(rest[1:], 3)]
        return _stars(
            [mine, viewers, viewers],
            RatingReplaced(user=0, item=rest[0], value=5),
            tuple(shown),
            f"the target has {_T} ratings, one of which changes from lowest to highest, and is "
            f"shown {outputs} {'prediction' if outputs == 1 else 'predictions'}",
        )

    return make_pair


def two_to_show(_: ItemItem) -> PredictionPair:
    """Return a support-threshold pair in which the list shows which of two items is first."""
    rest, other = range(1, _T + 1), _T + 1
    agree = [(0, 5.0), *_rows(rest, 1)]
    liked = [(other, 5.0), *_rows(rest, 1)]
    profiles = [_rows(rest, 3), _rows(rest, 1), *[agree] * (_CO_RATERS - 1), *[liked] * _CO_RATERS]
    return _stars(
        profiles,
        RatingAdded(user=1, item=0, value=5),
        (0, other),
        "the target is shown the better of two items; one more user rates one of them, and the "
        "count of its co-raters crosses the threshold",
    )


def two_to_show_anew(_: ItemItem) -> PredictionPair:
    """Return a pair in which one of two items that nobody has rated gets its first rating."""
    rest, other = range(1, _T + 1), _T + 1
    return _stars(
        [_rows(rest, 3), _rows(rest, 1)],
        RatingAdded(user=1, item=0, value=5),
        (0, other),
        "the target is shown the better of two items; nobody has rated either of them, and one "
        "user rates one",
    )


def own_listed(_: ItemItem) -> PredictionPair:
    """Return a pair in which the target rates the item that is predicted 4 above all others."""
    rest, new, others = range(_T), _T, range(_T + 1, 2 * _T + 1)
    admirers = [(new, 5.0), *_rows(rest, 1), *_rows(others, 1)]
    return _stars(
        [_rows(rest, 3), *[admirers] * _CO_RATERS],
        RatingAdded(user=0, item=new, value=5),
        (new,),
        "an item is predicted far above all others, until the target rates it",
    )


def first_of_two(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """Return the ε of revealing which of two predictions with Laplace noise is larger.

    The difference of two Laplace draws of scale b exceeds d·b with probability

        p(d) = e^{−d} (1/2 + d/4)   for d ≥ 0,   1 − p(−d) below,

    and ε is the larger of |ln p(d')/p(d)| and |ln (1 − p(d'))/(1 − p(d))|.

    Args:
        before: the two exact predictions on data set D.
        after: the same on data set D'.
        scale: the Laplace scale b of each noise.
    """

    def second_wins(predictions: NDArray[np.float64]) -> tuple[float, float]:
        """Return the probability that the second is shown, and that the first is."""
        d = float(predictions[0] - predictions[1]) / scale
        tail = math.exp(-abs(d)) * (0.5 + abs(d) / 4)
        return (tail, 1 - tail) if d >= 0 else (1 - tail, tail)

    pairs = zip(second_wins(before), second_wins(after), strict=True)
    return max(abs(math.log(q / p)) for p, q in pairs)


def common_shift(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """Return 0: a shift that all predictions share changes no ranked list.

    Raises:
        ValueError: the predictions do not all shift by the same amount.
    """
    if np.ptp(after - before) > 1e-5 * scale:
        raise ValueError("the predictions have no common shift: the list has no closed form here")
    return 0.0


def infinite(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """Return ∞: some list is possible on one data set only."""
    return math.inf
