"""Lower bounds on μ and ε from one run with many canaries, for a whole trade-off function f.

The setting is that of `frequentist.one_run`: m canaries, r guesses, V of them correct. An output
is f-DP if for each canary and either of its states every event has probability at most
f̄(x) = 1 − f(x) in one state where it has probability x in the other; f is convex, non-increasing,
f(x) ≤ 1 − x, and symmetric (f⁻¹ = f), as every tight f is.

**Theorem** (Mahloujifar, Melis & Chaudhuri 2024, arXiv:2410.22235). With p_i = P[V = i] and

    R_i = Σ_{j≥i} (j/m) p_j          H_i = Σ_{j≥i} ((r − j)/m) p_j

R_{i+1} ≤ f̄(H_i) for every i. (Flip the coin of canary j: "right on j, V > i" becomes "wrong on j,
V ≥ i"; average over j and the coins, f̄ being concave.) As f̄⁻¹(y) = f(1 − y) for a symmetric f,
H_i ≥ f(1 − R_{i+1}).

Suppose P[V ≥ v] = τ. The recursion starts at R = τ v/m, H = τ (r − v)/m and sets, for i = v − 1
down to 0,

    H' = max(H, f(1 − R))          R' = R + (H' − H) · i/(r − i)

which is the least that the theorem leaves: by induction the true (R_i, H_i) lies in the cone that
(1, −1) and (i, r − i) span at the computed point, so that R + H ≤ R_0 + H_0 = r/m. Where R + H
ends above r/m, no f-DP output has P[V ≥ v] ≥ τ. Whether it does is monotone in τ and in v.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpaudit.bounds.frequentist.one_run import check_guesses, last_rejected
from dpaudit.bounds.model_based.gdp import gaussian_epsilon
from dpaudit.bounds.outcomes import check_alpha, check_delta, check_epsilon, lower_bound
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

TradeOff = Callable[[float], float]

_ROUNDING = 1e-12  # relative, on R + H: never rejected for its rounding
_LEAST = 1e-12  # 1 − R resolves no smaller probabilities


def gaussian_trade_off(mu: float) -> TradeOff:
    """f(x) = Φ(Φ⁻¹(1 − x) − μ), the trade-off of N(0, 1) and N(μ, 1).

    Dong, Roth & Su 2022, Definition 3, arXiv:1905.02383.

    Raises:
        InputError: `mu` is negative or not finite.
    """
    from scipy.special import ndtr, ndtri

    if not 0 <= mu < math.inf:
        raise InputError(f"mu = {mu} is not a finite number of at least 0")
    return lambda x: float(ndtr(ndtri(1 - x) - mu))


def approximate_trade_off(epsilon: float, delta: float) -> TradeOff:
    """f(x) = max(0, 1 − δ − e^ε x, e^−ε (1 − δ − x)), the trade-off of (ε, δ)-DP.

    Wasserman & Zhou 2010, doi:10.1198/jasa.2009.tm08651; Dong, Roth & Su 2022, Proposition 2.5,
    arXiv:1905.02383.

    Raises:
        InputError: ε or δ is out of range.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    up, down = math.exp(epsilon), math.exp(-epsilon)
    return lambda x: max(0.0, 1 - delta - up * x, down * (1 - delta - x))


def one_run_f_p_value(m: int, guesses: int, correct: int, *, trade_off: TradeOff) -> float:
    """The bound on P[V ≥ correct] for an f-DP output: the least τ that the recursion excludes.

    Valid for every auditor with at most `guesses` guesses. Resolved to one part in 10⁹ and not
    below 10⁻¹², always on the safe side.

    Args:
        m: number of canaries, each included independently with probability 1/2.
        guesses: number of guesses r, fixed before the run.
        correct: number v of them that are correct.
        trade_off: f, from the error of the first to that of the second kind: convex, non-increasing
            and symmetric on [0, 1].

    Raises:
        InputError: the numbers are no outcome, or f is visibly no symmetric trade-off function.
    """
    check_guesses(m, guesses, correct)
    _check_trade_off(trade_off)
    m, r, v = int(m), int(guesses), int(correct)

    def excluded(tau: float) -> bool:
        return _excess(m, r, v, tau, lambda y: trade_off(1 - y)) > 0

    if not excluded(1.0):
        return 1.0
    low, high = math.log(_LEAST), 0.0
    if excluded(_LEAST):
        return _LEAST
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if excluded(math.exp(middle)) else (middle, high)
    return math.exp(high)


