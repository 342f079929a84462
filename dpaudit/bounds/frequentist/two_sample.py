"""Lower bounds on ε from trials on both data sets, valid for any score.

Under (ε, δ)-DP every test h of the output with values in [0, 1] has E_P[h] − e^ε E_Q[h] ≤ δ, with P
the output law on D' and Q that on D. So h = 1{L ≥ τ} gives a valid bound for any L. The difference
is largest, and equals δ(ε), for L = ln dP/dQ and τ = ε. Only earlier trials decide the stake and τ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.frequentist.likelihood import HALVINGS, log_ratios, plan_times, weights
from dpaudit.bounds.frequentist.means import LOSS, Stakes, block_starts, grows, last_held, stakes
from dpaudit.bounds.outcomes import check_alpha, check_delta, lower_bound
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Values = NDArray[np.float64]
Bound = float | Callable[[float], float]

# A plan shifts each estimated probability against the claim by this many standard errors.
_CAUTION = 1.2
# The number of candidate events of a plan.
_EVENTS = 256


@dataclass(frozen=True)
class _PairedTrials:
    """Paired trials on both data sets, their weights, and a bound on the weights of data set D.

    The larger class is divided into n groups, n being the size of the smaller class. The shapes are
    (g, n); for the smaller class g is 1.
    """

    present: Values
    absent: Values
    present_weight: Values
    absent_weight: Values
    bound: Bound

    @property
    def n(self) -> int:
        return self.present.shape[1]

    def most(self, threshold: float) -> float:
        """Return a bound on the weights of the outputs on data set D with L ≥ threshold."""
        bound = self.bound(threshold) if callable(self.bound) else self.bound
        hit = self.absent_weight[self.absent >= threshold]
        if not 0 < bound < math.inf or hit.max(initial=0) > bound:
            raise InputError(
                f"weight_absent_bound = {bound} does not bound a weight_absent of "
                f"{hit.max(initial=0)} at L >= {threshold}: give a valid, finite bound"
            )
        return float(bound)

    def hits(self, threshold: float | Values) -> tuple[Values, Values]:
        """Return each pair's weighted share of outputs with L ≥ threshold, on D' and on D; (n,)."""
        return (
            ((self.present >= threshold) * self.present_weight).mean(0),
            ((self.absent >= threshold) * self.absent_weight).mean(0),
        )


def _paired(
    present: ArrayLike,
    absent: ArrayLike,
    weight_present: ArrayLike | None,
    weight_absent: ArrayLike | None,
    bound: Bound | None,
) -> tuple[_PairedTrials, Literal["frequentist", "assumes-law"]]:
    """Return the checked trials, paired in order, and the kind of their bound."""
    p, q = log_ratios(present, "log_ratio_present"), log_ratios(absent, "log_ratio_absent")
    wp = weights(weight_present, p, "weight_present")
    wq = weights(weight_absent, q, "weight_absent")
    if (weight_absent is None) != (bound is None):
        raise InputError(
            f"weight_absent_bound = {bound}: give it together with weight_absent, or neither"
        )
    n = min(len(p), len(q))
    p, q, wp, wq = (x[: len(x) // n * n].reshape(-1, n) for x in (p, q, wp, wq))
    weighted = weight_present is not None or weight_absent is not None
    pairs = _PairedTrials(p, q, wp, wq, 1.0 if bound is None else bound)
    return pairs, "assumes-law" if weighted else "frequentist"


@dataclass(frozen=True)
class _Plan:
    """The bet of each block: the stakes, τ of the event L ≥ τ, bounds of weights; shape (J,)."""

    stakes: Stakes
    thresholds: Values
    bounds: Values


def _plan(pairs: _PairedTrials, delta: float) -> _Plan:
    """Choose each block's event from earlier trials.

    The best event has the largest (p − δ)/q, with p `_CAUTION` standard errors below the estimate
    of E_P[h] and q as many above that of E_Q[h]. If an event never occurred on data set D, the
    standard error is that of one occurrence with its weight at the bound.
    """
    starts = block_starts(pairs.n)
    times = plan_times(starts, pairs.n)
    plans = {0: (math.inf, 1.0, math.inf)}  # threshold, bound of the weight, variance
    for t in sorted(set(times.tolist()) - {0}):
        seen = np.unique(pairs.present[:, :t])
        events = seen[np.unique(np.linspace(0, len(seen) - 1, _EVENTS).astype(int))]
        (p, pp), (q, qq) = (
            _tail_moments(x[:, :t], w[:, :t], events)
            for x, w in ((pairs.present, pairs.present_weight), (pairs.absent, pairs.absent_weight))
        )
        never = qq == 0
        most = np.array([pairs.most(event) for event in events[never].tolist()])
        qq[never] = most**2 / (t * len(pairs.absent))
        low, high = p - _CAUTION * np.sqrt(pp / t), q + _CAUTION * np.sqrt(qq / t)
        best = int(np.argmax((low - delta) / high))
        factor = max(1.0, (low[best] - delta) / high[best])
        variance = pp[best] + factor**2 * qq[best]
        event = float(events[best])
        plans[t] = (event, pairs.most(event), variance if variance > 0 else math.inf)
    threshold, bound, variance = (
        np.array(x) for x in zip(*(plans[t] for t in times.tolist()), strict=True)
    )
    return _Plan(stakes(starts, variance, pairs.n), threshold, bound)


def _tail_moments(ratio: Values, weight: Values, events: Values) -> tuple[Values, Values]:
    """Return the mean and the second moment (of a group's mean) of w 1{L ≥ τ} for each τ."""
    groups, t = ratio.shape
    order = np.argsort(ratio, axis=None, kind="stable")[::-1]
    sorted_, w = ratio.ravel()[order], weight.ravel()[order]
    above = len(sorted_) - np.searchsorted(sorted_[::-1], events, "left")
    first, second = (np.append(0, np.cumsum(w**k))[above] / (groups * t) for k in (1, 2))
    return first, second / groups


def two_sample_epsilon(
    log_ratio_present: ArrayLike,
    log_ratio_absent: ArrayLike,
    *,
    delta: float = 0.0,
    weight_present: ArrayLike | None = None,
    weight_absent: ArrayLike | None = None,
    weight_absent_bound: Bound | None = None,
    alpha: float = 0.05,
) -> Estimate:
    """Return a lower bound on ε at δ from trials on both data sets (kind `frequentist`).

    It is valid for any L. (ε, δ)-DP says E_P[h] − e^ε E_Q[h] ≤ δ for each test h with values in
    [0, 1]. Pair i consists of an output x_i on D' and an output y_i on D (or of means over a group
    if the classes differ in size). Earlier pairs choose the event h_j of block j. With A = e^ε, the
    bound W_j of the weights, λ_j ≤ (1 − c)/δ independent of A, and λ_j(A) = min(λ_j, c/(A W_j)),

        factor_i = 1 + λ_j(A) (h_j(x_i) w_i − A h_j(y_i) w'_i) − λ_j δ ≥ 0

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
        weight_present: dP/dR of trials on D' under a proposal R for the noise, ≥ 0. With weights
            the bound assumes the noise's law (kind `assumes-law`), but not L.
        weight_absent: the same for D.
        weight_absent_bound: largest possible weight for D where L ≥ τ, as a number or as a
            non-increasing function of τ; required with `weight_absent`. A single number, such as
            that of a proposal, is usually too large to certify anything.
        alpha: the level of the bound.

    Raises:
        InputError: a ratio is NaN, a weight is negative or above its bound, shapes differ, or a
            parameter is out of range.
    """
    check_delta(delta)
    check_alpha(alpha)
    pairs, kind = _paired(
        log_ratio_present, log_ratio_absent, weight_present, weight_absent, weight_absent_bound
    )
    plan = _plan(pairs, delta)
    share = np.minimum(plan.stakes.shares, (1 - LOSS) / delta if delta else math.inf)
    per_value = plan.stakes.per_value
    present, absent = pairs.hits(per_value(plan.thresholds))
    loss = per_value(share) * delta

    def certified(epsilon: float) -> bool:
        factor = math.exp(epsilon)
        capped = np.minimum(share, LOSS / (factor * plan.bounds))
        factors = 1 + per_value(capped) * (present - factor * absent) - loss
        return grows(factors, capped, plan.stakes, alpha)

    # Growth by 1/α needs Σ λ h w ≥ ln(1/α) with λ ≤ c/(A W): no larger A can be certified.
    reach = LOSS * float((present / per_value(plan.bounds)).sum()) / -math.log(alpha)
    top = math.log(max(reach, 1.0))
    p, q = (float(x.mean()) for x in pairs.hits(plan.thresholds[-1]))
    return lower_bound(
        last_held(certified, top, top / 8, HALVINGS),
        value=0.0 if p <= delta else math.log((p - delta) / q) if q > 0 else math.inf,
        alpha=alpha,
        n=pairs.n,
        method="two-sample betting",
        kind=kind,
    )
