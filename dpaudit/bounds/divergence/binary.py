"""A lower confidence bound on a Kullback-Leibler divergence, by one test of the samples."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.frequentist.intervals import clopper_pearson_each
from dpaudit.bounds.outcomes import check_alpha, scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Values = NDArray[np.float64]

# The most thresholds that are compared on the half that chooses one.
_THRESHOLDS = 256


def threshold_kl(
    present: ArrayLike, absent: ArrayLike, *, alpha: float, confidence: float
) -> Estimate:
    """Bound KL(P‖Q) from below by the divergence of one test's outcomes, in nats.

    For any event A, with p = P(A) and q = Q(A), the data-processing inequality says (Cover & Thomas
    2006, Theorem 2.8.1 with 2.5.3, doi:10.1002/047174882X)

        KL(P‖Q) ≥ d(p, q) = p ln(p/q) + (1 − p) ln((1 − p)/(1 − q)).

    d grows with p and falls with q while p > q. A is "the score is above t" or "is below t". The
    scores of even place choose it: the one with the largest bound there. Those of odd place are
    counted: `p ≥ p_L` and `q ≤ q_U` hold with probability at least 1 − α/2 each (Clopper & Pearson
    1934). So d(p_L, q_U), or 0 if p_L ≤ q_U, is at most KL(P‖Q) with probability at least 1 − α,
    for every law of the scores and of what they are computed from. It assumes independent trials.

    Nothing bounds a divergence from above without its law: an event of probability 1/n² under P
    that is impossible under Q makes it infinite. So the upper end is infinite.

    The value is d at the shares with half an outcome added to each side, which is finite.

    Args:
        present: scores of independent trials of P; shape (n,), n ≥ 2.
        absent: scores of independent trials of Q; shape (m,), m ≥ 2.
        alpha: the level.
        confidence: the confidence to state.

    Raises:
        InputError: a score is not finite, or a class has fewer than two.
    """
    check_alpha(alpha)
    first, second = scores(present, "present"), scores(absent, "absent")
    if min(len(first), len(second)) < 2:
        raise InputError("a class has 1 score: give at least 2, to choose a threshold and to test")
    best, sign, threshold = -math.inf, 1.0, 0.0
    for side in (1.0, -1.0):
        choosing = side * first[::2], side * second[::2]
        places = np.unique(np.concatenate(choosing))
        places = places[:: max(1, len(places) // _THRESHOLDS)]
        bounds = _bounds(_above(choosing[0], places), _above(choosing[1], places), alpha)
        if bounds.max() > best:
            best, sign, threshold = float(bounds.max()), side, float(places[bounds.argmax()])
    counts = [_above(sign * sample[1::2], np.array([threshold])) for sample in (first, second)]
    lower = max(0.0, float(_bounds(counts[0], counts[1], alpha)[0]))
    p, q = ((count.above + 0.5) / (count.of + 1) for count in counts)
    return Estimate(
        value=max(lower, float(_divergence(p, q)[0])),
        lower=lower,
        upper=math.inf,
        confidence=confidence,
        alpha=alpha,
        n=len(first) + len(second),
        method="data processing, one threshold",
    )


class _Exceedances(NamedTuple):
    """How many of some scores lie above each threshold."""

    above: NDArray[np.int64]
    of: int


def _above(values: Values, thresholds: Values) -> _Exceedances:
    below = np.searchsorted(np.sort(values), thresholds, side="right")
    return _Exceedances(len(values) - below.astype(np.int64), len(values))


def _bounds(first: _Exceedances, second: _Exceedances, alpha: float) -> Values:
    """Return d(p_L, q_U) of each threshold; −1 if p_L ≤ q_U."""
    # One-sided at α/2: one end of the two-sided interval at α.
    low, high = clopper_pearson_each(*first, alpha)[0], clopper_pearson_each(*second, alpha)[1]
    return np.where(low > high, _divergence(low, np.minimum(low, high)), low - high - 1)


def _divergence(p: Values, q: Values) -> Values:
    """Return the divergence of coins with 0 ≤ q ≤ p ≤ 1; 0 < q unless p = 0."""
    from scipy.special import rel_entr

    return np.asarray(rel_entr(p, q) + rel_entr(1 - p, 1 - q), np.float64)