def one_run_gdp_mu(
    m: int,
    guesses: int,
    correct: int,
    *,
    alpha: float = 0.05,
    confidence: float | None = None,
) -> Estimate:
    """Lower bound on μ if the output is μ-GDP for some μ: the largest μ excluded at τ = α.

    It says nothing of outputs whose trade-off is not Gaussian, hence the kind `assumes-gdp`. The
    point estimate is the μ at which `correct` is the largest mean that the theorem allows with
    i = 0: v/m = f̄((r − v)/m), μ = Φ⁻¹(v/m) − Φ⁻¹((r − v)/m).

    Args:
        m: number of canaries, each included independently with probability 1/2.
        guesses: number of guesses r, fixed before the run.
        correct: number v of them that are correct.
        alpha: the level of the bound.
        confidence: the confidence to state; 1 − α by default.

    Raises:
        InputError: the numbers are no outcome, or `alpha` is out of range.
    """
    check_guesses(m, guesses, correct)
    check_alpha(alpha)
    m, r, v = int(m), int(guesses), int(correct)
    return lower_bound(
        _gdp_mu(m, r, v, alpha),
        value=_gdp_point(m, r, v),
        alpha=alpha,
        confidence=confidence,
        n=m,
        method="one-run f-dp gaussian",
        kind="assumes-gdp",
    )


def one_run_gdp_epsilon(
    m: int,
    guesses: int,
    correct: int,
    *,
    delta: float,
    alpha: float = 0.05,
    confidence: float | None = None,
) -> Estimate:
    """Lower bound on ε at δ > 0 if the output is μ-GDP for some μ: that of `one_run_gdp_mu`.

    ε solves δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ). Dong, Roth & Su 2022, Corollary 2.13,
    arXiv:1905.02383.

    Raises:
        InputError: as `one_run_gdp_mu`, or δ is not in (0, 1).
    """
    check_delta(delta)
    if delta == 0:
        raise InputError("delta = 0.0: a Gaussian trade-off has no finite ε there, use e.g. 1e-5")
    mu = one_run_gdp_mu(m, guesses, correct, alpha=alpha)
    return lower_bound(
        gaussian_epsilon(mu.lower, delta),
        value=gaussian_epsilon(mu.value, delta) if math.isfinite(mu.value) else math.inf,
        alpha=alpha,
        confidence=confidence,
        n=mu.n,
        method=mu.method,
        kind="assumes-gdp",
    )


def _excess(m: int, r: int, v: int, tau: float, inverse: TradeOff) -> float:
    """How far R + H ends above r/m, where `inverse` is f̄⁻¹."""
    right, wrong = tau * v / m, tau * (r - v) / m
    for i in range(v - 1, -1, -1):
        needed = inverse(right)
        if needed <= wrong:
            break  # neither changes from here on
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


def _check_trade_off(trade_off: TradeOff) -> None:
    for x in (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0):
        y = trade_off(x)
        if not 0 <= y <= 1 - x + 1e-9:
            raise InputError(
                f"trade_off({x}) = {y} is not in [0, 1 - {x}]: give the least error of the second "
                "kind of a test whose error of the first kind is at most x"
            )
        if y > 1e-6 and abs(trade_off(y) - x) > 1e-6:
            raise InputError(
                f"trade_off(trade_off({x})) = {trade_off(y)}: give a symmetric function, e.g. the "
                "lower convex hull of f and its inverse"
            )
