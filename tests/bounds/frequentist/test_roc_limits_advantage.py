"""The largest advantage over thresholds: against scipy, by hand, and its coverage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.bounds.frequentist.roc import best_advantage
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Scores = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Scores]

# Laws of the scores on D and on D', and the largest difference of their distribution functions.
LAWS: dict[str, tuple[Draw, Draw, float]] = {
    "same": (lambda rng, n: rng.normal(size=n), lambda rng, n: rng.normal(size=n), 0.0),
    "shifted": (
        lambda rng, n: rng.normal(size=n),
        lambda rng, n: rng.normal(1, 1, n),
        2 * float(stats.norm.cdf(0.5)) - 1,
    ),
    # Large scores are likelier on D, and all scores are 0 or 1.
    "atoms": (
        lambda rng, n: (rng.random(n) < 0.6).astype(float),
        lambda rng, n: (rng.random(n) < 0.3).astype(float),
        0.3,
    ),
    "wider": (lambda rng, n: rng.uniform(-1, 1, n), lambda rng, n: rng.uniform(-2, 2, n), 0.25),
}


def estimates(law: str, n: int, alpha: float) -> Iterator[tuple[Estimate, float]]:
    absent, present, truth = LAWS[law]
    rng = np.random.default_rng([3, *law.encode()])
    while True:
        yield best_advantage(absent(rng, n), present(rng, 2 * n), alpha=alpha), truth


@pytest.mark.cases("law", LAWS)
def test_coverage(law: str) -> None:
    missed = (not e.lower <= truth <= e.upper for e, truth in estimates(law, 50, 0.05))
    assert not claims_too_much(missed, 1e-6 / len(LAWS))


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
def test_the_level_holds_in_many_audits(law: str) -> None:
    """At level 0.4, where a band that is too narrow would show: 4000 audits each."""
    runs, audits = 4000, estimates(law, 50, 0.4)
    missed = sum(
        not e.lower <= truth <= e.upper for e, truth in (next(audits) for _ in range(runs))
    )
    assert missed <= stats.binom.isf(1e-6, runs, 0.4)


@pytest.mark.long
def test_each_band_alone_is_used_up() -> None:
    """A band of Massart's width is left about as often as stated, so no narrower one would do."""
    rng, n, level, runs = np.random.default_rng(4), 200, 0.1, 1000
    band = math.sqrt(math.log(2 / level) / (2 * n))
    left = sum(stats.kstest(rng.random(n), "uniform").statistic > band for _ in range(runs))
    assert 0.6 * level * runs < left < 1.4 * level * runs


@pytest.mark.cases("law", LAWS)
def test_the_value_is_the_statistic_of_kolmogorov_and_smirnov(law: str) -> None:
    absent, present, _ = LAWS[law]
    rng = np.random.default_rng(5)
    pair = absent(rng, 70), present(rng, 110)
    estimate = best_advantage(*pair, alpha=0.01, confidence=0.9)
    assert estimate.value == pytest.approx(stats.ks_2samp(*pair).statistic)
    assert best_advantage(*pair[::-1], alpha=0.01).value == estimate.value
    assert (estimate.alpha, estimate.confidence, estimate.n) == (0.01, 0.9, 180)
    assert estimate.kind == "frequentist"
    band = math.sqrt(math.log(400) / 140) + math.sqrt(math.log(400) / 220)
    assert estimate.lower == pytest.approx(max(0.0, estimate.value - band))
    assert estimate.upper == pytest.approx(min(1.0, estimate.value + band))


def test_scores_that_never_meet_have_advantage_1() -> None:
    estimate = best_advantage(np.zeros(5000), np.ones(5000), alpha=0.05)
    assert (estimate.value, estimate.upper) == (1.0, 1.0)
    assert estimate.lower > 0.9


@pytest.mark.cases(
    ("absent", "alpha", "message"),
    [([], 0.05, "absent are empty"), ([math.inf], 0.05, "finite"), ([0.0], 1.0, "alpha = 1.0")],
)
def test_bad_input(absent: list[float], alpha: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        best_advantage(np.array(absent), np.zeros(3), alpha=alpha)
