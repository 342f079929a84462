"""Lower bounds on ε and δ from real runs of both trials, valid for any score.

Under (ε, δ)-DP every test h of the output with values in [0, 1] has E_P[h] − e^ε E_Q[h] ≤ δ, with P
the law of D' and Q that of D. So h = 1{L ≥ τ} certifies whatever L is; for L = ln dP/dQ and τ = ε
both sides meet at δ(ε). What is staked, and on which τ, is decided by earlier trials only.
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

# How many standard errors a planned probability is kept on the wrong side of what trials show.
_CAUTION = 1.2
# Events among which a plan chooses.
_EVENTS = 256


@dataclass(frozen=True)
class _Pairs:
    """Trials of both trials side by side, and weights with the bound on those of data set D.

    The larger class is cut into as many groups as the smaller one has members; the shapes are
    (g, n), one of the two g is 1.
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
        """A bound on the weights of the outputs of data set D with L at or above the threshold."""
        bound = self.bound(threshold) if callable(self.bound) else self.bound
        hit = self.absent_weight[self.absent >= threshold]
        if not 0 < bound < math.inf or hit.max(initial=0) > bound:
            raise InputError(
                f"weight_absent_bound = {bound} does not bound a weight_absent of "
                f"{hit.max(initial=0)} at L >= {threshold}: give a true, finite bound"
            )
        return float(bound)

    def hits(self, threshold: float | Values) -> tuple[Values, Values]:
        """Weighted share of each trial's runs with L ≥ threshold, in D' and in D; shapes (n,)."""
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
) -> tuple[_Pairs, Literal["frequentist", "assumes-law"]]:
    """Checked trials, paired in order, and the kind of what they certify."""
    p, q = log_ratios(present, "log_ratio_present"), log_ratios(absent, "log_ratio_absent")
    wp = weights(weight_present, p, "weight_present")
    wq = weights(weight_absent, q, "weight_absent")
    if (weight_absent is None) != (bound is None):
        raise InputError(
            f"weight_absent_bound = {bound}: give it with weight_absent, and only then"
        )
    n = min(len(p), len(q))
    p, q, wp, wq = (x[: len(x) // n * n].reshape(-1, n) for x in (p, q, wp, wq))
    weighted = weight_present is not None or weight_absent is not None
    pairs = _Pairs(p, q, wp, wq, 1.0 if bound is None else bound)
    return pairs, "assumes-law" if weighted else "frequentist"


@dataclass(frozen=True)
class _Plan:
    """What is bet in each block: the event L ≥ τ, and the stakes; arrays have shape (J,)."""

    stakes: Stakes
    thresholds: Values
    bounds: Values


def _plan(pairs: _Pairs, delta: float) -> _Plan:
    """For each block the event that earlier trials recommend.

    With E_P[h] and E_Q[h] kept `_CAUTION` standard errors below and above their estimates p and q,
    the best event has the largest (p − δ)/q. An event never seen in data set D counts as seen once
    in all, with a weight at its bound.
    """
    starts = block_starts(pairs.n)
    times = plan_times(starts, pairs.n)
    plans = {0: (math.inf, 1.0, math.inf)}  # threshold, bound of the weight, variance
    for t in sorted(set(times.tolist()) - {0}):
        seen = np.unique(pairs.present[:, :t])
        events = seen[np.unique(np.linspace(0, len(seen) - 1, _EVENTS).astype(int))]
        (p, pp), (q, qq) = (
            _tail_moments(x[:, :t], w[:, :t], events)
            for x, w in (
                (pairs.present, pairs.present_weight),
                (pairs.absent, pairs.absent_weight),
            )
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
    """Mean and second moment (of a trial's mean) of w 1{L ≥ τ} for each τ."""
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
    confidence: float | None = None,
) -> Estimate:
    """Lower bound on ε at δ from runs of both trials, valid for any L (kind `frequentist`).

    (ε, δ)-DP says E_P[h] − e^ε E_Q[h] ≤ δ for each test h with values in [0, 1]. Trial i pairs a
    run x_i of D' with one of D, y_i (or the mean over a group, where the classes differ in size);
    the event h_j of block j is chosen by earlier trials. With A = e^ε, the bound W_j of the
    weights, λ_j ≤ (1 − c)/δ free of A and λ_j(A) = min(λ_j, c/(A W_j)),

        factor_i = 1 + λ_j(A) (h_j(x_i) w_i − A h_j(y_i) w'_i) − λ_j δ ≥ 0

    has mean at most 1 + (λ_j(A) − λ_j) δ ≤ 1 under (ε, δ)-DP, and falls with A: so do the gains of
    part 2 in `frequentist.means` (where the cap binds, a block's product is a polynomial in 1/A
    with non-negative coefficients and a constant term at most 1). The certified ε form an interval,
    and one level covers both means. Betting after Waudby-Smith & Ramdas 2024, arXiv:2010.09686;
    other martingales for the same end: Gonzalez et al. 2025, arXiv:2509.07055.

    Args:
        log_ratio_present: L, or any score, at runs of D' in the order of the trials; on a stated
            grid where its law has atoms, which rounding would split; shape (n,).
        log_ratio_absent: the same at runs of D; shape (n',); trials beyond the largest multiple of
            the smaller number are not used.
        delta: δ in [0, 1).
        weight_present: dP/dR of runs of D' under a proposal R for the noise, ≥ 0. With weights the
            noise's law is assumed (kind `assumes-law`), L is not.
        weight_absent: the same for D.
        weight_absent_bound: largest weight possible for D where L ≥ τ, as a number or as a
            non-increasing function of τ; required with `weight_absent`. A single number, such as
            that of a proposal, is mostly too large to certify anything.
        alpha: level of the bound.
        confidence: the confidence to state.

    Raises:
        InputError: a ratio is NaN, a weight negative or above its bound, shapes differ, or a
            parameter is out of range.
    """
    check_delta(delta)
    check_alpha(alpha)
    pairs, kind = _paired(
        log_ratio_present, log_ratio_absent, weight_present, weight_absent, weight_absent_bound
    )
    plan = _plan(pairs, delta)
    share = np.minimum(plan.stakes.shares, (1 - LOSS) / delta if delta else math.inf)
    each = plan.stakes.each
    present, absent = pairs.hits(each(plan.thresholds))
    loss = each(share) * delta

    def certified(epsilon: float) -> bool:
        factor = math.exp(epsilon)
        capped = np.minimum(share, LOSS / (factor * plan.bounds))
        factors = 1 + each(capped) * (present - factor * absent) - loss
        return grows(factors, capped, plan.stakes, alpha)

    # To grow by 1/α, Σ λ h w ≥ ln(1/α) with λ ≤ c/(A W): no larger A can be certified.
    reach = LOSS * float((present / each(plan.bounds)).sum()) / -math.log(alpha)
    top = math.log(max(reach, 1.0))
    p, q = (float(x.mean()) for x in pairs.hits(plan.thresholds[-1]))
    return lower_bound(
        last_held(certified, top, top / 8, HALVINGS),
        value=0.0 if p <= delta else math.log((p - delta) / q) if q > 0 else math.inf,
        alpha=alpha,
        confidence=confidence,
        n=pairs.n,
        method="two-sample betting",
        kind=kind,
    )
