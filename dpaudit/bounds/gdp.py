"""Gaussian differential privacy: its (ε, δ) curve, and lower bounds on its μ.

A mechanism is μ-GDP if distinguishing D from D' is never easier than distinguishing N(0, 1) from
N(μ, 1): every attack has Φ⁻¹(TPR) ≤ Φ⁻¹(FPR) + μ (Dong, Roth, Su 2019, arXiv:1905.02383). A lower
bound on μ comes from error rates that are large enough to count, and is converted to ε at a δ that
is far too small to count. The conversion assumes a Gaussian trade-off curve, hence `assumes-gdp`.
Without this assumption, the bound says only that the mechanism is not μ-GDP for any smaller μ.

**One run.** In the setting of `frequentist.one_run` with m canaries, r guesses and V of them
correct, an output is f-DP for a trade-off function f if for each canary every event of probability
x in one of its states (in or out) has probability at most f̄(x) = 1 − f(x) in the other. f is
convex, non-increasing, f(x) ≤ 1 − x, and symmetric (f⁻¹ = f), as every tight f is. μ-GDP is f(x) =
Φ(Φ⁻¹(1 − x) − μ) (Dong, Roth & Su 2022, Definition 3, arXiv:1905.02383).

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
from dataclasses import dataclass

import numpy as np

from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.intervals import rate_limits
from dpaudit.bounds.frequentist.one_run import check_guesses, last_rejected
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

# The share of α for the rank a quarter from the top, which is near the best one for 0 < μ < 2. The
# other ranks, which matter for strong attacks and for rare large leaks, share the rest.
_MAIN_SHARE = 0.75
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
# The relative tolerance on R + H, so that rounding alone never rejects.
_ROUNDING = 1e-12


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the δ of a μ-GDP mechanism at ε: Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2).

    Balle & Wang 2018, Theorem 8, arXiv:1805.06530, with μ the sensitivity over σ.

    Raises:
        InputError: ε or μ is negative or not finite.
    """
    from scipy.special import log_ndtr

    outcomes.check_epsilon(epsilon)
    _check_mu(mu)
    if mu == 0:
        return 0.0
    # In logarithms, since e^ε overflows while δ is still far from 0.
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    if math.isinf(first) or second >= first:
        return 0.0
    return -math.exp(first) * math.expm1(second - first)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the ε of a μ-GDP mechanism at δ, the inverse of `gaussian_delta`.

    Infinite at δ = 0 for any μ > 0; 0 if the total variation 2Φ(μ/2) − 1 is at most δ.

    Raises:
        InputError: μ is negative or not finite, or δ is out of range.
    """
    from scipy.optimize import brentq

    _check_mu(mu)
    outcomes.check_delta(delta)
    if mu > 0 and delta == 0:
        return math.inf
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    # δ(ε) ≤ Φ(−t) ≤ e^{−t²/2} with t = ε/μ − μ/2.
    high = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    if math.isinf(high):
        return math.inf
    high *= 1 + 1e-9  # covers the rounding of t at a large μ
    return float(brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, high))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the μ whose `gaussian_epsilon` at δ is ε; the largest such μ if ε = 0.

    Raises:
        InputError: ε is negative or not finite, or δ is not in (0, 1).
    """
    from scipy.optimize import brentq

    outcomes.check_epsilon(epsilon)
    _check_positive(delta)
    high = 1.0
    while gaussian_delta(epsilon, high) < delta:
        high *= 2
    return float(brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 0.0, high))


def gdp_epsilon(counts: outcomes.Counts, *, delta: float, alpha: float = 0.05) -> Estimate:
    """Return a lower bound on ε at δ > 0 of a GDP mechanism: `gdp_mu` converted to ε.

    Raises:
        InputError: δ or α is out of range.
    """
    _check_positive(delta)
    return _as_epsilon(gdp_mu(counts, alpha=alpha), delta)


def gdp_mu(counts: outcomes.Counts, *, alpha: float = 0.05) -> Estimate:
    """Return a lower bound on μ from one event: Φ⁻¹(TPR) − Φ⁻¹(FPR), at least 0.

    TPR is replaced by its lower and FPR by its upper Clopper-Pearson limit, at α/2 each. Nasr
    et al. 2023, arXiv:2302.07956.

    Args:
        counts: the attack's outcomes, its event chosen beforehand.
        alpha: the level of the bound.

    Raises:
        InputError: α is out of range.
    """
    tpr, fpr = rate_limits(counts, alpha=alpha)
    return outcomes.lower_bound(
        _shift(tpr, fpr),
        value=_shift(counts.tp / counts.present, counts.fp / counts.absent),
        alpha=alpha,
        n=counts.present + counts.absent,
        method="gdp clopper-pearson",
        kind="assumes-gdp",
    )


