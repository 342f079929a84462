"""Bounds from log-likelihood ratios: closed forms, error rates, wrong ratios, weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.bounds.frequentist.likelihood import likelihood_epsilon
from dpaudit.bounds.frequentist.proposals import NoiseProposal
from dpaudit.bounds.frequentist.two_sample import two_sample_epsilon
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


def tilted(mu: float, epsilon: float, rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Trials on both data sets with tilted noise: arguments of the two-sample form."""
    edge = epsilon / mu + mu / 2 + 0.3
    near, far = (NoiseProposal("gaussian", 1.0, (edge - m,)) for m in (mu, 0.0))
    present, absent = near.draw(n, rng), far.draw(n, rng)
    return {
        "log_ratio_present": gaussian_ratio(mu, mu + present[:, 0]),
        "log_ratio_absent": gaussian_ratio(mu, absent[:, 0]),
        "weight_present": near.weight(present),
        "weight_absent": far.weight(absent),
        # L and the weight are monotone in the noise: the largest weight where L ≥ τ is that at τ.
        "weight_absent_bound": lambda t: float(far.weight(np.array([[t / mu + mu / 2]]))[0]),
    }


def median(bound: Callable[[np.random.Generator], float], runs: int = 9) -> float:
    return float(np.median([bound(np.random.default_rng(100 + run)) for run in range(runs)]))


# Tightness and closed forms.


@pytest.mark.cases("mu", [0.5, 1.0, 2.0])
def test_tightness_on_gaussian_noise(mu: float) -> None:
    true, n = gaussian_epsilon(mu, DELTA), 10_000
    assert true == pytest.approx({0.5: 1.993, 1.0: 4.377, 2.0: 9.997}[mu], abs=6e-4)

    def likelihood(rng: np.random.Generator) -> float:
        runs = tilted(mu, true, rng, n)
        estimate = likelihood_epsilon(
            runs["log_ratio_present"], delta=DELTA, weight=runs["weight_present"]
        )
        assert estimate.kind == "assumes-law"
        assert estimate.value == pytest.approx(true, rel=0.03)
        return estimate.lower

    def two_sample(rng: np.random.Generator) -> float:
        estimate = two_sample_epsilon(**tilted(mu, true, rng, n), delta=DELTA)
        assert estimate.kind == "assumes-law"
        return estimate.lower

    assert 0.98 * true < median(likelihood) <= true
    assert 0.91 * true < median(two_sample) <= true


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


def test_weights_are_unbiased() -> None:
    # Twelve means of 50 000 weighted values each: 5.5 standard errors, rate 5e-7.
    rng, n = np.random.default_rng(5), 50_000
    for law in ("gaussian", "laplace"):
        for share in (0.2, 0.8):
            proposal = NoiseProposal(law, 1.5, (2.0, -1.0), share)
            noise = proposal.draw(n, rng)
            weight = proposal.weight(noise)
            assert proposal.bound == pytest.approx(1 / (1 - share))
            assert 0 < weight.min() <= weight.max() <= proposal.bound
            variance = 1.5**2 * (1 if law == "gaussian" else 2)
            first, second = noise.T
            for values, mean in (
                (np.ones(n), 1.0),
                (first * second, 0.0),
                ((first - second) ** 2, 2 * variance),
            ):
                error = 5.5 * (weight * values).std() / math.sqrt(n)
                assert abs((weight * values).mean() - mean) < error
                # Without weights the mean is another: the test would see a missing weight.
                assert (values == 1).all() or abs(values.mean() - mean) > error


def test_weight_is_the_ratio_of_densities() -> None:
    z = np.array([[-3.0, 0.5], [0.0, 0.0], [40.0, 30.0], [-900.0, 2.0]])
    for law, density in (("gaussian", stats.norm), ("laplace", stats.laplace)):
        proposal = NoiseProposal(law, 2.0, (3.0, 1.0), 0.25)  # type: ignore[arg-type]
        log = [density.logpdf(z, loc=at, scale=2.0).sum(1) for at in ((0, 0), (3, 1))]
        expected = 1 / (0.75 + 0.25 * np.exp(log[1] - log[0]))
        assert proposal.weight(z) == pytest.approx(expected, rel=1e-10)


