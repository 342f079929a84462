"""What tightness is measured on: scenarios, methods, and what counting could do at best."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from scipy.special import betainccinv, betaincinv, ndtr, ndtri

from dpaudit.bounds.frequentist.one_run import default_grid
from dpaudit.bounds.gdp import one_run_gdp_epsilon
from dpaudit.core.estimate import Estimate, Kind

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from soundness_cases import (
    METHODS,
    Mechanism,
    Method,
    Rng,
    Scores,
    gaussian,
    gaussian_truth,
    laplace,
)

SEED = 1
ALPHA = 0.05
DELTA = 1e-5


@dataclass(frozen=True)
class Scenario:
    """A mechanism with its outputs' laws, on which tightness is measured.

    Attributes:
        name: its name in the table.
        mechanism: its scores and its truth.
        strength: μ of the Gaussian, ε of the Laplace mechanism.
    """

    name: str
    mechanism: Mechanism
    strength: float

    @property
    def is_gaussian(self) -> bool:
        """Whether the noise is Gaussian, not Laplace."""
        return self.mechanism.delta > 0

    def score(self, y: float | Scores) -> Scores:
        """The log-likelihood ratio of an output y."""
        c = self.strength
        return c * y - c * c / 2 if self.is_gaussian else c * (2 * y - 1)

    def outputs(self) -> Scores:
        """Thresholds on the output; by symmetry those above the middle of both laws suffice."""
        middle = self.strength / 2 if self.is_gaussian else 0.5
        return np.linspace(middle, middle + (5 if self.is_gaussian else 0.5), 101)

    def rates(self, y: Scores) -> tuple[Scores, Scores]:
        """Probabilities in D' and in D of an output of at least y; Laplace: 0 <= y <= 1."""
        c = self.strength
        if self.is_gaussian:
            return ndtr(c - y), ndtr(-y)
        return 1 - np.exp(-c * (1 - y)) / 2, np.exp(-c * y) / 2


def scenarios() -> tuple[Scenario, ...]:
    """Gaussian noise at δ = 1e-5 and Laplace noise at δ = 0."""
    found = []
    for mu in (0.5, 1.0, 2.0):
        truth = gaussian_truth(mu, DELTA)
        mechanism = Mechanism("Gaussian", truth, DELTA, 0.0, partial(gaussian, mu))
        found.append(Scenario(f"Gaussian μ = {mu:g}", mechanism, mu))
    for epsilon in (0.5, 1.0, 3.0):
        mechanism = Mechanism("Laplace", epsilon, 0.0, epsilon, partial(laplace, epsilon))
        found.append(Scenario(f"Laplace ε = {epsilon:g}", mechanism, epsilon))
    return tuple(found)


SCENARIOS = scenarios()


def rng_of(*name: object) -> Rng:
    """The stream of one cell of a table."""
    return np.random.default_rng([SEED, *repr(name).encode()])


def known_threshold_bound(scenario: Scenario, n: int) -> float:
    """Return the median Clopper-Pearson bound at the best threshold on the score.

    The best of 101 thresholds and 19 splits of α by the median of 301 simulated bounds; the bound
    is the median of 4001 others, so that it owes nothing to the choice.
    """
    rng, delta = rng_of("known threshold", scenario.name, n), scenario.mechanism.delta
    outputs, splits = scenario.outputs(), np.linspace(0.05, 0.95, 19)
    counts = simulated(scenario, n, outputs, 301, rng)
    bounds = np.array([np.median(bound(*counts, n, delta, split), axis=1) for split in splits])
    split, place = np.unravel_index(bounds.argmax(), bounds.shape)
    again = simulated(scenario, n, outputs[[place]], 4001, rng)
    return float(np.median(bound(*again, n, delta, float(splits[split]))))


def simulated(
    scenario: Scenario, n: int, outputs: Scores, size: int, rng: Rng
) -> tuple[Scores, Scores]:
    """True and false positives of n trials a class, shape (outputs, size)."""
    tp, fp = (
        rng.binomial(n, np.clip(rate, 0, 1)[:, None], (len(outputs), size))
        for rate in scenario.rates(outputs)
    )
    return tp, fp


def bound(tp: Scores, fp: Scores, n: int, delta: float, split: float) -> Scores:
    """Clopper-Pearson bounds on ε from an event and its complement."""
    low = np.where(tp > 0, betaincinv(np.maximum(tp, 1), n - tp + 1, ALPHA * (1 - split)), 0)
    high = np.where(fp < n, betainccinv(fp + 1, np.maximum(n - fp, 1), ALPHA * split), 1)
    event = np.maximum(low - delta, high) / high
    complement = np.maximum(1 - high - delta, 1 - low) / (1 - low)
    return np.log(np.maximum(event, complement))


def one_run_gdp(scenario: Scenario, rng: Rng, n: int) -> Estimate:
    """The f-DP bound, the number of guesses chosen as `one_run_scores_epsilon` chooses it."""
    found, coins = scenario.mechanism.coins(rng, 2 * n)
    right = np.append(0, np.cumsum(coins[np.argsort(found)]))
    grid = default_grid(2 * n)
    bounds = [
        one_run_gdp_epsilon(
            2 * n,
            high + low,
            int(right[-1] - right[2 * n - high] + low - right[low]),
            delta=scenario.mechanism.delta,
            alpha=ALPHA / len(grid),
        )
        for high, low in grid
    ]
    return max(bounds, key=lambda estimate: estimate.lower)


def upper_quarter(scenario: Scenario, rng: Rng, n: int) -> Estimate:
    """The Gaussian-DP bound of the event that has probability ¼ in D."""
    at = replace(scenario.mechanism, threshold=float(scenario.score(ndtri(0.75))))
    return method("Gaussian DP, fixed event").audit(at, rng, n)


@dataclass(frozen=True)
class Row:
    """A method of the tightness table."""

    name: str
    kind: Kind
    audit: Callable[[Scenario, Rng, int], Estimate]
    gaussian_only: bool = False


def method(name: str) -> Method:
    """A method by its name."""
    return next(m for m in METHODS if m.name == name)


def same(name: str) -> Row:
    """A method of the other table, on the scenario's mechanism."""
    found = method(name)
    return Row(
        name,
        found.kind,
        lambda scenario, rng, n: found.audit(scenario.mechanism, rng, n),
        found.positive_delta,
    )


ROWS = (
    same("label test, coin flips"),
    same("label test, fixed classes"),
    same("two-sample form"),
    same("one run, scores"),
    same("one run, guesses"),
    same("Gaussian DP, all scores"),
    Row("Gaussian DP, upper quarter", "assumes-gdp", upper_quarter, True),
    Row("one run, Gaussian f-DP", "assumes-gdp", one_run_gdp, True),
    same("likelihood form"),
)


def tightness(row: int, scenario: Scenario, n: int, audits: int) -> float | None:
    """The median bound over the truth; none where the method does not apply."""
    how = ROWS[row]
    if how.gaussian_only and not scenario.is_gaussian:
        return None
    rng = rng_of(how.name, scenario.name, n)
    bounds = [how.audit(scenario, rng, n).lower for _ in range(audits)]
    return median(bounds) / scenario.mechanism.epsilon
