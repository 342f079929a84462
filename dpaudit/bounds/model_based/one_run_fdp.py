"""Lower bounds on μ and ε from one run with many canaries, under Gaussian DP.

The setting is that of `frequentist.one_run`: m canaries, r guesses, V of them correct. An output is
f-DP for a trade-off function f if for each canary every event of probability x in one of its states
(in or out) has probability at most f̄(x) = 1 − f(x) in the other. f is convex, non-increasing,
f(x) ≤ 1 − x, and symmetric (f⁻¹ = f), as every tight f is. μ-GDP is f(x) = Φ(Φ⁻¹(1 − x) − μ) (Dong,
Roth & Su 2022, Definition 3, arXiv:1905.02383).

**Theorem** (Mahloujifar, Melis & Chaudhuri 2024, arXiv:2410.22235). With p_i = P[V = i] and

    R_i = Σ_{j≥i} (j/m) p_j          H_i = Σ_{j≥i} ((r − j)/m) p_j

R_{i+1} ≤ f̄(H_i) for every i. (Flipping the coin of canary j turns "right on j, V > i" into "wrong
on j, V ≥ i"; average over j and the coins, as f̄ is concave.) As f̄⁻¹(y) = f(1 − y) for a symmetric
f, H_i ≥ f(1 − R_{i+1}).

Suppose P[V ≥ v] = τ. The recursion starts at R = τ v/m, H = τ (r − v)/m and sets, for i = v − 1
down to 0,

    H' = max(H, f(1 − R))          R' = R + (H' − H) · i/(r − i)

which are the smallest values that the theorem allows: by induction the true (R_i, H_i) lies in the
cone that (1, −1) and (i, r − i) span at the computed point, so that R + H ≤ R_0 + H_0 = r/m. If R +
H ends above r/m, no f-DP output has P[V ≥ v] ≥ τ. This condition is monotone in τ and in v.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpaudit.bounds.frequentist.one_run import check_guesses, last_rejected
from dpaudit.bounds.model_based.gdp import gaussian_epsilon
from dpaudit.bounds.outcomes import check_alpha, check_delta, lower_bound
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

_ROUNDING = 1e-12  # relative tolerance on R + H, so that rounding alone never rejects


def one_run_gdp_mu(m: int, guesses: int, correct: int, *, alpha: float = 0.05) -> Estimate:
    """Return a lower bound on μ of a μ-GDP output: the largest μ excluded at τ = α.

    It does not hold for outputs with another trade-off curve, hence the kind `assumes-gdp`. The
    point estimate is the μ at which `correct` is the largest mean that the theorem allows with
    i = 0: v/m = f̄((r − v)/m), μ = Φ⁻¹(v/m) − Φ⁻¹((r − v)/m).

    Args:
        m: the number of canaries, each included independently with probability 1/2.
        guesses: the number r of guesses, fixed before the run.
        correct: the number v of correct guesses.
        alpha: the level of the bound.

    Raises:
        InputError: the numbers fail `check_guesses`, or `alpha` is out of range.
    """
    check_guesses(m, guesses, correct)
    check_alpha(alpha)
    m, r, v = int(m), int(guesses), int(correct)
    return lower_bound(
        _gdp_mu(m, r, v, alpha),
        value=_gdp_point(m, r, v),
        alpha=alpha,
        n=m,
        method="one-run f-dp gaussian",
        kind="assumes-gdp",
    )


def one_run_gdp_epsilon(
    m: int, guesses: int, correct: int, *, delta: float, alpha: float = 0.05
) -> Estimate:
    """Return a lower bound on ε at δ > 0 of a μ-GDP output: `one_run_gdp_mu` converted to ε.

    ε solves δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ). Dong, Roth & Su 2022, Corollary 2.13,
    arXiv:1905.02383.

    Raises:
        InputError: as `one_run_gdp_mu`, or δ is not in (0, 1).
    """
    check_delta(delta)
    if delta == 0:
        raise InputError("delta = 0.0 has no finite ε under a Gaussian trade-off: use e.g. 1e-5")
    mu = one_run_gdp_mu(m, guesses, correct, alpha=alpha)
    return lower_bound(
        gaussian_epsilon(mu.lower, delta),
        value=gaussian_epsilon(mu.value, delta) if math.isfinite(mu.value) else math.inf,
        alpha=alpha,
        n=mu.n,
        method=mu.method,
        kind="assumes-gdp",
    )


def _excess(m: int, r: int, v: int, tau: float, inverse: Callable[[float], float]) -> float:
    """Return how far R + H ends above r/m; `inverse` is f̄⁻¹."""
    right, wrong = tau * v / m, tau * (r - v) / m
    for i in range(v - 1, -1, -1):
        needed = inverse(right)
        if needed <= wrong:
            break  # R and H no longer change
        right, wrong = min(1.0, right + (needed - wrong) * i / (r - i)), needed
    return right + wrong - r / m * (1 + _ROUNDING)


def _gdp_mu(m: int, r: int, v: int, alpha: float) -> float:
    from scipy.special import ndtr, ndtri

    if v == 0:
        return 0.0

    def margin(mu: float) -> float:
        return _excess(m, r, v, alpha, lambda y: float(ndtr(ndtri(y) - mu)))

    return last_rejected(margin)


def _gdp_point(m: int, r: int, v: int) -> float:
    from scipy.special import ndtri

    if 2 * v <= r:
        return 0.0
    return float(ndtri(v / m) - ndtri((r - v) / m))
