"""Mechanisms whose true ε is known, and every bound on ε as an audit of one of them.

An audit is false if its lower bound exceeds the true ε at the δ that it used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from dpaudit.bounds.frequentist.intervals import clopper_pearson_epsilon
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.frequentist.likelihood import likelihood_epsilon, two_sample_epsilon
from dpaudit.bounds.frequentist.one_run import one_run_epsilon, one_run_scores_epsilon
from dpaudit.bounds.gdp import gdp_epsilon, gdp_roc_epsilon, one_run_gdp_epsilon
from dpaudit.bounds.outcomes import Counts
from dpaudit.core.estimate import Estimate, Kind

Scores = NDArray[np.float64]
Rng = np.random.Generator
Noise = Literal["laplace", "gumbel"]

# Stands for an infinite log-ratio where scores must be finite; smaller, hence no less true.
REVEALED = 50.0


@dataclass(frozen=True)
class Mechanism:
    """A pair of neighbouring data sets, scored.

    Attributes:
        name: what it is called.
        epsilon: the least ε for which it is (ε, δ)-DP, either data set first.
        delta: that δ.
        threshold: the event fixed beforehand is score >= threshold.
        draw: draws a number of scores on data set D' if the flag is true, else on D.
        log_ratio: whether a score is the log-likelihood ratio of D' to D.
    """

    name: str
    epsilon: float
    delta: float
    threshold: float
    draw: Callable[[Rng, int, bool], Scores]
    log_ratio: bool = True

    def pair(self, rng: Rng, n: int) -> tuple[Scores, Scores]:
        """Scores of n trials on data set D and of n on data set D'."""
        return self.draw(rng, n, False), self.draw(rng, n, True)

    def coins(self, rng: Rng, m: int) -> tuple[Scores, NDArray[np.int64]]:
        """Scores of m trials in random order, and the fair coins that chose them."""
        coins = rng.integers(0, 2, m)
        return np.where(coins, self.draw(rng, m, True), self.draw(rng, m, False)), coins

    def false(self, estimate: Estimate) -> bool:
        """Whether the bound lies above the truth; rounding alone is no false claim."""
        return estimate.lower > self.epsilon * (1 + 1e-12)


def respond(epsilon: float, delta: float, rng: Rng, n: int, present: bool) -> Scores:
    """Randomised response that reveals the data set with probability δ.

    No (ε, δ)-DP mechanism tells more: Kairouz, Oh & Viswanath 2015, arXiv:1311.0776.
    """
    right = np.where(rng.random(n) < expit(epsilon), epsilon, -epsilon)
    return np.where(rng.random(n) < delta, REVEALED, right) * (1 if present else -1)


def laplace(epsilon: float, rng: Rng, n: int, present: bool) -> Scores:
    """Laplace noise of scale 1/ε on 0 or 1: ε (|y| − |y − 1|), with atoms at ±ε."""
    return epsilon * np.clip(2 * (rng.laplace(0, 1 / epsilon, n) + present) - 1, -1, 1)


def geometric(epsilon: float, rng: Rng, n: int, present: bool) -> Scores:
    """Two-sided geometric noise of ratio e^(−ε/2) on 0 or 2: atoms at −ε, 0 and ε."""
    noise = rng.geometric(-math.expm1(-epsilon / 2), (2, n))
    y = noise[0] - noise[1] + 2 * present
    ratio: Scores = epsilon * (np.abs(y) - np.abs(y - 2)) / 2
    return ratio


def gaussian(mu: float, rng: Rng, n: int, present: bool) -> Scores:
    """Standard Gaussian noise on 0 or μ."""
    return mu * (rng.normal(size=n) + mu * present) - mu**2 / 2


def largest(
    noise: Noise, scale: float, answers: tuple[Scores, Scores], rng: Rng, n: int, present: bool
) -> Scores:
    """Which answer is the largest with noise, as the log-ratio of that outcome."""
    own = answers[present]
    draw = rng.laplace if noise == "laplace" else rng.gumbel
    chosen = (own + draw(0, scale, (n, len(own)))).argmax(axis=1)
    absent, here = (noisy_max_law(noise, scale, a) for a in answers)
    ratios: Scores = np.log(here / absent)[chosen]
    return ratios


def noisy_max_law(noise: Noise, scale: float, answers: Scores) -> Scores:
    """The probability of each answer to be the largest with noise."""
    return np.array(_noisy_max_law(noise, scale, tuple(answers.tolist())))