# Error rates.


def often_false(claim: Callable[[np.random.Generator], bool], failure: float) -> bool:
    audits = (claim(np.random.default_rng([9, run])) for run in count())
    return bool(claims_too_much(audits, failure))


@pytest.mark.cases("form", ["likelihood", "two-sample", "tilted"])
def test_false_claims(form: str) -> None:
    mu, delta, n = 1.0, 0.05, 40
    true = gaussian_epsilon(mu, delta)

    def claim(rng: np.random.Generator) -> bool:
        if form == "two-sample":
            return two_sample_epsilon(*gaussian(mu, rng, n), delta=delta).lower > true
        drawn = tilted(mu, true, rng, n)
        if form == "tilted":
            return two_sample_epsilon(**drawn, delta=delta).lower > true
        estimate = likelihood_epsilon(
            drawn["log_ratio_present"], delta=delta, weight=drawn["weight_present"]
        )
        return estimate.lower > true

    assert not often_false(claim, 1e-6 / 3)


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
    # An output of weight 0 is none of P's.
    assert likelihood_epsilon(ratio, weight=[1, 1, 0.5, 0]).lower == 1.7
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


def test_constant_bound_on_weights() -> None:
    """Weights 1 with the bound 1 are no weights at all, up to the kind."""
    present, absent = gaussian(1.0, np.random.default_rng(14), 3000)
    one = np.ones(3000)
    plain = two_sample_epsilon(present, absent, delta=DELTA)
    same = two_sample_epsilon(
        present, absent, delta=DELTA, weight_absent=one, weight_absent_bound=1.0
    )
    loose = two_sample_epsilon(
        present, absent, delta=DELTA, weight_absent=one, weight_absent_bound=50.0
    )
    assert same.lower == plain.lower
    assert (plain.kind, same.kind) == ("frequentist", "assumes-law")
    assert loose.lower < plain.lower


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
        (lambda: likelihood_epsilon(X, weight=[1.0]), "weight have shape"),
        (lambda: likelihood_epsilon(X, weight=-abs(X)), r"weight\[0\] = -1.0"),
        (lambda: likelihood_epsilon(X, weight=np.full(50, math.inf)), r"weight\[0\] = inf"),
        (lambda: two_sample_epsilon(X, [math.nan]), r"log_ratio_absent\[0\] = nan"),
        (lambda: two_sample_epsilon([], X), "log_ratio_present have shape"),
        (lambda: two_sample_epsilon(X, X, delta=-0.1), "delta = -0.1"),
        (lambda: two_sample_epsilon(X, X, weight_absent=abs(X)), "weight_absent_bound = None"),
        (lambda: two_sample_epsilon(X, X, weight_absent_bound=2.0), "weight_absent_bound = 2.0"),
        (
            lambda: two_sample_epsilon(
                X, X, weight_absent=np.full(50, 2.0), weight_absent_bound=1.5
            ),
            "weight_absent_bound = 1.5 does not bound a weight_absent of 2.0",
        ),
        (
            lambda: two_sample_epsilon(
                X, X, weight_absent=abs(X), weight_absent_bound=lambda t: math.inf
            ),
            "weight_absent_bound = inf",
        ),
        (lambda: NoiseProposal("cauchy", 1.0, (1.0,)), "law = 'cauchy'"),  # type: ignore[arg-type]
        (lambda: NoiseProposal("laplace", 0.0, (1.0,)), "scale = 0.0"),
        (lambda: NoiseProposal("laplace", 1.0, ()), r"shift = \(\)"),
        (lambda: NoiseProposal("laplace", 1.0, (math.nan,)), "shift = "),
        (lambda: NoiseProposal("laplace", 1.0, (1.0,), 1.0), "share = 1.0"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
