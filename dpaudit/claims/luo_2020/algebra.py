"""Mathematical statements about fake gradients (Luo et al. 2020), tested on instances.

Each check takes a seed and describes an instance on which its statement fails, or returns None.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.accounting import randomized_response_epsilon
from dpaudit.bounds.divergence.estimates import sequence_kl
from dpaudit.core.streams import Streams, generator
from dpaudit.data.source import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.federated.clients import Server
from dpaudit.defenses.federated.fake_gradients import FakeGradients

Floats = NDArray[np.float64]

_ROUNDING = 1e-9
_TRUTHS = (0.51, 0.55, 0.75, 0.9, 0.99)
# The level of the statistical tests that the statements are about, and the probability that a check
# rejects a true statement.
_LEVEL, _FALSE_ALARM = 0.01, 1e-6


def _rng(seed: int) -> np.random.Generator:
    return generator(seed)


def best_fake(seed: int) -> str | None:
    """The mean KL over users is `k [tr Σ + ‖ḡ − F‖²]/(2σ²)`, with its only minimum at F = ḡ."""
    rng = _rng(seed)
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

    rng = _rng(seed)
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
    rng = _rng(seed)
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
    rng = _rng(seed)
    for n, p in itertools.product(range(1, 8), _TRUTHS):
        truths = tuple(int(t) for t in rng.integers(0, 2, n))
        share = sum(truths) / n
        first, second = _moments_of_answers(truths, p)
        variance = p * (1 - p) / (2 * p - 1) ** 2 / n
        if abs(first - share) > _ROUNDING or abs(second - first**2 - variance) > 1e-6 * variance:
            return f"n = {n}, p = {p}, π = {share:.3g}: mean {first}, variance {second - first**2}"
    return None


def response(seed: int) -> str | None:
    """One answer is exactly `|ln(p/(1 − p))|`-private."""
    for p in (*_TRUTHS, *_rng(seed).uniform(0.5, 1, 50).tolist()):
        loss = max(abs(math.log(a / b)) for a, b in ((p, 1 - p), (1 - p, p)))
        for stated in (math.log(p / (1 - p)), randomized_response_epsilon(p).value):
            if abs(loss - stated) > _ROUNDING:
                return f"p = {p}: {loss} for {stated}"
    return None


def response_of_user(seed: int) -> str | None:
    """All of a user's answers together are `|ln(p/(1 − p))|`-private."""
    rng = _rng(seed)
    for n, p in itertools.product(range(1, 8), _TRUTHS):
        one = rng.integers(0, 2, n)
        patterns = np.array(list(itertools.product((0, 1), repeat=n)))

        def log_chance(
            truths: NDArray[np.int64], p: float = p, patterns: NDArray[np.int64] = patterns
        ) -> Floats:
            return np.where(patterns == truths, math.log(p), math.log(1 - p)).sum(1)

        loss = float(abs(log_chance(one) - log_chance(1 - one)).max())
        claimed = math.log(p / (1 - p))
        if loss > claimed * (1 + _ROUNDING):
            return f"{n} candidates, p = {p}: ε = {loss:.4g} where {claimed:.4g} is claimed"
    return None


def two_valued(seed: int) -> str | None:
    """One round of Shin et al.'s output is ε'-private, attained at x = ±1; less against a fake.

    `P(+) = ½ + x d/(2 level)`, with the level that dpaudit sends. Real and fake submissions differ
    by at most `ln((1 + e^ε')/2)`.
    """
    rng = _rng(seed)
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

    rng = _rng(seed)
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
    rng = _rng(seed)
    for _ in range(200):
        real, fakes, d = int(rng.integers(1, 20)), int(rng.integers(0, 60)), int(rng.integers(1, 9))
        gradients, fake = rng.normal(size=(real, d)), rng.normal(size=d)
        count = real + fakes
        found = _received(gradients.sum(0) + fakes * fake, count, fake, real / count)
        if abs(found - gradients.mean(0)).max() > 1e-5 * count:
            return f"{real} real, {fakes} fake: {found} for {gradients.mean(0)}"
    return None


def zero_mean(seed: int) -> str | None:
    """A test of the mean identifies no rated items in a training whose fakes follow the mean.

    The test for mean 0 is centred at the F_t that the server broadcast: `k ‖mean(x_t − F_t)‖²/σ²`
    is χ²_d for a fake. The statement fails if real submissions exceed the 1 % point significantly
    more often (at level 1e-6).
    """
    from scipy.stats import binom, chi2

    defense = FakeGradients(epsilon=50.0, rounds=100, dimensions=4, offset=3.5, memory=0.999)
    ratings = generate(
        SyntheticParams(n_users=60, n_items=30, mean_per_user=10, minimum_per_user=4, seed=1)
    )
    observed = defense.prepare(ratings)
    transcript = defense.transcript(observed, Streams.first(seed, "zero mean", 1))
    moved = np.zeros((len(transcript.real), defense.dimensions))
    for seen, _ in transcript.rounds():
        fakes = seen.fakes[transcript.pairs.items[seen.place]]
        moved[seen.place] += seen.shown - fakes
    z = (moved**2).sum(1) / (defense.rounds * transcript.pairs.sigma**2)
    found = z > chi2.isf(_LEVEL, defense.dimensions)
    real, fake = found[transcript.real], found[~transcript.real]
    if real.sum() <= binom.isf(_FALSE_ALARM, len(real), _LEVEL):
        return None
    return (
        f"the test identifies {real.sum()} of {len(real)} rated items ({real.mean():.0%}) and "
        f"{fake.sum()} of {len(fake)} others ({fake.mean():.1%})"
    )
