"""The advantage with which the scores of a game tell two data sets apart."""

from __future__ import annotations

import math

import numpy as np

from dpaudit.bounds.outcomes import Scores, check_alpha, scores
from dpaudit.core.estimate import Estimate


def best_advantage(
    absent: Scores, present: Scores, *, alpha: float, confidence: float | None = None
) -> Estimate:
    """Estimate the largest true- minus false-positive rate over all thresholds of a score.

    With the distribution functions F of a score on D and F' on D' it is sup |F − F'|, in [0, 1]:
    the advantage of an attacker who knows the best threshold, and on which side of it to answer
    "D'". Each empirical distribution function is within √(ln(4/α)/(2n)) of the true one
    everywhere, with probability at least 1 − α/2 (Massart 1990, doi:10.1214/aop/1176990746; ties
    do no harm). So the largest difference of the empirical functions, the statistic of Kolmogorov
    and Smirnov, is within the sum of both from the truth, with probability at least 1 − α. No
    threshold is chosen, and no trial is held out.

    Args:
        absent: scores of independent trials on data set D.
        present: scores of independent trials on data set D'.
        alpha: the level.
        confidence: the confidence to state; default 1 − α.

    Raises:
        InputError: a score is not finite, a class is empty, or α is out of range.
    """
    check_alpha(alpha)
    first, second = (
        np.sort(scores(values, name)) for values, name in ((absent, "absent"), (present, "present"))
    )
    pooled = np.concatenate((first, second))
    shares = [
        np.searchsorted(sample, pooled, side="right") / len(sample) for sample in (first, second)
    ]
    value = float(np.max(abs(shares[0] - shares[1])))
    band = sum(math.sqrt(math.log(4 / alpha) / (2 * len(sample))) for sample in (first, second))
    return Estimate(
        value=value,
        lower=max(0.0, value - band),
        upper=min(1.0, value + band),
        confidence=1 - alpha if confidence is None else confidence,
        alpha=alpha,
        n=len(pooled),
        method="Kolmogorov-Smirnov, DKW bands",
    )