@cache
def _noisy_max_law(noise: Noise, scale: float, answers: tuple[float, ...]) -> tuple[float, ...]:
    """∫ f(x − a) Π F(x − b) dx over the others b, by Gauss-Legendre panels that end at kinks."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    width = 40 * scale
    far = np.linspace(min(answers) - width, max(answers) + width, 200)
    edges = np.unique(np.concatenate((far, answers)))
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + nodes)

    def law(answer: float) -> tuple[Scores, Scores]:
        z = (x - answer) / scale
        if noise == "gumbel":
            cdf = np.exp(-np.exp(-np.maximum(z, -6.5)))
            return cdf, cdf * np.exp(-np.maximum(z, -6.5)) / scale
        tail = np.exp(-np.abs(z)) / 2
        return np.where(z < 0, tail, 1 - tail), tail / scale

    laws = [law(answer) for answer in answers]
    found = []
    for i, (_, density) in enumerate(laws):
        others = np.prod([cdf for j, (cdf, _) in enumerate(laws) if j != i], axis=0)
        found.append(float((half * weights * density * others).sum()))
    return tuple(found)


def null(rounded: bool, rng: Rng, n: int, present: bool) -> Scores:
    """Scores that do not depend on the data set."""
    noise = rng.normal(size=n)
    return np.round(noise) if rounded else noise


def gaussian_truth(mu: float, delta: float) -> float:
    """The root of Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) = δ. Balle & Wang 2018, arXiv:1805.06530."""

    def excess(epsilon: float) -> float:
        high, low = ndtr(mu / 2 - epsilon / mu), ndtr(-mu / 2 - epsilon / mu)
        return float(high - math.exp(epsilon) * low - delta)

    return float(brentq(excess, 0, mu * mu / 2 + 10 * mu, xtol=1e-13))


def noisy_max(name: str, noise: Noise, scale: float, *answers: tuple[float, ...]) -> Mechanism:
    """Report-noisy-max between two vectors of answers; the best outcome is the event."""
    pair = (np.array(answers[0]), np.array(answers[1]))
    absent, present = (noisy_max_law(noise, scale, a) for a in pair)
    ratios = np.log(present / absent)
    draw = partial(largest, noise, scale, pair)
    return Mechanism(name, float(np.abs(ratios).max()), 0.0, float(ratios.max()), draw)


_G = gaussian_truth(1.0, 0.01)
MECHANISMS = (
    Mechanism("randomised response", 1.0, 0.0, 1.0, partial(respond, 1.0, 0.0)),
    Mechanism("randomised response, 1.3 % errors", 4.3, 0.0, 4.3, partial(respond, 4.3, 0.0)),
    Mechanism(
        "randomised response, reveals with δ = 0.01", 1.0, 0.01, 1.0, partial(respond, 1.0, 0.01)
    ),
    Mechanism("Laplace", 1.0, 0.0, 1.0, partial(laplace, 1.0)),
    Mechanism("Laplace, δ = 1e-5", 1.0 + 2 * math.log1p(-1e-5), 1e-5, 1.0, partial(laplace, 1.0)),
    Mechanism("geometric", 1.0, 0.0, 1.0, partial(geometric, 1.0)),
    Mechanism("Gaussian, δ = 1e-5", gaussian_truth(1.0, 1e-5), 1e-5, 1.5, partial(gaussian, 1.0)),
    Mechanism("Gaussian, δ = 0.01", _G, 0.01, _G, partial(gaussian, 1.0)),
    # Gumbel noise of scale 2 makes it choose with probabilities proportional to e^(answer/2).
    noisy_max("exponential", "gumbel", 2.0, (0.0, 1.0, 2.0, 3.0), (1.0, 1.5, 1.5, 2.0)),
    noisy_max("report-noisy-max", "laplace", 2.0, (0.0, 1.0, 1.0), (1.0, 0.0, 1.0)),
    Mechanism("null", 0.0, 0.0, 0.0, partial(null, False), log_ratio=False),
    Mechanism("null with atoms", 0.0, 0.0, 1.0, partial(null, True), log_ratio=False),
)


@dataclass(frozen=True)
class Method:
    """A bound on ε as an audit of n trials a class, or of 2n trials by coin flips.

    Attributes:
        name: what it is called.
        kind: what it assumes.
        audit: a mechanism's bound from fresh runs.
        positive_delta: whether it needs δ > 0.
        log_ratio: whether it needs true log-likelihood ratios.
    """

    name: str
    kind: Kind
    audit: Callable[[Mechanism, Rng, int], Estimate]
    positive_delta: bool = False
    log_ratio: bool = False

    def applies(self, mechanism: Mechanism) -> bool:
        """Whether it can audit this mechanism."""
        return (mechanism.delta > 0 or not self.positive_delta) and (
            mechanism.log_ratio or not self.log_ratio
        )


def _fixed_event(name: str, mechanism: Mechanism, rng: Rng, n: int) -> Estimate:
    absent, present = mechanism.pair(rng, n)
    tp, fp = (int((s >= mechanism.threshold).sum()) for s in (present, absent))
    return _of_counts(name, tp, fp, n, mechanism.delta)


@cache
def _of_counts(name: str, tp: int, fp: int, n: int, delta: float) -> Estimate:
    counts = Counts(tp=tp, fp=fp, fn=n - tp, tn=n - fp)
    if name == "gdp":
        return gdp_epsilon(counts, delta=delta)
    return clopper_pearson_epsilon(counts, delta=delta)


def _seed(rng: Rng) -> int:
    """A seed for one audit, so that the whole simulation can be repeated."""
    return int(rng.integers(2**62))


def _label_coins(mechanism: Mechanism, rng: Rng, n: int) -> Estimate:
    found, coins = mechanism.coins(rng, 2 * n)
    return label_epsilon(
        found[coins == 0],
        found[coins == 1],
        delta=mechanism.delta,
        coin_flipped=True,
        seed=_seed(rng),
    )[0]


def _label_classes(mechanism: Mechanism, rng: Rng, n: int) -> Estimate:
    pair = mechanism.pair(rng, n)
    return label_epsilon(*pair, delta=mechanism.delta, seed=_seed(rng))[0]


def _one_run(mechanism: Mechanism, rng: Rng, n: int) -> Estimate:
    found, coins = mechanism.coins(rng, 2 * n)
    right = int(((found > 0) == coins).sum())
    return _of_guesses(False, 2 * n, 2 * n, right, mechanism.delta)


def _one_run_quarters(mechanism: Mechanism, rng: Rng, n: int) -> Estimate:
    """Guesses "in" for the highest and "out" for the lowest quarter of 2n canaries."""
    found, coins = mechanism.coins(rng, 2 * n)
    # The canaries stand in random order: the one among equal scores is no matter.
    order, k = np.argsort(found, kind="stable"), n // 2
    right = int(coins[order[-k:]].sum() + k - coins[order[:k]].sum())
    return _of_guesses(True, 2 * n, 2 * k, right, mechanism.delta)


@cache
def _of_guesses(gdp: bool, m: int, guesses: int, right: int, delta: float) -> Estimate:
    bound = one_run_gdp_epsilon if gdp else one_run_epsilon
    return bound(m, guesses, right, delta=delta)


def _one_run_scores(mechanism: Mechanism, rng: Rng, n: int) -> Estimate:
    found, coins = mechanism.coins(rng, 2 * n)
    return one_run_scores_epsilon(found, coins, delta=mechanism.delta, seed=_seed(rng))


def _two_sample(mechanism: Mechanism, rng: Rng, n: int) -> Estimate:
    absent, present = mechanism.pair(rng, n)
    return two_sample_epsilon(present, absent, delta=mechanism.delta)


def _gdp_ranks(mechanism: Mechanism, rng: Rng, n: int) -> Estimate:
    return gdp_roc_epsilon(*mechanism.pair(rng, n), delta=mechanism.delta)


def _likelihood(mechanism: Mechanism, rng: Rng, n: int) -> Estimate:
    return likelihood_epsilon(mechanism.draw(rng, n, True), delta=mechanism.delta)


METHODS = (
    Method("Clopper-Pearson, fixed event", "frequentist", partial(_fixed_event, "counting")),
    Method("label test, coin flips", "frequentist", _label_coins),
    Method("label test, fixed classes", "frequentist", _label_classes),
    Method("one run, guesses", "frequentist", _one_run),
    Method("one run, scores", "frequentist", _one_run_scores),
    Method("two-sample form", "frequentist", _two_sample),
    Method("Gaussian DP, fixed event", "assumes-gdp", partial(_fixed_event, "gdp"), True),
    Method("Gaussian DP, all scores", "assumes-gdp", _gdp_ranks, True),
    Method("one run, Gaussian f-DP", "assumes-gdp", _one_run_quarters, True),
    Method("likelihood form", "assumes-law", _likelihood, log_ratio=True),
)
FREQUENTIST = tuple(method for method in METHODS if method.kind == "frequentist")
