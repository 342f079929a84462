"""The privacy loss of the corrected top-k mechanisms about a user's row of the completed matrix.

Also the pairs of neighbours that attain it.

A mechanism shows `k` of `M` candidates with scores `r_i` on a scale of width Δr. The weights are
`w_i = exp(λ(r_i − r_min))`, in [1, H] with `H = e^{λΔr}`.

    joint    P(S) = Π_{i∈S} w_i / e_k(w),  e_k the elementary symmetric sum, S any set of k
    peeling  P(i_1, …, i_k) = Π_t w_{i_t} / Z_t,  Z_t the sum of all weights less those before t

P is the probability under D, and P' that under D'.

**One entry changes by at most d ≤ Δr.** Its weight rises from `a` to `ρa`, with 1 < ρ ≤ e^{λd} and
ρa ≤ H. (If it falls, exchange D and D'.) The other weights do not change.

*Joint.* Let `e_{k−1}` and `e_k` be the elementary symmetric sums of the other weights, of k − 1 and
k factors, and `τ = e_k/e_{k−1}`. The normaliser grows by the factor `(ρa + τ)/(a + τ)`. So a set
without the item has the ratio `P/P' = (ρa + τ)/(a + τ)`, which grows with ρ and a, and falls with
τ. A set with the item has `P'/P = ρ(a + τ)/(ρa + τ)`, which grows with ρ and τ, and falls with a. τ
increases with every weight: the sign of its derivative is that of `E_{k−1}² − E_k E_{k−2}` over the
remaining weights, which is ≥ 0 by Newton's inequality. So τ ranges from `(M−k)/k` to `H(M−k)/k`.
The suprema, both attained if M > k, are therefore

    without   at a = H/ρ, the others lowest:  (H + τ)/(H/ρ + τ),  τ = (M−k)/k
    with      at a = 1, the others highest:   ρ(1 + Hτ)/(ρ + Hτ) = (H + 1/τ)/(H/ρ + 1/τ)

With `s = max(k, M−k)/min(k, M−k)`, the logarithm of the larger is
`g(s) = ln((1 + Hs)/(1 + (H/ρ)s))`. For d = Δr it is `ln(1 + (H−1) max(k, M−k)/M)`.

*Peeling.* `Z_t` grows by `(ρ−1)a` in every round until the item is chosen. Let `R_t ≥ M−t−1` be the
other items' remaining weight in round t = 0 … k−1. A list without the item has
`P/P' = Π_t (ρa + R_t)/(a + R_t)`, which grows with ρ and a, and falls with R_t. Its supremum,
attained if M > k, is at a = H/ρ, the others lowest. A list with the item in round s has
`P'/P = ρ Π_{t≤s} (a + R_t)/(ρa + R_t)`. That is at most its value for s = 0,
`ρ(a + R_0)/(ρa + R_0)`, which falls with a, and grows with ρ and R_0. So its supremum is at a = 1,
the others highest. The inverse `P/P'` of such a list is at most the supremum over the lists without
the item: theirs is a product of factors with the same bounds, has further factors, and lacks the
factor 1/ρ. So

    ε = max( g(M−1), Σ_{t<k} g(1/(M−t−1)) ),   for d = Δr   g(M−1) = ln(1 + (H−1)(M−1)/M)
                                                and the sum  Σ_{t<k} ln(1 + (H−1)/(M−t)).

**Every entry rises by an amount in [0, c]**, which may differ between entries. Then `Π_{i∈S} w_i`
grows by a factor in [1, e^{kcλ}], and so does e_k, a sum of such products. In peeling, the
numerator and the denominator of each of the k factors grow by factors in [1, e^{cλ}]. In both cases
`|ln(P'/P)| ≤ kcλ`.

The textbook's one-shot Gumbel noise of scale `1/λ = 2kΔr/ε` composes k rounds of the exponential
mechanism, with the factor 2 for scores that may change in either direction. Here one entry changes
in one direction, and the scores are bounded. With k = 10, M = 1682, Δr = 4 and ε = 1 the scale is
3.998 instead of 80, and `1/λ` of the joint law is 3.985. For large ε (once H is of the order of M)
the losses of the rounds add up: at ε = 10 peeling's scale is 0.50 instead of 8, and that of the
joint law 0.40.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.data.neighbors import RatingReplaced
from dpaudit.data.ratings import Ratings, Scale, from_profiles

Scores = NDArray[np.float32]
Loss = Callable[[float], float]

# The constructed pairs of neighbours: names and descriptions.
ENTRY_PAIRS = {
    "last-ranked": "the prediction that ranks last becomes the highest possible one",
    "among-best": "one prediction goes from the lowest to the highest, where all others are",
    "among-worst": "one prediction goes from the lowest, where all others are, to the highest",
}
RATING_PAIRS = {
    "own-rating": (
        "one of the user's own ratings rises from the lowest to the highest; it moves the k lowest "
        "predictions and hardly the others"
    )
}


def entry_loss(x: float, y: float, log_s: ArrayLike) -> NDArray[np.float64]:
    """Return `g(s) = ln((1 + Hs)/(1 + (H/ρ)s))` for each `ln s`, with `H = e^x` and `ρ = e^y`."""
    # ln(1 + (ρ − 1)σ) with σ = (H/ρ)s / (1 + (H/ρ)s)
    odds = x - y + np.asarray(log_s, dtype=np.float64)
    if y < 1:
        return np.log1p(np.expm1(y) * np.exp(-np.logaddexp(0.0, -odds)))
    return np.logaddexp(-np.logaddexp(0.0, odds), y - np.logaddexp(0.0, -odds))


def joint_loss(x: float, y: float, items: int, k: int) -> float:
    """Return the ε of the joint law if one of `items` entries moves by d; x = λΔr, y = λd."""
    small, large = sorted((k, items - k))
    with np.errstate(divide="ignore"):
        return float(entry_loss(x, y, np.log(large) - np.log(small)))


def peeling_loss(x: float, y: float, items: int, k: int) -> float:
    """Return the ε of peeling if one of `items` entries moves by d; x = λΔr, y = λd."""
    with np.errstate(divide="ignore"):
        chosen = entry_loss(x, y, np.log(items - 1))
        passed = entry_loss(x, y, -np.log(items - 1 - np.arange(k))).sum()
    return float(max(chosen, passed))


def largest_rate(loss: Loss, epsilon: float, upper: float) -> float:
    """Find the largest λ with `loss(λ) ≤ epsilon`, by bisection.

    Args:
        loss: the ε of a mechanism as an increasing function of its rate λ.
        epsilon: the ε to keep.
        upper: a λ with a loss of at least `epsilon`.
    """
    low, high = 0.0, upper
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return low
        low, high = (middle, high) if loss(middle) <= epsilon else (low, middle)


def entry_rows(name: str, k: int, scale: Scale) -> tuple[Scores, Scores]:
    """Return the rows in D and D': entry 0 of `max(40, 4k)` rises from the lowest to the highest.

    In `last-ranked` the other entries are spread evenly inside the scale. In the other two pairs
    they are all highest or all lowest, so that the bounds are attained.
    """
    low, high = scale.minimum, scale.maximum
    items = max(40, 4 * k)
    others = {
        "last-ranked": np.linspace(high, low, items + 1)[1:-1],
        "among-best": np.full(items - 1, high),
        "among-worst": np.full(items - 1, low),
    }[name]
    before, after = (np.append(end, others).astype(np.float32) for end in (low, high))
    return before, after


def own_rating(least: int, k: int, phi: int, scale: Scale) -> tuple[Ratings, RatingReplaced]:
    """Return data and a change of user 0's rating of item 0 that moves `k` of `10k` predictions.

    User 0 rates items 0 … T − 1, T = `least`. Nobody has rated the next k items, so their terms
    follow the rating of item 0. The other items are rated highest by `20 phi` users (at most 200)
    who rate item 0 lowest, so their terms of item 0 stay near the top of the scale.
    """
    low, high, first = scale.minimum, scale.maximum, least + k
    middle = float(scale.values[len(scale.values) // 2])
    target = [(0, low), *((j, middle) for j in range(1, least))]
    other = [(0, low), *((j, high) for j in range(first, first + 9 * k))]
    users = [target, *[other] * min(20 * phi, 200)]
    return from_profiles(users, first + 9 * k, scale), RatingReplaced(0, 0, high)
