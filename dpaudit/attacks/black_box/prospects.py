"""Forecast the bound that a score will certify on fresh outputs, from held-out outputs.

Forecasts choose among models and events before the certifying outputs are drawn. They certify
nothing; a wrong forecast costs power, but certificates stay valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.frequentist.event_choice import Ends, growing_events, share_limit, whole_ends

Vector = NDArray[np.float64]

# The level at which events are compared, and the quantile of the share of correct guesses that a
# forecast uses; it is low because the best of many events tends to look better than it is.
_ALPHA, _BELIEVED = 0.05, 0.001
# An event at both ends must have a forecast larger by this factor, since few outputs at one end may
# look pure by chance.
_BOTH = 1.1
# Sizes of the compared events: the smallest, and the ratio of successive sizes.
_LEAST, _RATIO = 3, 1.15
# Newton steps of a calibration, and its cut-off in standard deviations of the scores.
_STEPS, _FAR = 8, 4.0


@dataclass(frozen=True)
class Prospect:
    """The event with the largest forecast bound.

    Attributes:
        epsilon: the forecast bound.
        side: whether the event has the highest scores, the lowest, or both.
        share: its share of all outputs.
    """

    epsilon: float
    side: Ends
    share: float


def prospect(
    scores: Vector,
    labels: NDArray[np.int64],
    trials: int,
    believed: float = _BELIEVED,
    alpha: float = _ALPHA,
    calibrated: bool = False,
) -> Prospect:
    """Return the event of a score with the largest forecast bound on fresh outputs.

    For an event with s of the n outputs, h of them guessed correctly, the forecast is
    `trials · s/n` outputs, and as share of correct guesses the `believed` quantile of the Beta
    posterior of h/s; the bound is Clopper and Pearson's at level alpha.

    For a weak signal, this share depends much on chance. If `calibrated` is set, scores are
    log-odds, and the share is at least the one that they imply after a logistic recalibration on
    all outputs.

    Args:
        scores: scores of held-out outputs `(n,)`.
        labels: 1 for outputs of D', 0 for D `(n,)`.
        trials: number of fresh outputs.
        believed: see above.
        alpha: see above.
        calibrated: see above.
    """
    from scipy.special import betaincinv

    order = np.argsort(-scores, kind="stable")
    scores, labels = scores[order], labels[order]
    present, n = np.append(0, np.cumsum(labels)), len(scores)
    chance = np.append(0.0, np.cumsum(_calibrated(scores, labels))) if calibrated else present
    best = Prospect(0.0, "top", 0.0)
    for events in growing_events(_ends(scores), _ends(scores[::-1]), n):
        # One guess at all outputs tells nothing.
        proper = (events.size < n) | (events.side == "both")
        top, bottom, size = events.top[proper], events.bottom[proper], events.size[proper]
        hits, likely = (
            right[top] + bottom - (right[n] - right[n - bottom]) for right in (present, chance)
        )
        share = betaincinv(hits + 0.5, size - hits + 0.5, believed)
        if calibrated:
            share = np.maximum(share, likely / size)
        value, at = best_bound(share, size * (trials / n), alpha)
        if value > best.epsilon * (_BOTH if events.side == "both" else 1.0):
            best = Prospect(value, events.side, float(size[at] / n))
    return best


def _calibrated(scores: Vector, labels: NDArray[np.int64]) -> Vector:
    """Return the probability of D' by `expit(a + b · score)`, b minus one standard error.

    a and b are fitted by Newton's method to clipped, standardised scores; a is then corrected to
    equal shares of D and D'.
    """
    from scipy.special import expit, logit

    middle = scores - scores.mean()
    spread = float(np.sqrt((middle**2).mean()))
    if spread == 0 or not 0 < labels.sum() < len(labels):
        return np.full(len(scores), 0.5)
    unit = np.clip(middle / spread, -_FAR, _FAR)
    design = np.stack([np.ones_like(unit), unit])
    at = np.array([logit(labels.mean()), 0.0])
    for _ in range(_STEPS):
        share = expit(at @ design)
        curvature = (design * (share * (1 - share))) @ design.T + 1e-9 * np.eye(2)
        at += np.clip(np.linalg.solve(curvature, design @ (labels - share)), -2, 2)
    slope = max(0.0, at[1] - float(np.sqrt(np.linalg.inv(curvature)[1, 1])))
    return np.asarray(expit(at[0] - logit(labels.mean()) + slope * unit))


def best_bound(share: Vector, size: NDArray[Any], alpha: float) -> tuple[float, int]:
    """Return the largest bound of events with these shares of correct guesses, and its index.

    Args:
        share: the share of correct guesses in each event `(E,)`.
        size: the number of outputs in each event, which may be fractional `(E,)`.
        alpha: the level of the bound.
    """
    from scipy.special import logit

    if not len(size):
        return 0.0, 0
    limit = share_limit(size * share, size, alpha)
    bounds = logit(np.clip(limit, 1e-12, 1 - 1e-12))
    at = int(bounds.argmax())
    return float(bounds[at]), at


def _ends(scores: Vector) -> NDArray[np.int64]:
    """Return sizes of growing prefixes of sorted scores; equal scores are never split."""
    n = len(scores)
    steps = max(1, int(np.log(max(n / _LEAST, 1)) / np.log(_RATIO)) + 1)
    return whole_ends(scores, np.geomspace(min(_LEAST, n), n, steps + 1).astype(np.int64))
