"""Lower bounds on ε from log-likelihood ratios of the outputs, by betting on the trials in order.

Let P be the output law on D' and Q that on D.

- `likelihood_epsilon` rests on L = ln dP/dQ. δ(ε) = E_P[(1 − e^{ε−L})_+] is the smallest δ for
  which P ≤ e^ε Q + δ on every event. Trials on D' suffice to estimate it. The bound is invalid if L
  is wrong.
- `two_sample_epsilon` is valid for any score. Under (ε, δ)-DP every test h of the output with
  values in [0, 1] has E_P[h] − e^ε E_Q[h] ≤ δ, so h = 1{L ≥ τ} gives a valid bound for any L. The
  difference is largest, and equals δ(ε), for the true L and τ = ε. Only earlier trials decide the
  stake and τ.

`dpaudit.bounds.frequentist.means` describes the stakes and proves that the rejected candidates form
an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.frequentist.means import LOSS, Stakes, block_starts, grows, last_held, stakes
from dpaudit.bounds.outcomes import check_alpha, check_delta, lower_bound
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Values = NDArray[np.float64]

# Plan once this many trials, and this share of all, are known, and again at each doubling.
_FIRST, _FIRST_SHARE = 16, 1 / 16
# Halvings of the interval in the search for a bound on ε.
_HALVINGS = 11
# A plan of events shifts each estimated probability against the claim by this many standard errors.
_CAUTION = 1.2
# The number of candidate events of a plan.
_EVENTS = 256


def likelihood_epsilon(
    log_ratio: ArrayLike, *, delta: float = 0.0, alpha: float = 0.05
) -> Estimate:
    """Return a lower bound on ε at δ if L is the true log-likelihood ratio (kind `assumes-law`).

    An ε is certified if the wealth of a bet on E[(1 − e^{ε−L})_+] > δ grows from α to 1. If the
    mechanism is (ε*, δ)-DP, the mean is at most δ at ε*, and the wealth there is a supermartingale.
    The values fall with ε, the plan does not depend on ε, and the wealth grows with the values. So
    a bound above ε* implies that ε* is certified too, which has probability at most α. No level is
    split. At δ = 0, ε is the essential supremum of L, and each L is a lower bound with certainty.
    Steinke 2022, arXiv:2210.00597, Proposition 7; betting after Waudby-Smith & Ramdas 2024,
    arXiv:2010.09686.

    Args:
        log_ratio: L = ln(dP/dQ) at outputs of P, in the order of the trials; `inf` where Q has no
            mass; shape (n,).
        delta: the δ, in [0, 1).
        alpha: the level of the bound.

    Raises:
        InputError: a ratio is NaN, or a parameter is out of range.
    """
    check_delta(delta)
    check_alpha(alpha)
    ratio = _log_ratios(log_ratio, "log_ratio")
    n = len(ratio)

    def estimate(lower: float, value: float) -> Estimate:
        return lower_bound(
            lower, value=value, alpha=alpha, n=n, method="likelihood betting", kind="assumes-law"
        )

    if delta == 0:
        largest = float(ratio.max(initial=0))
        return estimate(largest, largest)
    plan = stakes(block_starts(n), _planned_variances(ratio, delta), n)
    shares = np.minimum(plan.shares, LOSS / delta)
    bets = plan.per_value(shares)

    def certified(epsilon: float) -> bool:
        return grows(1 + bets * (_excess(ratio, epsilon) - delta), shares, plan, alpha)

    def plausible(epsilon: float) -> bool:
        return float(np.mean(_excess(ratio, epsilon))) > delta

    top = _largest_finite(ratio)

    def largest_where(holds: Callable[[float], bool]) -> float:
        if holds(math.inf):
            return math.inf
        return last_held(holds, top, top / 8, _HALVINGS)

    return estimate(largest_where(certified), largest_where(plausible))


def _log_ratios(values: ArrayLike, name: str) -> Values:
    """Return the log-likelihood ratios of one class as an array of numbers or ±inf."""
    try:
        ratios = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} are not numbers: {error}") from error
    if ratios.ndim != 1 or not len(ratios):
        raise InputError(f"{name} have shape {ratios.shape}: give at least one, one per trial")
    bad = np.flatnonzero(np.isnan(ratios))
    if len(bad):
        raise InputError(f"{name}[{bad[0]}] = nan is not a number: use 0 for no evidence")
    return ratios


def _largest_finite(ratio: Values) -> float:
    return float(ratio[np.isfinite(ratio)].max(initial=0))


def _excess(log_ratio: Values, epsilon: float) -> Values:
    """Return (1 − e^{ε−L})_+, in [0, 1]."""
    if epsilon == math.inf:
        return np.asarray(log_ratio == math.inf, dtype=np.float64)
    return -np.expm1(np.minimum(epsilon - log_ratio, 0))


def _plan_times(starts: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """Return for each block the number of earlier trials that its plan uses; 0: no plan yet."""
    first = max(_FIRST, n * _FIRST_SHARE)
    doublings = 2 ** np.floor(np.log2(np.maximum(starts, 1) / first)) * first
    later = np.where(starts < first, 0, doublings).astype(int)
    # The plan is made at the first block that starts after this many trials.
    return np.array([starts[np.argmax(later == t)] if t else 0 for t in later])


def _planned_variances(log_ratio: Values, delta: float) -> Values:
    """Predict the variance of (1 − e^{ε−L})_+ in each block, at the largest plausible ε."""
    n = len(log_ratio)
    times = _plan_times(block_starts(n), n)
    variances = {0: math.inf}
    for t in set(times.tolist()) - {0}:
        ratio = log_ratio[:t]
        top = _largest_finite(ratio)
        variance = _moments(ratio, last_held(partial(_within, ratio, delta), top, top / 8))[1]
        variances[t] = variance if variance > 0 else math.inf
    return np.array([variances[t] for t in times.tolist()])


def _moments(log_ratio: Values, epsilon: float) -> tuple[float, float]:
    """Return mean and variance of (1 − e^{ε−L})_+, the latter with one more extreme value."""
    values = _excess(log_ratio, epsilon)
    return float(values.mean()), float(values.var() + values.max() ** 2 / (4 * len(values)))


def _within(log_ratio: Values, delta: float, epsilon: float) -> bool:
    """Return whether the mean exceeds δ by two standard errors."""
    mean, variance = _moments(log_ratio, epsilon)
    return mean - 2 * math.sqrt(variance / len(log_ratio)) > delta


def two_sample_epsilon(
    log_ratio_present: ArrayLike,
    log_ratio_absent: ArrayLike,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
) -> Estimate:
    """Return a lower bound on ε at δ from trials on both data sets (kind `frequentist`).

    It is valid for any L. (ε, δ)-DP says E_P[h] − e^ε E_Q[h] ≤ δ for each test h with values in
    [0, 1]. Pair i consists of an output x_i on D' and an output y_i on D (or of means over a group
    if the classes differ in size). Earlier pairs choose the event h_j of block j. With A = e^ε,
    λ_j ≤ (1 − c)/δ independent of A, and λ_j(A) = min(λ_j, c/A),

        factor_i = 1 + λ_j(A) (h_j(x_i) − A h_j(y_i)) − λ_j δ ≥ 0

    has mean at most 1 + (λ_j(A) − λ_j) δ ≤ 1 under (ε, δ)-DP, and falls with A. So do the gains of
    part 2 in `frequentist.means`: where the cap binds, a block's product is a polynomial in 1/A
    with non-negative coefficients and a constant term of at most 1. Hence the certified ε form an
    interval, and one level covers both means. Betting after Waudby-Smith & Ramdas 2024,
    arXiv:2010.09686; other martingales for this purpose: Gonzalez et al. 2025, arXiv:2509.07055.

    Args:
        log_ratio_present: L, or any score, of trials on D' in their order; if its law has atoms,
            round L to a grid, so that rounding errors do not split them; shape (n,).
        log_ratio_absent: the same for trials on D; shape (n',). Of the larger class, trials beyond
            the largest multiple of the smaller class's size are not used.
        delta: the δ, in [0, 1).
        alpha: the level of the bound.

    Raises:
        InputError: a ratio is NaN, or a parameter is out of range.
    """
    check_delta(delta)
    check_alpha(alpha)
    pairs = _PairedTrials(log_ratio_present, log_ratio_absent)
    plan, thresholds = _event_plan(pairs, delta)
    share = np.minimum(plan.shares, (1 - LOSS) / delta if delta else math.inf)
    per_value = plan.per_value
    present, absent = pairs.hits(per_value(thresholds))
    loss = per_value(share) * delta

    def certified(epsilon: float) -> bool:
        factor = math.exp(epsilon)
        capped = np.minimum(share, LOSS / factor)
        factors = 1 + per_value(capped) * (present - factor * absent) - loss
        return grows(factors, capped, plan, alpha)

    # Growth by 1/α needs Σ λ h ≥ ln(1/α) with λ ≤ c/A: no larger A can be certified.
    reach = LOSS * float(present.sum()) / -math.log(alpha)
    top = math.log(max(reach, 1.0))
    p, q = (float(hits.mean()) for hits in pairs.hits(thresholds[-1]))
    return lower_bound(
        last_held(certified, top, top / 8, _HALVINGS),
        value=0.0 if p <= delta else math.log((p - delta) / q) if q > 0 else math.inf,
        alpha=alpha,
        n=pairs.n,
        method="two-sample betting",
    )


class _PairedTrials:
    """Checked scores of trials on both data sets, paired in order.

    The larger class is divided into n groups, n being the size of the smaller class. The shapes are
    (g, n); for the smaller class g is 1.
    """

    def __init__(self, present: ArrayLike, absent: ArrayLike) -> None:
        classes = _log_ratios(present, "log_ratio_present"), _log_ratios(absent, "log_ratio_absent")
        self.n = n = min(map(len, classes))
        self.present, self.absent = (
            scores[: len(scores) // n * n].reshape(-1, n) for scores in classes
        )

    def hits(self, threshold: float | Values) -> tuple[Values, Values]:
        """Return each pair's share of outputs with L ≥ threshold, on D' and on D; (n,)."""
        return (self.present >= threshold).mean(0), (self.absent >= threshold).mean(0)


def _event_plan(pairs: _PairedTrials, delta: float) -> tuple[Stakes, Values]:
    """Choose each block's event L ≥ τ from earlier trials; return the stakes, and τ `(J,)`."""
    starts = block_starts(pairs.n)
    times = _plan_times(starts, pairs.n).tolist()
    events = {0: (math.inf, math.inf)}
    events |= {t: _best_event(pairs, t, delta) for t in set(times) - {0}}
    thresholds, variances = (np.array(of) for of in zip(*(events[t] for t in times), strict=True))
    return stakes(starts, variances, pairs.n), thresholds


def _best_event(pairs: _PairedTrials, t: int, delta: float) -> tuple[float, float]:
    """Return τ of the best event of the first t pairs, and the variance to plan stakes for.

    The best event has the largest (p − δ)/q, with p `_CAUTION` standard errors below the estimate
    of E_P[h] and q as many above that of E_Q[h]. If an event never occurred on data set D, the
    standard error is that of one occurrence.
    """
    seen = np.unique(pairs.present[:, :t])
    events = seen[np.unique(np.linspace(0, len(seen) - 1, _EVENTS).astype(int))]
    (p, pp), (q, qq) = (_tail_moments(x[:, :t], events) for x in (pairs.present, pairs.absent))
    qq[qq == 0] = 1 / (t * len(pairs.absent))
    low, high = p - _CAUTION * np.sqrt(pp / t), q + _CAUTION * np.sqrt(qq / t)
    best = int(np.argmax((low - delta) / high))
    factor = max(1.0, (low[best] - delta) / high[best])
    variance = pp[best] + factor**2 * qq[best]
    return float(events[best]), float(variance) if variance > 0 else math.inf


def _tail_moments(ratio: Values, events: Values) -> tuple[Values, Values]:
    """Return the mean and the second moment (of a group's mean) of 1{L ≥ τ} for each τ."""
    groups, t = ratio.shape
    above = ratio.size - np.searchsorted(np.sort(ratio, axis=None), events, "left")
    mean = above / (groups * t)
    return mean, mean / groups
