"""A certified lower bound on ε from the scores of a distinguishing game."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.estimate import Estimate
from dpaudit.bounds.intervals import clopper_pearson_each

Scores = NDArray[np.float64]

# Thresholds tried on the selection half, and how much stricter it is than the certificate.
_THRESHOLDS = 200
_STRICTER = 10.0


@dataclass(frozen=True)
class Event:
    """An event of a game: the score lies above the threshold, or not above it.

    Attributes:
        threshold: the score that separates.
        above: whether the event is `score > threshold`.
        likelier_present: whether the event's probability in world D' is the numerator.
    """

    threshold: float
    above: bool
    likelier_present: bool

    def counts(self, absent: Scores, present: Scores) -> tuple[int, int]:
        """How often the event happened in the numerator's and in the denominator's world."""
        hits = [int(((s > self.threshold) == self.above).sum()) for s in (absent, present)]
        return (hits[1], hits[0]) if self.likelier_present else (hits[0], hits[1])

    def __str__(self) -> str:
        """The event in words."""
        worlds = ("D'", "D") if self.likelier_present else ("D", "D'")
        sign = ">" if self.above else "<="
        return f"score {sign} {self.threshold:g}, likelier in {worlds[0]} than in {worlds[1]}"


def log_ratio_bound(hits: int, others: int, n: int, delta: float, alpha: float) -> float:
    """Lower bound on ε from an event that happened `hits` and `others` times in n trials each.

    (ε, δ)-DP says `P(E) ≤ e^ε Q(E) + δ`, so `ε ≥ ln((P(E) − δ)/Q(E))`; P(E) is replaced by its
    lower, Q(E) by its upper Clopper-Pearson limit, each at level α/2. Jagielski, Ullman, Oprea
    2020, arXiv:2006.07709.
    """
    return float(_log_ratio_bounds(np.array(hits), np.array(others), n, delta, alpha))


def _log_ratio_bounds(
    hits: NDArray[np.int64], others: NDArray[np.int64], n: int, delta: float, alpha: float
) -> NDArray[np.float64]:
    """The bound of `log_ratio_bound` for each event alone, not for all together."""
    lower = clopper_pearson_each(hits, n, alpha)[0] - delta
    upper = clopper_pearson_each(others, n, alpha)[1]
    return np.log(np.maximum(lower, upper) / upper)


def choose_event(absent: Scores, present: Scores, delta: float, alpha: float) -> Event:
    """The event with the largest bound on these scores, at a level stricter than `alpha`.

    A threshold picked at the level that certifies it is picked for its luck; the stricter level
    prefers events whose bound does not rest on a few outcomes. Its bound is not a certificate:
    these scores chose it.
    """
    # Thresholds lie at scores that occur, so that an atom is never cut by rounding.
    pooled = np.unique(np.concatenate((absent, present)))
    keep = np.unique(np.linspace(0, len(pooled) - 1, _THRESHOLDS).astype(int))
    thresholds, n = pooled[keep], len(absent)
    above = [
        n - np.searchsorted(np.sort(scores), thresholds, "right") for scores in (absent, present)
    ]
    # Columns: above or not, and likelier in D' or in D.
    hits = np.stack([above[1], above[0], n - above[1], n - above[0]], axis=1)
    others = np.stack([above[0], above[1], n - above[0], n - above[1]], axis=1)
    bounds = _log_ratio_bounds(hits, others, n, delta, alpha / _STRICTER)
    best = int(np.where(hits > others, bounds, -1.0).argmax())
    threshold, kind = divmod(best, 4)
    return Event(float(thresholds[threshold]), above=kind < 2, likelier_present=kind % 2 == 0)


def held_out_epsilon(
    absent: Scores, present: Scores, delta: float, alpha: float, confidence: float
) -> tuple[Estimate, Event]:
    """Certified lower bound on ε from the scores of `n` worlds D and `n` worlds D'.

    The first half of either chooses the event (threshold, direction and order of the worlds), the
    second half, which it has not seen, certifies it at level `alpha`.

    Args:
        absent: scores of worlds D, independent.
        present: scores of worlds D', independent, as many.
        delta: the δ of the claim.
        alpha: the level of the bound.
        confidence: the confidence to state (simultaneous over a family of bounds).

    Raises:
        ValueError: the two differ in number, or there are fewer than 4 of each.
    """
    if len(absent) != len(present) or len(absent) < 4:
        raise ValueError(
            f"{len(absent)} scores of D and {len(present)} of D': give as many of each, at least 4"
        )
    half = len(absent) // 2
    event = choose_event(absent[:half], present[:half], delta, alpha)
    hits, others = event.counts(absent[half:], present[half:])
    n = len(absent) - half
    numerator = hits / n - delta
    if others == 0:
        point = math.inf if numerator > 0 else 0.0
    else:
        point = max(0.0, math.log(numerator * n / others)) if numerator > 0 else 0.0
    estimate = Estimate(
        value=point,
        lower=log_ratio_bound(hits, others, n, delta, alpha),
        upper=math.inf,
        confidence=confidence,
        alpha=alpha,
        n=n,
        method="held-out clopper-pearson",
    )
    return estimate, event


def detectable_epsilon(claimed: float, n: int, alpha: float, power: float = 0.95) -> float:
    """The least true ε that n held-out trials a world would certify to exceed `claimed`.

    Planned for the Laplace mechanism at the edge of a violation, whose most telling event has the
    probabilities ½ and ½e^−ε in the two worlds: with probability at least `power` the hits are not
    below their `(1 − power)/2` quantile nor the others above theirs, and then the bound exceeds the
    claim. `inf` where no ε would be found.
    """
    from scipy.stats import binom

    tail = (1 - power) / 2

    def found(epsilon: float) -> bool:
        hits = int(binom.ppf(tail, n, 0.5))
        others = int(binom.ppf(1 - tail, n, 0.5 * math.exp(-epsilon)))
        return log_ratio_bound(hits, others, n, 0.0, alpha) > claimed

    if math.isinf(claimed):
        return math.inf
    high = claimed + 1.0
    while not found(high):
        high += max(1.0, high)
        if high > claimed + 700:
            return math.inf
    low = claimed
    while high - low > 1e-3 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def detectable_on_pair(
    claimed: float, n: int, alpha: float, shift: float, sensitivity: float
) -> float:
    """The least ε for which noise too small would have been found on a pair of data sets.

    A pair whose predictions differ by `shift` shows the share `t = min(1, shift/Δf)` of a
    mechanism's ε. Were the noise so small that the mechanism's ε is ε', the pair would show `t·ε'`,
    so what is found there is `detectable_epsilon / t`. Other defects, such as a Δf that is too
    small for other pairs, this pair does not show.
    """
    if sensitivity == 0 or shift == 0:
        return math.inf
    return detectable_epsilon(claimed, n, alpha) / min(1.0, shift / sensitivity)
