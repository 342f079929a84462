"""Statements of Luo et al. 2020 that hold by algebra: no instance contradicts them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
from detection_laws import sequence_kl  # type: ignore[import-not-found]
from numpy.typing import NDArray

from dpaudit.bounds.gdp import gaussian_delta
from dpaudit.core.streams import generator
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.federated.training import Server

Floats = NDArray[np.float64]
Statement = Callable[[int], str | None]

_ROUNDING = 1e-9
_TRUTHS = (0.51, 0.55, 0.75, 0.9, 0.99)
# The level of the statistical tests that the statements are about.
_LEVEL = 0.01


def best_fake(seed: int) -> str | None:
    """The mean KL over users is `k [tr Σ + ‖ḡ − F‖²]/(2σ²)`, with its only minimum at F = ḡ."""
    rng = generator(seed)
    for _ in range(200):
        users, k, d = (int(rng.integers(1, top)) for top in (9, 6, 5))
        sigma = float(rng.uniform(0.1, 5))
        gradients = rng.normal(size=(users, 1, d)) * np.ones((users, k, 1))
        mean = gradients.mean(0)
        scatter = float(((gradients[:, 0] - mean[0]) ** 2).sum(1).mean())
        least = float(sequence_kl(gradients, mean, sigma).mean())
        fake = mean + rng.normal(size=d) * 10.0 ** rng.uniform(-2, 1)
        apart = float(((mean - fake)[0] ** 2).sum())
        found = float(sequence_kl(gradients, fake, sigma).mean())
        closed = k * (scatter + apart) / (2 * sigma**2)
        if abs(found - closed) > _ROUNDING * closed or found <= least:
            return f"{users} users, F off the mean by {math.sqrt(apart):.3g}: {found} for {closed}"
    return None


def error_exponent(seed: int) -> str | None:
    """`−ln β_k / k → D` for the least β_k of a test at a fixed level, as kD = T grows.

    `β_k = Φ(−y)`, `y = √(2T) − z`, and by Mills' ratio (Gordon 1941, doi:10.1214/aoms/1177731721)

        y²/2 + ln y + ½ ln 2π ≤ −ln Φ(−y) ≤ y²/2 + ln(y + 1/y) + ½ ln 2π,

    so that `−ln β_k = T − z √(2T) + O(ln T)`.
    """
    from scipy.special import log_ndtr, ndtri

    rng = generator(seed)
    for _ in range(200):
        level = float(10.0 ** rng.uniform(-6, math.log10(0.5)))
        z = -float(ndtri(level))
        for total in 10.0 ** np.arange(2, 11):
            y = math.sqrt(2 * total) - z
            found = -float(log_ndtr(-y))
            least, most = (
                (y * y + math.log(2 * math.pi)) / 2 + math.log(x) for x in (y, y + 1 / y)
            )
            if not least * (1 - 1e-12) <= found <= most * (1 + 1e-12):
                return f"level {level}, kD = {total}: −ln β = {found} outside {least}, {most}"
        if abs(found / total - 1) > 1e-4:
            return f"level {level}, kD = {total}: −ln β = {found}"
    return None


def _estimate(yes: int, n: int, p: float) -> float:
    """π̂ = (p − 1)/(2p − 1) + n₁/((2p − 1) n)."""
    return (p - 1 + yes / n) / (2 * p - 1)


def _moments_of_answers(truths: tuple[int, ...], p: float) -> tuple[float, float]:
    """Return the mean and second moment of π̂ over all answers of respondents with these truths."""
    first = second = 0.0
    for answers in itertools.product((0, 1), repeat=len(truths)):
        chance = math.prod(p if a == t else 1 - p for a, t in zip(answers, truths, strict=True))
        value = _estimate(sum(answers), len(truths), p)
        first, second = first + chance * value, second + chance * value**2
    return first, second


def warner_drawn(seed: int) -> str | None:
    """For respondents drawn at random, π̂ is unbiased and has the printed variance.

    The variance is `π(1 − π)/n + p(1 − p)/((2p − 1)² n)`.
    """
    rng = generator(seed)
    for n, p in itertools.product(range(1, 6), _TRUTHS):
        share = float(rng.uniform(0, 1))
        first = second = 0.0
        for truths in itertools.product((0, 1), repeat=n):
            chance = math.prod(share if t else 1 - share for t in truths)
            one, two = _moments_of_answers(truths, p)
            first, second = first + chance * one, second + chance * two
        printed = (share * (1 - share) + p * (1 - p) / (2 * p - 1) ** 2) / n
        if abs(first - share) > _ROUNDING or abs(second - first**2 - printed) > 1e-6 * printed:
            return f"n = {n}, p = {p}, π = {share:.3g}: mean {first}, variance {second - first**2}"
    return None


def warner_everybody(seed: int) -> str | None:
    """If all n users respond, π̂ is unbiased and its variance is smaller by `π(1 − π)/n`."""
    rng = generator(seed)
    for n, p in itertools.product(range(1, 8), _TRUTHS):
        truths = tuple(int(t) for t in rng.integers(0, 2, n))
        share = sum(truths) / n
        first, second = _moments_of_answers(truths, p)
        variance = p * (1 - p) / (2 * p - 1) ** 2 / n
        if abs(first - share) > _ROUNDING or abs(second - first**2 - variance) > 1e-6 * variance:
            return f"n = {n}, p = {p}, π = {share:.3g}: mean {first}, variance {second - first**2}"
    return None


def _response_epsilon(p: float) -> float:
    """The ε of an answer that is true with this probability, at least ½."""
    return math.log(p / (1 - p))


def response(seed: int) -> str | None:
    """One answer is exactly `|ln(p/(1 − p))|`-private."""
    for p in (*_TRUTHS, *generator(seed).uniform(0.5, 1, 50).tolist()):
        loss = max(abs(math.log(a / b)) for a, b in ((p, 1 - p), (1 - p, p)))
        if abs(loss - _response_epsilon(p)) > _ROUNDING:
            return f"p = {p}: {loss} for {_response_epsilon(p)}"
    return None


def two_valued(seed: int) -> str | None:
    """One round of Shin et al.'s output is ε'-private, attained at x = ±1; less against a fake.

    `P(+) = ½ + x d/(2 level)`, with the level that dpaudit sends. Real and fake submissions differ
    by at most `ln((1 + e^ε')/2)`.
    """
    rng = generator(seed)
    for _ in range(200):
        epsilon, d = float(rng.uniform(0.01, 4)), int(rng.integers(1, 6))
        defense = FakeGradients(epsilon=epsilon, fakes="two-valued", rounds=1, dimensions=d)

        def chances(x: Floats, level: float = defense.level, d: int = d) -> Floats:
            plus = 0.5 + x * d / (2 * level)
            return np.concatenate([plus, 1 - plus]) / d

        first, second = rng.uniform(-1, 1, (2, d))
        ends = np.ones(d)
        # As printed by Shin et al.: (x (e^ε − 1) + e^ε + 1)/(2 (e^ε + 1)).
        e = math.exp(epsilon)
        printed = (first * (e - 1) + e + 1) / (2 * (e + 1)) / d
        any_two = abs(np.log(chances(first) / chances(second))).max()
        largest = abs(np.log(chances(ends) / chances(-ends))).max()
        faked = abs(np.log(chances(ends) / chances(0 * ends))).max()
        if (
            abs(chances(first)[:d] - printed).max() > _ROUNDING
            or any_two > epsilon
            or abs(largest - epsilon) > _ROUNDING
            or abs(faked - math.log((1 + e) / 2)) > _ROUNDING
        ):
            return f"ε' = {epsilon}, d = {d}: {any_two}, {largest} at the ends, {faked} with a fake"
    return None


def sign_test(seed: int) -> str | None:
    """A sign test at level 1 % identifies rated items, given enough rounds.

    With d = 1, a round's value is + with probability `½ (1 + x tanh(ε'/2))` for a gradient x, and ½
    for a fake. By Hoeffding's inequality `k = 40/(x tanh(ε'/2))²` rounds are enough for a power of
    99 %: `√(½ ln 200) + √(½ ln 100) ≤ ½ √40`.
    """
    from scipy.stats import binom

    rng = generator(seed)
    for _ in range(100):
        epsilon, x = float(rng.uniform(0.1, 2)), float(rng.choice([-1, 1]) * rng.uniform(0.1, 1))
        lean = x * math.tanh(epsilon / 2)
        k = math.ceil(40 / lean**2)
        most = binom.isf(_LEVEL / 2, k, 0.5)
        plus = (1 + abs(lean)) / 2
        level = 2 * binom.sf(most, k, 0.5)
        power = binom.sf(most, k, plus) + binom.cdf(k - most - 1, k, plus)
        if level > _LEVEL or power < 1 - _LEVEL:
            return f"ε' = {epsilon:.3g}, x = {x:.3g}, {k} rounds: level {level}, power {power}"
    return None


def _received(sums: Floats, count: int, fake: Floats, share: float) -> Floats:
    """Return the next F of an item from dpaudit's own server."""
    d = len(fake)
    defense = FakeGradients(epsilon=1.0, dimensions=d, fake_clip_norm=1e6)
    row = np.zeros((1, 16), np.float32)
    row[0, :d] = fake
    server = Server(defense, np.zeros_like(row), row.copy(), np.array([share]), 0)
    total = np.zeros_like(row)
    total[0, :d] = sums
    server.receive(total, np.array([count]), row)
    return server.fakes[0, :d].astype(np.float64)


def correction(seed: int) -> str | None:
    """`(Σ x − (1 − π) n F)/(π n)` is an unbiased mean gradient if π is the true share.

    The noise has mean 0 and is left out. The next F is that of dpaudit's own server.
    """
    rng = generator(seed)
    for _ in range(200):
        real, fakes, d = int(rng.integers(1, 20)), int(rng.integers(0, 60)), int(rng.integers(1, 9))
        gradients, fake = rng.normal(size=(real, d)), rng.normal(size=d)
        count = real + fakes
        found = _received(gradients.sum(0) + fakes * fake, count, fake, real / count)
        if abs(found - gradients.mean(0)).max() > 1e-5 * count:
            return f"{real} real, {fakes} fake: {found} for {gradients.mean(0)}"
    return None


def laplace_noise(seed: int) -> str | None:
    """`Lap(Δ/ε)` on every coordinate is ε-private, where Δ is the L1 sensitivity, and attains ε.

    The log-ratio of the two densities at y is `Σ (|y_i − d_i| − |y_i|) ε/Δ`.
    """
    rng = generator(seed)
    for _ in range(200):
        epsilon = float(10.0 ** rng.uniform(-2, 2))
        shifts = rng.normal(size=int(rng.integers(1, 9)))
        largest = float(abs(shifts).sum())
        scale = _laplace_scale(largest, epsilon)
        drawn = rng.laplace(scale=scale, size=(500, len(shifts)))
        beyond = -np.sign(shifts) * (abs(shifts) + 1)
        outputs = np.vstack([drawn, beyond])
        losses = (abs(outputs - shifts) - abs(outputs)).sum(1) / scale
        if abs(losses).max() > epsilon * (1 + _ROUNDING) or losses[-1] < epsilon * (1 - _ROUNDING):
            return f"{len(shifts)} coordinates, ε = {epsilon}: {abs(losses).max()}"
    return None


def _laplace_scale(sensitivity: float, epsilon: float) -> float:
    return sensitivity / epsilon


def normal_noise(seed: int) -> str | None:
    """`σ = Δ √(2 ln(1.25/δ))/ε` is (ε, δ)-private for ε ≤ 1 (Dwork & Roth 2014, Theorem A.1)."""
    for epsilon, exponent in itertools.product((0.01, 0.1, 0.3, 0.6, 1.0), range(1, 13)):
        delta = 10.0**-exponent
        found = gaussian_delta(epsilon, epsilon / math.sqrt(2 * math.log(1.25 / delta)))
        if found > delta:
            return f"ε = {epsilon}, δ = {delta}: {found}"
    return None


def delayed_descent(seed: int) -> str | None:
    """The mean squared gradient of delayed descent is within the bound, by exact second moments.

    `x_{k+1} = x_k − γ (∇f(x_{k−τ}) + ξ_k)` on `f = L x²/2`, ξ of variance s²; with
    `Lγ + 2L²γ²T² ≤ 1`, over K steps,

        (1/K) Σ E‖∇f(x_k)‖² ≤ 2 (f(x_1) − f*)/(γK) + (γL + 2L²γ²T) s².
    """
    rng = generator(seed)
    for _ in range(60):
        delay, steps = int(rng.integers(0, 9)), int(rng.integers(1, 400))
        smooth, scatter, start = 10.0 ** rng.uniform(-1, 1, 3)
        largest = 1.0 if delay == 0 else (math.sqrt(1 + 8 * delay**2) - 1) / (4 * delay**2)
        rate = float(rng.uniform(0.05, 1)) * largest / smooth
        for lag in range(delay + 1):
            found = _mean_square(smooth, rate, scatter, start, lag, steps)
            bound = smooth * start**2 / (rate * steps)
            bound += (rate * smooth + 2 * (smooth * rate) ** 2 * delay) * scatter**2
            if found > bound * (1 + _ROUNDING):
                return f"L = {smooth}, γ = {rate}, delay {lag} of {delay}: {found} above {bound}"
    return None


def _mean_square(
    smooth: float, rate: float, scatter: float, start: float, lag: int, steps: int
) -> float:
    """Return the mean of `E (L x_k)²` over the steps; before them x stays at its start."""
    # The state is the last lag + 1 iterates, newest first.
    shift = np.eye(lag + 1, k=-1)
    shift[0, 0] += 1.0
    shift[0, lag] -= rate * smooth
    moments = np.full((lag + 1, lag + 1), start**2)
    total = 0.0
    for _ in range(steps):
        total += float(moments[0, 0])
        moments = shift @ moments @ shift.T
        moments[0, 0] += (rate * scatter) ** 2
    return smooth**2 * total / steps


HELD: dict[str, tuple[Statement, ...]] = {
    "fg-thm2": (laplace_noise, normal_noise),
    "fg-thm5": (delayed_descent,),
    "fg-s4.1-optimum": (best_fake,),
    "fg-thm1-error": (error_exponent,),
    "fg-thm4-warner": (warner_drawn, warner_everybody),
    "fg-s4.4-response": (response,),
    "fg-s1-two-valued": (two_valued,),
    "fg-s1-sign-test": (sign_test,),
    "fg-s4.2-correction": (correction,),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "statement", [one for several in HELD.values() for one in several], ids=lambda one: one.__name__
)
@pytest.mark.parametrize("seed", range(3))
def test_no_instance_contradicts_a_derivation(statement: Statement, seed: int) -> None:
    assert statement(seed) is None


def twice_the_divergence(patch: pytest.MonkeyPatch) -> None:
    real = sequence_kl
    patch.setitem(globals(), "sequence_kl", lambda *args: 2 * real(*args))


def divergence_of_far_fakes(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "sequence_kl", lambda g, f, s: np.ones(len(g)))


def lighter_tail(patch: pytest.MonkeyPatch) -> None:
    real = scipy.special.log_ndtr
    patch.setattr(scipy.special, "log_ndtr", lambda y: 1.001 * real(y))


def shifted_estimate(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "_estimate", lambda yes, n, p: (p + yes / n) / (2 * p - 1))


def wider_estimate(patch: pytest.MonkeyPatch) -> None:
    def estimate(yes: int, n: int, p: float) -> float:
        return (p - 1 + yes / n) / (2 * p - 1) + 1e-3 * (yes % 2)

    patch.setitem(globals(), "_estimate", estimate)


def stated_too_low(patch: pytest.MonkeyPatch) -> None:
    real = _response_epsilon
    patch.setitem(globals(), "_response_epsilon", lambda p: real(p * 0.99))


def smaller_level(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FakeGradients, "level", 7.0)


def fewer_rounds(patch: pytest.MonkeyPatch) -> None:
    real = math.ceil
    patch.setattr(math, "ceil", lambda k: real(k / 2))


def wrong_share(patch: pytest.MonkeyPatch) -> None:
    real = _received
    patch.setitem(globals(), "_received", lambda s, n, f, share: real(s, n, f, 0.9 * share))


PLANTED: list[tuple[Statement, Callable[[pytest.MonkeyPatch], None]]] = [
    (best_fake, twice_the_divergence),
    (best_fake, divergence_of_far_fakes),
    (error_exponent, lighter_tail),
    (warner_drawn, shifted_estimate),
    (warner_drawn, wider_estimate),
    (warner_everybody, shifted_estimate),
    (warner_everybody, wider_estimate),
    (response, stated_too_low),
    (two_valued, smaller_level),
    (sign_test, fewer_rounds),
    (correction, wrong_share),
]


@pytest.mark.cases(
    ("check", "error"), PLANTED, ids=[f"{c.__name__}/{e.__name__}" for c, e in PLANTED]
)
def test_a_true_statement_fails_when_an_error_is_planted(
    check: Statement, error: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(0) is None
    error(monkeypatch)
    assert check(0) is not None


def test_laplace_noise_of_a_tenth_less_is_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "_laplace_scale", lambda most, epsilon: 0.9 * most / epsilon)
    assert laplace_noise(0) is not None


def test_normal_noise_of_a_tenth_less_is_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gaussian_delta
    monkeypatch.setitem(globals(), "gaussian_delta", lambda e, mu: real(e, mu / 0.8))
    assert normal_noise(0) is not None


def test_a_delay_that_the_condition_forbids_breaks_the_bound() -> None:
    # Lγ = 1 with 8 steps of delay, where 0.084 is allowed: descent diverges.
    slow = _mean_square(1.0, 0.08, 0.0, 1.0, 8, 400)
    fast = _mean_square(1.0, 1.0, 0.0, 1.0, 8, 400)
    assert slow < 2 * 0.5 / (0.08 * 400)
    assert fast > 1e6 * 2 * 0.5 / 400


def test_moments_are_those_of_simulated_descent() -> None:
    rng = np.random.default_rng(3)
    rate, lag, steps, trials = 0.2, 3, 40, 20_000
    past = np.ones((lag + 1, trials))
    squares = []
    for _ in range(steps):
        squares.append(float((past[0] ** 2).mean()))
        following = past[0] - rate * (past[lag] + rng.normal(size=trials))
        past = np.concatenate([following[None], past[:-1]])
    found = _mean_square(1.0, rate, 1.0, 1.0, lag, steps)
    assert found == pytest.approx(np.mean(squares), rel=0.02)