def _shift(tpr: float, fpr: float) -> float:
    """Return Φ⁻¹(TPR) − Φ⁻¹(FPR), or 0 if TPR is not larger than FPR."""
    from scipy.special import ndtri

    return float(ndtri(tpr) - ndtri(fpr)) if tpr > fpr else 0.0


def gdp_roc_epsilon(
    absent: outcomes.Scores, present: outcomes.Scores, *, delta: float, alpha: float = 0.05
) -> Estimate:
    """Return a lower bound on ε at δ > 0 of a GDP mechanism: `gdp_roc_mu` converted to ε.

    Raises:
        InputError: a score is not finite, a class is empty, or δ or α is out of range.
    """
    _check_positive(delta)
    return _as_epsilon(gdp_roc_mu(absent, present, alpha=alpha), delta)


def gdp_roc_mu(
    absent: outcomes.Scores, present: outcomes.Scores, *, alpha: float = 0.05
) -> Estimate:
    """Return a lower bound on μ from scores of n trials on D and m on D', high for D'.

    Let N be the number of scores of D' above the k-th largest score of D. For every μ-GDP mechanism

        P(N ≥ t) ≤ p_k(t; μ) = ∫₀¹ Beta(v; k, n − k + 1) P(Binomial(m, Φ(Φ⁻¹(v) + μ)) ≥ t) dv,   (1)

    with equality for Gaussian scores. The test needs no estimated or held-out threshold, and has no
    nuisance rate. The bound is the largest μ with p_k(N; μ) ≤ α_k for one of about 2 log₄ n ranks
    k, which depend on n only. p_k grows with μ, so a bound above the truth means p_k(N; μ) ≤ α_k at
    the true μ for some k, which has probability at most Σ α_k = α. In particular, with equal laws
    on both data sets, a bound above 0 has probability at most α.

    Proof of (1). With s the score of a trial, Q the law of scores on D and W uniform, give the
    trial the level V = Q(S > s) + W·Q(S = s). On D the levels are uniform on (0, 1), and the k-th
    smallest of n has the Beta density in (1). Given that level v, the levels on D' are independent,
    and P(V ≤ v) is the power of the randomised threshold test of size v, at most Φ(Φ⁻¹(v) + μ) by
    μ-GDP. A higher score has a smaller level, so N, which counts ties as below, is at most the
    number of V ≤ v.

    Args:
        absent: independent scores of trials on data set D.
        present: independent scores of trials on data set D'; the number may differ.
        alpha: the level of the bound.

    Returns:
        The bound; its value is the μ at which p_k is ½ at the rank that gave the bound.

    Raises:
        InputError: a score is not finite, a class is empty, or α is out of range.
    """
    outcomes.check_alpha(alpha)
    absent, present = (
        np.sort(outcomes.scores(absent, "absent")),
        np.sort(outcomes.scores(present, "present")),
    )
    tests = []
    for rank, share in ranks(len(absent)):
        above = len(present) - int(np.searchsorted(present, absent[-rank], "right"))
        tests.append((RankTest(rank, len(absent), above, len(present)), alpha * share))
    best, lower = tests[0][0], 0.0
    for test, level in tests:
        bound = test.bound(level, lower)
        if bound > lower:
            best, lower = test, bound
    return outcomes.lower_bound(
        lower,
        value=best.bound(max(0.5, alpha), 0.0),
        alpha=alpha,
        n=len(absent) + len(present),
        method="gdp ranks",
        kind="assumes-gdp",
    )


