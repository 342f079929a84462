"""Estimates of a membership game from its judged trainings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games.certify import Level, bound
from dpaudit.auditor.games.outcomes import CoinScores
from dpaudit.bounds.frequentist.one_run import one_run_epsilon
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Family

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Shares of the coins that are guessed "present" and "absent".
Guesses = tuple[float, float]

# The fewest guesses that are tried.
_LEAST = 16


def quantile(values: Numbers, share: float, family: Family) -> Estimate:
    """Estimate a quantile over targets of a number from -1 to 1, as if they were independent.

    Its limits are order statistics: the number of values below it is binomial (David & Nagaraja
    2003, Order Statistics, section 7.1).
    """
    from scipy.stats import binom

    ordered, n = np.sort(values), len(values)
    tail = (1 - family.confidence) / 2
    low = int(binom.ppf(tail, n, share))
    high = int(binom.ppf(1 - tail, n, share))
    value = float(np.quantile(ordered, share, method="inverted_cdf"))
    return Estimate(
        value=value,
        lower=min(value, float(ordered[low - 1])) if low > 0 else -1.0,
        upper=max(value, float(ordered[high])) if high < n else 1.0,
        confidence=family.confidence,
        alpha=1 - family.confidence,
        n=n,
        method="order statistics over targets, by itself",
        kind="assumes-law",
    )


def best_guesses(
    scores: Numbers, present: Mask, *, delta: float, family: Family
) -> tuple[float, Guesses]:
    """Return the largest bound on ε over numbers of guesses, and the shares of the coins guessed.

    The bound is optimistic, as the same coins choose the numbers; it only chooses.

    Args:
        scores: scores of the targets `(T, m)`.
        present: the coins `(T, m)`.
        delta: δ.
        family: the family of the run's intervals.
    """
    order = np.argsort(-scores, axis=None, kind="stable")
    isin = present.reshape(-1)[order]
    size = len(isin)
    right_in = np.concatenate(([0], np.cumsum(isin)))
    right_out = np.concatenate(([0], np.cumsum(~isin[::-1])))
    sizes = [size >> j for j in range(1, size.bit_length()) if size >> j >= _LEAST]
    pairs = [(k, k) for k in sizes if 2 * k <= size]
    pairs += [pair for k in sizes for pair in ((k, 0), (0, k))]
    bounds = []
    for high, low in pairs:
        right = int(right_in[high] + right_out[low])
        estimate = one_run_epsilon(size, high + low, right, delta=delta, alpha=family.alpha)
        bounds.append((estimate.lower, (high / size, low / size)))
    return max(bounds, default=(0.0, (0.5, 0.5)))


def certified(
    scores: Numbers,
    present: Mask,
    guesses: Guesses,
    *,
    delta: float,
    family: Family,
    seed: int,
) -> Estimate:
    """Return a certified lower bound on ε for the presence of one target.

    Coins of the judged trainings are guessed from scores that depend on these trainings and on the
    calibrating ones alone. The judged trainings are one mechanism, with as many coins as there are
    pairs of training and target. Another value of one coin changes the data of one training by one
    target, and no other training. So if the recommender is (ε, δ)-DP for the presence of one
    target, this mechanism is (ε, δ)-DP for each coin, and `bounds.frequentist.one_run` bounds the
    number of right guesses, whatever the dependence between targets and however the models of one
    training depend on all its data. The number of guesses is set beforehand, so one bound is used.

    Args:
        scores: scores of the targets `(C, m)`, larger for likelier presence.
        present: the coins `(C, m)`.
        guesses: the shares of the coins to guess "present" and "absent".
        delta: δ.
        family: the family of the run's intervals.
        seed: orders equal scores.
    """
    high, low = (int(share * present.size) for share in guesses)
    coins = CoinScores(scores.reshape(-1), present.reshape(-1), len(present), (high, low))
    return bound(coins, Level.of(family, delta), seed)[0]
