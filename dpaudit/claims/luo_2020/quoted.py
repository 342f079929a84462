"""Statements that Luo et al. 2020 quote, or make about others' mechanisms, tested on instances.

Each check takes a seed and describes an instance on which its statement fails, or returns None. The
available copies of the paper have lost its formulas, so these are the quoted papers' own.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from dpaudit.bounds.model_based.gdp import gaussian_delta
from dpaudit.core.streams import generator
from dpaudit.defenses.factors import width
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.kernels.federated import submissions as kernels

_ROUNDING = 1e-9


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
    found = []
    for epsilon in (0.1, 1.0, 4.0):
        defense = FakeGradients(epsilon=epsilon, fakes="two-valued", rounds=1, dimensions=1)
        x = float(rng.uniform(0.5, 1))
        apart = abs(_positive(x, defense.level, 1.0) - _positive(x, defense.level, 0.0))
        if apart > 1e-3:
            found.append(
                f"ε' = {epsilon:g}, gradient {x:.2f}: a guess from one round is right with "
                f"probability {0.5 + apart / 2:.3f}"
            )
    return found[-1] if found else None
