"""Instances that contradict mathematical statements about fake gradients (Luo et al. 2020).

Each check takes a seed and describes an instance on which its statement fails, or returns None.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams, generator
from dpaudit.data.source import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.factors import width
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.kernels.federated import submissions as kernels

Floats = NDArray[np.float64]

_ROUNDING = 1e-9
_TRUTHS = (0.51, 0.55, 0.75, 0.9, 0.99)
# The level of the statistical tests that the statements are about, and the probability that a check
# rejects a true statement.
_LEVEL, _FALSE_ALARM = 0.01, 1e-6


def response_of_user(seed: int) -> str | None:
    """All of a user's answers together are `|ln(p/(1 − p))|`-private."""
    rng = generator(seed)
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
    identified = z > chi2.isf(_LEVEL, defense.dimensions)
    real, fake = identified[transcript.real], identified[~transcript.real]
    if real.sum() <= binom.isf(_FALSE_ALARM, len(real), _LEVEL):
        return None
    return (
        f"the test identifies {real.sum()} of {len(real)} rated items ({real.mean():.0%}) and "
        f"{fake.sum()} of {len(fake)} others ({fake.mean():.1%})"
    )


def _positive(x: float, level: float, weight: float) -> float:
    """Return the share of evenly spaced draws for which a gradient x is sent as +.

    The submissions are dpaudit's own, for one factor u = −x and a rating of 1 that is predicted
    as 0. With `weight` 0 the submission is a fake.
    """
    count = 10_001
    size = width(1)
    left, right = np.zeros(size, np.float32), np.zeros(size, np.float32)
    left[0] = -x
    zeros = np.zeros(count, np.int32)
    even = ((np.arange(count) + 0.5) / count).astype(np.float32)
    draws = np.stack([even, even])
    shown = np.zeros(count * size, np.float32)
    kernels.submit_signs(
        np.arange(count, dtype=np.int32), zeros, zeros, np.ones(count, np.float32),
        np.full(count, weight, np.float32), left, right, size, 1, level, draws,
        np.zeros(size, np.float32), shown,
    )  # fmt: skip
    return float((shown.reshape(count, size)[:, 0] > 0).mean())


def one_round(seed: int) -> str | None:
    """One round's output has the same law whether an item was rated or not.

    A coordinate is positive with probability `½ (1 + x tanh(ε'/2))` for a gradient x, and ½ for a
    fake. So the best guess of an observer who knows the sign of x is right with probability
    `½ + |x| tanh(ε'/2)/4`.
    """
    rng = generator(seed)
    findings = []
    for epsilon in (0.1, 1.0, 4.0):
        defense = FakeGradients(epsilon=epsilon, fakes="two-valued", rounds=1, dimensions=1)
        x = float(rng.uniform(0.5, 1))
        apart = abs(_positive(x, defense.level, 1.0) - _positive(x, defense.level, 0.0))
        if apart > 1e-3:
            findings.append(
                f"ε' = {epsilon:g}, gradient {x:.2f}: a guess from one round is right with "
                f"probability {0.5 + apart / 2:.3f}"
            )
    return findings[-1] if findings else None
