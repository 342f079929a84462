"""Statements of Liu, Wang & Smola 2015 that hold by algebra: no instance contradicts them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.claims.liu_wang_smola_2015 import _covariances
from dpaudit.core.streams import generator
from dpaudit.data.ratings import STARS, from_profiles
from dpaudit.defenses.factorization.sampled import SampledFactors

Statement = Callable[[int], str | None]

_INSTANCES = 300
_ROUNDING = 1e-9


def near_draw(seed: int) -> str | None:
    """Laws within δ in total variation of ε-private ones are (ε, (1 + e^ε) δ)-private."""
    rng = generator((seed, 21))
    for _ in range(_INSTANCES):
        size, epsilon, delta = int(rng.integers(2, 20)), rng.exponential(2), 0.3 * rng.random()
        # Weights that differ by a factor of at most e^±ε/2 have normalised laws within e^±ε.
        first = rng.dirichlet(np.full(size, 0.3))
        second = first * np.exp(epsilon * rng.integers(0, 2, size) / 2)
        laws = first, second / second.sum()
        near = [_mixed(law, rng.dirichlet(np.full(size, 0.3)), delta) for law in laws]
        for p, q in (near, near[::-1]):
            # The largest P(S) − e^ε Q(S) over all sets S
            found = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            if found > (1 + math.exp(epsilon)) * delta + _ROUNDING:
                return f"{size} outputs, ε = {epsilon:g}, δ = {delta:g}: {found:g}"
    return None


def _mixed(
    law: NDArray[np.float64], other: NDArray[np.float64], delta: float
) -> NDArray[np.float64]:
    """Mix the law with another one until it is δ away in total variation, or equals the other."""
    apart = abs(law - other).sum() / 2
    share = min(1.0, delta / apart)
    mixed: NDArray[np.float64] = (1 - share) * law + share * other
    return mixed


def unscaled(seed: int) -> str | None:
    """At ε = 4B with all weights 1 the law is `∝ exp(−Σ(r − r̂)² − λ(‖U‖² + ‖V‖²))`."""
    rng = generator((seed, 22))
    for _ in range(_INSTANCES // 10):
        cap, margin, decay = int(rng.integers(2, 20)), rng.random(), float(rng.exponential(3)) + 0.1
        least = cap * (STARS.width + margin) ** 2
        defense = SampledFactors(
            epsilon=4 * least, cap=cap, margin=margin, decay=decay, dimensions=2, accept="any"
        )
        profiles = [[(i, float(rng.integers(1, 6))) for i in range(2)] for _ in range(2)]
        rows = defense.prepare(from_profiles(profiles, 2))
        law = defense.law(rows)
        if not np.allclose(law.weights, 1) or not math.isclose(law.deviation**-2, 2 * decay):
            return f"τ = {cap}, κ = {margin:g}: weights {law.weights}, s = {law.deviation:g}"
    return None


def lazy_noise(seed: int) -> str | None:
    """Noise drawn when a coordinate is next read gives the same law as noise drawn at every step.

    The model has biases only, so all laws are normal. The means agree by construction, and the
    covariances of all coordinates are propagated for both schemes.
    """
    rng = generator((seed, 23))
    for _ in range(_INSTANCES // 10):
        dense, lazy, due = _covariances(rng)
        lazy += np.diag(due)
        if not np.allclose(dense, lazy, rtol=0, atol=1e-9 * dense.max()):
            return f"covariances differ by {abs(dense - lazy).max():g}"
    return None


HELD: dict[str, tuple[Statement, ...]] = {
    "lws15-thm2-delta": (near_draw,),
    "lws15-s3-nonprivate": (unscaled,),
    "lws15-s3-lazy": (lazy_noise,),
}


@pytest.mark.cases(
    "statement", [one for several in HELD.values() for one in several], ids=lambda one: one.__name__
)
@pytest.mark.cases("seed", range(3))
def test_no_instance_contradicts_a_derivation(statement: Statement, seed: int) -> None:
    assert statement(seed) is None
