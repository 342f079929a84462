"""Instances that contradict mathematical statements about PrivSR (Meng et al. 2018).

Each check takes a seed and describes an instance on which its statement fails, or returns None.
"""

from __future__ import annotations

import math

import numpy as np

from dpaudit.bounds.gdp import gaussian_delta

_ROUNDING = 1e-9


def sums_of_both(seed: int) -> str | None:
    """Independent Lap(2Δ√K/ε_s) and Lap(2Δ√K/ε_n) keep ε for one rating; here K = 1, β = 1.

    In units of both scales, b = 2Δ/ε_s, the sum has the density `(1 + |x|) e^{−|x|}/4` and the tail
    `P(x ≥ t) = (2 + t) e^{−t}/4`, t ≥ 0. A rating shifts it by 2Δ = ε_s b = 2ε b.
    """
    epsilon, reach = 1.0, 8.0
    shift = 2 * epsilon

    def tail(t: float) -> float:
        return (2 + t) * math.exp(-t) / 4

    chance = tail(reach)
    loss = math.log(chance / tail(reach + shift))
    if loss <= epsilon:
        return None
    return (
        f"β = 1: one rating makes a sum beyond {reach:g} b {math.exp(loss):.3g} times as likely, "
        f"an event of probability {chance:.2g}: ε = {loss:.3f} where {epsilon:g} is claimed, and "
        f"{shift:g} in the limit"
    )


def delta_of_submission(raters: int, spent: float, epsilon: float) -> float:
    """Return δ(ε) of one rater's submission for the ratings 5 and 1, with K = 1 and |u| = 1.

    The recommender drew h. Given h, the submission is normal with
    `μ = 2Δ/√(8hΔ²/(n ε_s²)) = ε_s √(n/2h)`. The observation includes h, so δ(ε) = E δ(ε; μ(h)) over
    h ~ Exp(1).

    Args:
        raters: n, the number of raters who share the item's noise of this kind.
        spent: ε_s, or ε_n.
        epsilon: ε.
    """
    from scipy.integrate import quad

    def weighed(r: float) -> float:
        # h = r²
        mu = spent * math.sqrt(raters / 2) / r
        return 2 * r * math.exp(-(r**2)) * gaussian_delta(epsilon, mu)

    return float(quad(weighed, 0, 7, epsabs=1e-10, limit=200)[0])


def submission(seed: int) -> str | None:
    """δ at ε = 1 of a sensitive submission is 0, with β = 0.1."""
    deltas = {n: delta_of_submission(n, 1.1, 1.0) for n in (1, 10, 100)}
    if max(deltas.values()) <= 0:
        return None
    words = ", ".join(f"{delta:.3f} with {n}" for n, delta in deltas.items())
    return f"δ at ε = 1 and β = 0.1, by the number of raters who share the noise, is {words}"


def new_ratings(seed: int) -> str | None:
    """Two time slots, each on its own ratings with noise for ε_t = 1, keep ε = max ε_t = 1.

    K = 1, one round a slot, u = v = 1 at first, γ = 0.045. In the first slot a user rates an item
    5 or 1, and in the second slot another item 5. If the first slot's sum is near −90, the user
    begins the second slot with u = 0.98 or u = −0.84.
    """
    rate, seen, scale = 0.045, -90.0, 8.0
    ratings = np.array([5.0, 1.0])
    means = 2 * (1 - ratings)
    first = (abs(seen - means[1]) - abs(seen - means[0])) / scale
    v = 1 - rate * seen
    users = 1 - rate * 2 * (v - ratings) * v
    if abs(users).max() > 1:
        return None
    second = abs(np.diff(2 * (users - 5) * users)[0]) / scale
    if first + second <= 1 + _ROUNDING:
        return None
    return (
        f"sums near {seen:g} in the first slot have the likelihood ratio e^{first:.3g} and make the"
        f" user's factor {users[0]:.2f} or {users[1]:.2f}; sums beyond both means in the second "
        f"slot have e^{second:.3g}: ε = {first + second:.3g} where max ε_t = 1"
    )


def pairs_of_an_iteration(_: int) -> str | None:
    """Algorithm 2: a user submits at most three vectors for each of their triples that is drawn.

    Lines 5 to 13 make every user submit for every item: for those they hold, those that friends
    hold, and the rest. Here two friends hold equally many items, none in common, and b triples are
    drawn for each. The cost is counted in vectors of K numbers.
    """
    items, count = 1000, 5
    held = np.zeros((2, items), bool)
    held[0, :count] = held[1, count : 2 * count] = True
    of_friends = held[::-1] & ~held
    rest = ~held & ~of_friends
    triples = of_friends.sum(1) * (held.sum(1) + rest.sum(1))
    submitted = (held | of_friends | rest).sum(1)
    if np.all(submitted <= 3 * count):
        return None
    return (
        f"two friends hold {count} of {items} items each: D_PF and D_FN have {triples[0]} triples "
        f"for each user, b is about {count}, and {submitted[0]} vectors are submitted in every "
        "iteration"
    )


PARTS = (new_ratings, pairs_of_an_iteration, submission, sums_of_both)
