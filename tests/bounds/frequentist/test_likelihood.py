"""Bounds from log-likelihood ratios: closed forms, error rates, wrong ratios."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.bounds.frequentist.likelihood import likelihood_epsilon, two_sample_epsilon
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Values = NDArray[np.float64]
DELTA = 1e-5


def gaussian_delta(mu: float, epsilon: float) -> float:
    cdf = stats.norm.cdf
    at = -epsilon / mu
    return float(cdf(at + mu / 2) - math.exp(epsilon) * cdf(at - mu / 2))


def gaussian_epsilon(mu: float, delta: float) -> float:
    return float(optimize.brentq(lambda e: gaussian_delta(mu, e) - delta, 0, 40, xtol=1e-10))


def gaussian_ratio(mu: float, output: Values) -> Values:
    return mu * output - mu**2 / 2


def laplace_ratio(output: Values) -> Values:
    """L of scale 1 and shift 1, on a grid that keeps its two atoms whole."""
    return np.round(abs(output) - abs(output - 1), 9)


def laplace(rng: np.random.Generator, n: int) -> tuple[Values, Values]:
    return laplace_ratio(1 + rng.laplace(size=n)), laplace_ratio(rng.laplace(size=n))


def gaussian(mu: float, rng: np.random.Generator, n: int) -> tuple[Values, Values]:
    return tuple(gaussian_ratio(mu, m + rng.normal(size=n)) for m in (mu, 0.0))  # type: ignore[return-value]


def median(bound: Callable[[np.random.Generator], float], runs: int = 9) -> float:
    return float(np.median([bound(np.random.default_rng(100 + run)) for run in range(runs)]))


# Tightness and closed forms.


@pytest.mark.cases("mu", [0.5, 1.0, 2.0])
def test_tightness_on_gaussian_noise(mu: float) -> None:
    true, n = gaussian_epsilon(mu, DELTA), 10_000
    assert true == pytest.approx({0.5: 1.993, 1.0: 4.377, 2.0: 9.997}[mu], abs=6e-4)
    for least, bound in (
        (0.79, lambda g: likelihood_epsilon(gaussian(mu, g, n)[0], delta=DELTA).lower),
        (0.38, lambda g: two_sample_epsilon(*gaussian(mu, g, n), delta=DELTA).lower),
    ):
        assert least * true < median(bound) <= true


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_tightness_on_laplace_noise(delta: float) -> None:
    # δ(ε) = 1 − e^{(ε − d)/2} at scale 1 and shift d = 1.
    true = 1 + 2 * math.log1p(-delta)
    ratio = median(lambda g: likelihood_epsilon(laplace(g, 10_000)[0], delta=delta).lower)
    assert 0.995 * true < ratio <= 1
    estimate = two_sample_epsilon(*laplace(np.random.default_rng(0), 10_000), delta=delta)
    assert (estimate.kind, estimate.n, estimate.upper) == ("frequentist", 10_000, math.inf)
    both = median(lambda g: two_sample_epsilon(*laplace(g, 10_000), delta=delta).lower)
    assert 0.93 * true < both <= true
    # Separate limits at α/2 for the best event, known in advance, and exact for both data sets.
    p, q = 0.5, 0.5 * math.exp(-1)
    n = 10_000
    low = stats.beta.ppf(0.025, p * n, n - p * n + 1)
    high = stats.beta.isf(0.025, q * n + 1, n - q * n)
    assert both > math.log((low - delta) / high)


# Error rates.


def often_false(claim: Callable[[np.random.Generator], bool], failure: float) -> bool:
    audits = (claim(np.random.default_rng([9, run])) for run in count())
    return bool(claims_too_much(audits, failure))


@pytest.mark.cases("form", ["likelihood", "two-sample"])
def test_false_claims(form: str) -> None:
    mu, delta, n = 1.0, 0.05, 40
    true = gaussian_epsilon(mu, delta)

    def claim(rng: np.random.Generator) -> bool:
        present, absent = gaussian(mu, rng, n)
        if form == "two-sample":
            return two_sample_epsilon(present, absent, delta=delta).lower > true
        return likelihood_epsilon(present, delta=delta).lower > true

    assert not often_false(claim, 1e-6 / 2)


def test_the_count_of_false_claims_has_power() -> None:
    """Claims that are too large by a quarter are noticed."""
    true = 1.0

    def claim(rng: np.random.Generator) -> bool:
        return two_sample_epsilon(*laplace(rng, 400)).lower + 0.25 > true

    assert often_false(claim, 1e-6)


# Wrong log-likelihood ratios (the eighth trap).


@pytest.mark.long
@pytest.mark.parametrize("wrong", ["twice", "sign", "noise", "cube"])
def test_a_wrong_ratio(wrong: str) -> None:
    """The likelihood form certifies a fiction; the two-sample form errs at no more than α."""
    # 60 audits at α = 0.05, four cases: rate 1e-6 / 4 a case.
    runs, n = 60, 200
    limit = stats.binom.isf(1e-6 / 4, runs, 0.05)
    delta = 0.01
    true = gaussian_epsilon(1.0, delta)
    change: Callable[[Values], Values] = {
        "twice": lambda x: 2 * x,
        "sign": lambda x: -3 * x + 6,
        "noise": lambda x: 4 * np.sin(50 * x),
        "cube": lambda x: x**3,
    }[wrong]
    fiction = sound = 0
    for run in range(runs):
        present, absent = map(change, gaussian(1.0, np.random.default_rng([10, run]), n))
        fiction += likelihood_epsilon(present, delta=delta).lower > true
        sound += two_sample_epsilon(present, absent, delta=delta).lower > true
    assert sound <= limit
    assert fiction > 0.9 * runs


def test_any_increasing_score_certifies_the_same() -> None:
    present, absent = gaussian(1.0, np.random.default_rng(11), 4000)
    estimate = two_sample_epsilon(present, absent, delta=DELTA)
    again = two_sample_epsilon(np.exp(present), np.exp(absent), delta=DELTA)
    assert again.lower == estimate.lower > 1


# Small and extreme cases.


def test_pure_form_is_the_largest_ratio() -> None:
    ratio = [0.2, -math.inf, 1.7, 3.0]
    assert likelihood_epsilon(ratio).lower == 3
    assert likelihood_epsilon([-2.0, -math.inf]).lower == 0
    assert likelihood_epsilon([0.0, math.inf]).lower == math.inf


def test_perfect_attack() -> None:
    n = 1000
    perfect = np.full(n, math.inf)
    assert likelihood_epsilon(perfect, delta=0.2).lower == math.inf
    assert likelihood_epsilon(perfect, delta=0.2).value == math.inf
    # Half of the mass impossible under Q, and no other evidence.
    half = np.where(np.arange(n) % 2, math.inf, 0.0)
    assert likelihood_epsilon(half, delta=0.4).lower == math.inf
    assert likelihood_epsilon(half, delta=0.6).lower == 0
    estimate = two_sample_epsilon(perfect, -perfect, delta=DELTA)
    assert estimate.value == math.inf
    # 1000 of 1000 against none: below ln(n / ln(1/α)), about the exact limit 5.6 at α = 0.05.
    assert 4.5 < estimate.lower < math.log(n / math.log(20))


def test_no_evidence() -> None:
    rng = np.random.default_rng(12)
    for n in (1, 2, 20, 500):
        zero = np.zeros(n)
        for estimate in (
            likelihood_epsilon(zero),
            likelihood_epsilon(zero, delta=0.1),
            two_sample_epsilon(zero, zero),
        ):
            assert (estimate.lower, estimate.value, estimate.n) == (0, 0, n)
    present, absent = gaussian(2.0, rng, 2000)
    assert two_sample_epsilon(absent, present).lower == 0


def test_unequal_classes() -> None:
    present, absent = laplace(np.random.default_rng(13), 20_000)
    few = two_sample_epsilon(present[:2000], absent[:2000])
    more = two_sample_epsilon(present[:2000], absent)
    other = two_sample_epsilon(present, absent[:2000])
    assert few.n == more.n == other.n == 2000
    assert few.lower < more.lower < 1
    assert few.lower < other.lower < 1
    # An incomplete group is left out.
    assert two_sample_epsilon(present[:2000], absent[:3999]).lower == few.lower


def test_level_and_confidence() -> None:
    present, absent = gaussian(1.0, np.random.default_rng(15), 3000)
    bounds: list[Callable[..., Estimate]] = [
        partial(likelihood_epsilon, present, delta=0.01),
        partial(two_sample_epsilon, present, absent, delta=0.01),
    ]
    for bound in bounds:
        usual, strict = bound(), bound(alpha=1e-4)
        assert 0 < strict.lower < usual.lower
        assert (usual.alpha, usual.confidence) == (0.05, 0.95)
        assert (strict.alpha, strict.confidence) == (1e-4, 1 - 1e-4)


# Bad input.

X = np.linspace(-1, 1, 50)


@pytest.mark.cases(
    ("call", "message"),
    [
        (lambda: likelihood_epsilon([0.0, math.nan]), r"log_ratio\[1\] = nan"),
        (lambda: likelihood_epsilon([]), "log_ratio have shape"),
        (lambda: likelihood_epsilon([[1.0]]), "log_ratio have shape"),
        (lambda: likelihood_epsilon(["a"]), "log_ratio are not numbers"),
        (lambda: likelihood_epsilon(X, delta=1.0), "delta = 1.0"),
        (lambda: likelihood_epsilon(X, alpha=0.0), "alpha = 0.0"),
        (lambda: two_sample_epsilon(X, [math.nan]), r"log_ratio_absent\[0\] = nan"),
        (lambda: two_sample_epsilon([], X), "log_ratio_present have shape"),
        (lambda: two_sample_epsilon(X, X, delta=-0.1), "delta = -0.1"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
