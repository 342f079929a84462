"""Exact log-ratios of the standard bench's mechanisms, by closed forms and quadrature.

The score that certifies most is the log-ratio of the two output laws, or anything that grows with
it (Neyman & Pearson 1933): certified by the same test on as many outputs, it shows what the number
of outputs allows on a pair, whatever the score.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from standard_mechanisms import (  # type: ignore[import-not-found]
    BELOW,
    EPSILON,
    GEOMETRIC_RATIO,
    GEOMETRIC_TOP,
    STOPPED,
    bit_log_ratio,
    bloom,
)

Floats = NDArray[np.float64]
# ln of the density or probability of each output `(n, ...)`, from the data.
Law = Callable[[Floats, Floats], Floats]


def laplace_law(data: Floats, outputs: Floats, scale: float, copies: int = 1) -> Floats:
    """Sum of −|x − μ|/scale."""
    found: Floats = -np.abs(outputs - np.tile(data, copies)).sum(1) / scale
    return found


def prefix_law(data: Floats, outputs: Floats) -> Floats:
    """As `laplace_law`, of the steps."""
    return laplace_law(data, np.diff(outputs, axis=1, prepend=0.0), 1 / EPSILON)


def geometric_law(data: Floats, outputs: Floats) -> Floats:
    """Probabilities of 0..5 by the distribution function of the two-sided geometric law."""
    a, z, count = GEOMETRIC_RATIO, np.arange(GEOMETRIC_TOP), data[0]
    below = np.where(z < count, a ** (count - z * 1.0), 1 + a - a ** (z - count + 1.0)) / (1 + a)
    found: Floats = np.log(np.diff(np.r_[0.0, below, 1.0]))[outputs.astype(int)]
    return found


def max_law(data: Floats, outputs: Floats, noise: str, value: bool) -> Floats:
    """Σ_i f(v − q_i) Π_{j ≠ i} F(v − q_j) at v, or its terms' integrals over v."""
    law = stats.laplace(scale=20) if noise == "laplace" else stats.expon(scale=20)
    grid = np.linspace(data.min() - 400, data.max() + 600, 200_001)
    at = outputs if value else grid
    density = law.pdf(at[:, None] - data)
    below = law.cdf(at[:, None] - data)
    others = np.stack([np.delete(below, i, 1).prod(1) for i in range(len(data))], axis=1)
    with np.errstate(divide="ignore"):
        if value:
            return np.asarray(np.log((density * others).sum(1)))
        return np.asarray(np.log(np.trapezoid(density * others, grid, axis=0))[outputs.astype(int)])


def vector_law(
    data: Floats,
    outputs: Floats,
    *,
    threshold: float = 1.0,
    threshold_scale: float,
    query_scale: float,
    cutoff: int | None,
    values: bool = False,
    value_scale: float | None = None,
) -> Floats:
    """The integral of `sparse_vector`, for each pattern of ⊥ and ⊤ once; see there.

    Where the compared answer is shown, the noise of the threshold is at most v − T: the integral
    ends there and the answer's density stands for 1 − F.
    """
    below = (outputs == BELOW) if values else outputs == 0
    above = ~below & (outputs != STOPPED)
    codes = (below + 2 * above) @ (3 ** np.arange(outputs.shape[1]))
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    step = threshold_scale / 200
    rho = step * np.arange(-12_000, 12_001)
    base = stats.laplace.pdf(rho, scale=threshold_scale)
    # 1 − F and F for each answer: an answer without noise is above or below for certain.
    gap = threshold + rho[:, None] - data
    low = stats.laplace.cdf(gap, scale=query_scale) if query_scale else (gap > 0).astype(float)
    found = np.empty(len(outputs))
    with np.errstate(divide="ignore"):
        for pattern, row in enumerate(first):
            rows = which == pattern
            inside = base * low[:, below[row]].prod(1)
            shown = np.flatnonzero(above[row])
            if values and value_scale is None and len(shown):
                value = outputs[rows, shown[0]]
                sums = np.r_[0.0, np.cumsum((inside[1:] + inside[:-1]) / 2)] * step
                density = stats.laplace.logpdf(value, data[shown[0]], query_scale)
                found[rows] = np.log(np.interp(value - threshold, rho, sums)) + density
                continue
            inside = inside * (1 - low[:, shown]).prod(1)
            found[rows] = np.log(np.trapezoid(inside, dx=step))
            if values and len(shown):
                found[rows] += stats.laplace.logpdf(
                    outputs[rows][:, shown], data[shown], value_scale
                ).sum(1)
    return found