@dataclass(frozen=True)
class RankTest:
    """The test of μ-GDP behind `gdp_roc_mu`, at one rank.

    Attributes:
        rank: the rank k of the score of D that is the threshold; 1 is the largest.
        n: the number of scores of D.
        above: the number of scores of D' above the threshold.
        m: the number of scores of D'.
    """

    rank: int
    n: int
    above: int
    m: int

    def p_value(self, mu: float) -> float:
        """Return p_k of equation (1) at t = `above`, which grows with μ.

        The integral is over z = Φ⁻¹(v), in which both factors are smooth. Gauss-Legendre panels end
        at quantiles of v and of the rate at which `above` becomes likely, so that neither factor is
        steep within a panel. Tails of 1e-20 are omitted.
        """
        from scipy.special import betainc, betaincinv, betaln, log_ndtr, ndtr, ndtri

        if self.above == 0:
            return 1.0
        v, rate = (self.rank, self.n - self.rank + 1), (self.above, self.m - self.above + 1)
        tails = np.array([1e-20, 1e-14, 1e-9, 1e-5, 1e-3, 0.03, 0.2, 0.5])
        z, turn = (
            # Upper quantiles from 1 − v, which is exact where v rounds to 1.
            np.concatenate((ndtri(betaincinv(a, b, tails)), -ndtri(betaincinv(b, a, tails))))
            for a, b in (v, rate)
        )
        edges = np.unique(np.clip(np.concatenate((z, turn - mu)), z.min(), z.max()))
        half = np.diff(edges)[:, None] / 2
        at = edges[:-1, None] + half * (1 + _NODES)
        log = (v[0] - 1) * log_ndtr(at) + (v[1] - 1) * log_ndtr(-at) - at**2 / 2 - betaln(*v)
        density = np.exp(log) / math.sqrt(2 * math.pi)
        return float(np.sum(half * _WEIGHTS * density * betainc(*rate, ndtr(at + mu))))

    def bound(self, level: float, least: float) -> float:
        """Return the μ at which the p-value is `level`, or `least` if that is larger."""
        from scipy.optimize import brentq

        level = min(level, 1 - 1e-9)  # the quadrature may not reach 1; a lower level is valid
        if self.p_value(least) >= level:
            return least
        high = least + 1
        while self.p_value(high) < level:
            high += 1
        return float(brentq(lambda mu: self.p_value(mu) - level, high - 1, high, xtol=1e-9))


def ranks(n: int) -> list[tuple[int, float]]:
    """Return ranks among n scores, ¼, 1/16, … from either end, with their shares of α."""
    top = [max(1, round((n + 1) / 4))]
    while top[-1] > 1:
        top.append(max(1, round(top[-1] / 4)))
    others = sorted({*top, *(n + 1 - rank for rank in top)} - {top[0]})
    if not others:
        return [(top[0], 1.0)]
    return [(top[0], _MAIN_SHARE), *((rank, (1 - _MAIN_SHARE) / len(others)) for rank in others)]


def one_run_gdp_epsilon(
    m: int, guesses: int, correct: int, *, delta: float, alpha: float = 0.05
) -> Estimate:
    """Return a lower bound on ε at δ > 0 of a μ-GDP output: `one_run_gdp_mu` converted to ε.

    ε solves δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ). Dong, Roth & Su 2022, Corollary 2.13,
    arXiv:1905.02383.

    Raises:
        InputError: as `one_run_gdp_mu`, or δ is not in (0, 1).
    """
    outcomes.check_delta(delta)
    if delta == 0:
        raise InputError("delta = 0.0 has no finite ε under a Gaussian trade-off: use e.g. 1e-5")
    return _as_epsilon(one_run_gdp_mu(m, guesses, correct, alpha=alpha), delta)


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
    from scipy.special import ndtr, ndtri

    check_guesses(m, guesses, correct)
    outcomes.check_alpha(alpha)
    m, r, v = int(m), int(guesses), int(correct)

    def margin(mu: float) -> float:
        return _excess(m, r, v, alpha, lambda y: float(ndtr(ndtri(y) - mu)))

    return outcomes.lower_bound(
        last_rejected(margin) if v else 0.0,
        value=float(ndtri(v / m) - ndtri((r - v) / m)) if 2 * v > r else 0.0,
        alpha=alpha,
        n=m,
        method="one-run f-dp gaussian",
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


def _as_epsilon(mu: Estimate, delta: float) -> Estimate:
    """Convert a bound on μ to ε at δ, which grows with μ."""
    value = gaussian_epsilon(mu.value, delta) if math.isfinite(mu.value) else math.inf
    return mu.changed(value=value, lower=gaussian_epsilon(mu.lower, delta))


def _check_mu(mu: float) -> None:
    if not 0 <= mu < math.inf:
        raise InputError(f"mu = {mu} is not a finite number of at least 0")


def _check_positive(delta: float) -> None:
    outcomes.check_delta(delta)
    if delta == 0:
        raise InputError(
            "delta = 0 has epsilon = infinity for every GDP mechanism with mu > 0: "
            "use a positive delta, e.g. 1e-5"
        )
