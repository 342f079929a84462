"""What the corrected top-k mechanisms reveal of a user's row of the completed matrix.

Of `M` candidates with scores `r_i` on a scale of width Δr a mechanism shows `k`. The weights are
`w_i = exp(λ(r_i − r_min))`, in [1, H] with `H = e^{λΔr}`.

    joint    P(S) = Π_{i∈S} w_i / e_k(w),  e_k the elementary symmetric sum, S any set of k
    peeling  P(i_1, …, i_k) = Π_t w_{i_t} / Z_t,  Z_t the sum of all weights less those before t

**One entry moves by at most d ≤ Δr.** Its weight rises from `a` to `ρa`, 1 < ρ ≤ e^{λd} and
ρa ≤ H (a fall is the same with the two worlds exchanged). The other weights do not move.

*Joint.* With `e_{k−1}`, `e_k` of the other weights and `τ = e_k/e_{k−1}` the normaliser grows by
`(ρa + τ)/(a + τ)`. So a set without the item has the ratio `P/P' = (ρa + τ)/(a + τ)`: it grows with
ρ and a, and falls with τ. A set with it has `P'/P = ρ(a + τ)/(ρa + τ)`: it grows with ρ and τ, and
falls with a. τ increases with every weight: the sign of its derivative is that of
`E_{k−1}² − E_k E_{k−2}` over the rest, ≥ 0 by Newton's inequality. Its ends are `(M−k)/k` and
`H(M−k)/k`. The suprema, both attained if M > k, are therefore those at

    without   a = H/ρ, the others lowest:  (H + τ)/(H/ρ + τ),  τ = (M−k)/k
    with      a = 1, the others highest:   ρ(1 + Hτ)/(ρ + Hτ) = (H + 1/τ)/(H/ρ + 1/τ)

and, with `s = max(k, M−k)/min(k, M−k)`, the larger is `g(s) = ln((1 + Hs)/(1 + (H/ρ)s))`.
For d = Δr it is `ln(1 + (H−1) max(k, M−k)/M)`.

*Peeling.* `Z_t` grows by `(ρ−1)a` in every round until the item is chosen. A list without it has
`P/P' = Π_t (ρa + R_t)/(a + R_t)`, `R_t ≥ M−t−1` the others' weight left in round t = 0 … k−1. It
grows with ρ and a, and falls with R_t: the supremum, attained if M > k, is at a = H/ρ, the others
lowest. A list with it in round s has `P'/P = ρ Π_{t≤s} (a + R_t)/(ρa + R_t)`. That is at most its
value for s = 0, `ρ(a + R_0)/(ρa + R_0)`: it falls with a and grows with ρ and R_0, so the supremum
is at a = 1, the others highest. The inverse `P/P'` of such a list is at most that of the lists
without it: those have the same bounds on the same factors, further ones, and no 1/ρ. So

    ε = max( g(M−1), Σ_{t<k} g(1/(M−t−1)) ),   for d = Δr   g(M−1) = ln(1 + (H−1)(M−1)/M)
                                                and the sum  Σ_{t<k} ln(1 + (H−1)/(M−t)).

**Every entry rises by some amount in [0, c]**, not all by the same. Then `Π_{i∈S} w_i` grows by a
factor in [1, e^{kcλ}], and so does e_k, a sum of such products. Of peeling's k factors the
numerators and the denominators grow by factors in [1, e^{cλ}]. Either way `|ln(P'/P)| ≤ kcλ`.

The textbook's one-shot Gumbel noise of scale `1/λ = 2kΔr/ε` composes k rounds of the exponential
mechanism with the factor 2 for scores that may move in either direction. Here one entry moves in
one direction and the scores are bounded: with k = 10, M = 1682, Δr = 4 and ε = 1 the scale is 3.998
in place of 80, and `1/λ` of the joint law 3.985. For large ε (from H of the order of M on) rounds
add up: at ε = 10 peeling's scale is 0.50 in place of 8, the joint law's 0.40.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Loss = Callable[[float], float]


def entry_loss(x: float, y: float, log_s: ArrayLike) -> NDArray[np.float64]:
    """`g(s) = ln((1 + Hs)/(1 + (H/ρ)s))` with `H = e^x` and `ρ = e^y`, for each `ln s`."""
    # ln(1 + (ρ − 1)σ) with σ = (H/ρ)s / (1 + (H/ρ)s)
    odds = x - y + np.asarray(log_s, dtype=np.float64)
    if y < 1:
        return np.log1p(np.expm1(y) * np.exp(-np.logaddexp(0.0, -odds)))
    return np.logaddexp(-np.logaddexp(0.0, odds), y - np.logaddexp(0.0, -odds))


def joint_loss(x: float, y: float, items: int, k: int) -> float:
    """The ε of the joint law where one of `items` entries moves by `d`; `x = λΔr`, `y = λd`."""
    small, large = sorted((k, items - k))
    with np.errstate(divide="ignore"):
        return float(entry_loss(x, y, np.log(large) - np.log(small)))


def peeling_loss(x: float, y: float, items: int, k: int) -> float:
    """The ε of peeling where one of `items` entries moves by `d`; `x = λΔr`, `y = λd`."""
    with np.errstate(divide="ignore"):
        chosen = entry_loss(x, y, np.log(items - 1))
        passed = entry_loss(x, y, -np.log(items - 1 - np.arange(k))).sum()
    return float(max(chosen, passed))


def largest_rate(loss: Loss, epsilon: float, upper: float) -> float:
    """The largest λ with `loss(λ) ≤ epsilon`, by bisection; `loss` increases.

    Args:
        loss: the ε of a mechanism with rate λ.
        epsilon: the ε to keep.
        upper: a λ with a loss of at least `epsilon`.
    """
    low, high = 0.0, upper
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return low
        low, high = (middle, high) if loss(middle) <= epsilon else (low, middle)