def both_law(data: Floats, outputs: Floats, one: Law, other: Law) -> Floats:
    """Two mechanisms, each with half of the outputs."""
    half = outputs.shape[1] // 2
    return one(data, outputs[:, :half]) + other(data, outputs[:, half:])


def bits_law(data: Floats, outputs: Floats, ratio: float) -> Floats:
    """ln(q*/p*) for every bit that is shown as it is, up to a constant."""
    found: Floats = ratio * (outputs == bloom(int(data[0]))).sum(1)
    return found


_HALF = EPSILON / 2
_SCALES: dict[str, dict[str, Any]] = {
    "svt-1": {"threshold": 0.5, "threshold_scale": 1 / _HALF, "query_scale": 2 / _HALF},
    "svt-2": {"threshold_scale": 1 / _HALF, "query_scale": 2 / _HALF},
    "svt-3": {"threshold_scale": 1 / _HALF, "query_scale": 1 / _HALF, "values": True},
    "svt-4": {"threshold_scale": 4 / EPSILON, "query_scale": 4 / (3 * EPSILON)},
    "svt-5": {"threshold_scale": 1 / _HALF, "query_scale": 0.0, "cutoff": None},
    "svt-6": {"threshold_scale": 1 / _HALF, "query_scale": 1 / _HALF, "cutoff": None},
    "svt-numerical": {
        "threshold_scale": 3 / EPSILON,
        "query_scale": 12 / EPSILON,
        "cutoff": 2,
        "values": True,
        "value_scale": 6 / EPSILON,
    },
}
LAWS: dict[str, Law] = {
    "laplace": partial(laplace_law, scale=1 / EPSILON),
    "laplace-parallel": partial(laplace_law, scale=200.0, copies=20),
    "truncated-geometric": geometric_law,
    "noisy-hist-1": partial(laplace_law, scale=1 / EPSILON),
    "noisy-hist-2": partial(laplace_law, scale=EPSILON),
    "noisy-max-1": partial(max_law, noise="laplace", value=False),
    "noisy-max-2": partial(max_law, noise="exponential", value=False),
    "noisy-max-3": partial(max_law, noise="laplace", value=True),
    "noisy-max-4": partial(max_law, noise="exponential", value=True),
    **{name: partial(vector_law, **{"cutoff": 1, **scales}) for name, scales in _SCALES.items()},
    "prefix-sum": prefix_law,
    "prefix-sum-all": prefix_law,
    "rappor": partial(bits_law, ratio=bit_log_ratio(0.75, 0.45, 0.55)),
    "rappor-one-time": partial(bits_law, ratio=bit_log_ratio(0.95)),
}
LAWS["svt-34-parallel"] = partial(both_law, one=LAWS["svt-3"], other=LAWS["svt-4"])


def log_ratio(name: str, d: Floats, d_prime: Floats) -> Callable[[Floats], Floats]:
    """The logarithm of the ratio of the two laws' densities, `d_prime`'s over `d`'s, within ±50."""

    def ratio(outputs: Floats) -> Floats:
        one, other = (LAWS[name](data, outputs) for data in (d, d_prime))
        with np.errstate(invalid="ignore"):
            found = np.nan_to_num(other - one, nan=0.0, posinf=50.0, neginf=-50.0)
        return np.asarray(np.round(np.clip(found, -50, 50), 9), np.float64)

    return ratio
