"""Kullback-Leibler divergence in nats of a round's real submissions from fake ones."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel

Matrix = NDArray[np.float32]
# Up to 100 000 rounds add up, which single precision would round by as much as 0.6 %.
Sums = NDArray[np.float64]
Rows = NDArray[np.int32]


@exact_kernel
def add_normal(
    place: Rows, gradients: Matrix, fakes: Matrix, items: Rows, sigma: float, sums: Sums
) -> None:
    """Add `‖g − F‖²/(2σ²)`, the divergence of `N(g, σ²I)` from `N(F, σ²I)`, to each pair's sum.

    Args:
        place: indices of the pairs that submitted `(n,)`.
        gradients: `g`, `(n, d)`.
        fakes: `F`, one row per item.
        items: the item of each pair, `(P,)`.
        sigma: σ.
        sums: result `(P,)`, added to.
    """
    for k in range(len(place)):
        p = place[k]
        fake = fakes[items[p]]
        square = 0.0
        for f in range(gradients.shape[1]):
            square += (gradients[k, f] - fake[f]) ** 2
        sums[p] += square / (2 * sigma**2)


@exact_kernel
def add_two_valued(place: Rows, gradients: Matrix, level: float, sums: Sums) -> None:
    """Add the divergence of a two-valued submission from a fair coin to each pair's sum.

    This is the mean of `Σ_± P(±) ln 2P(±)` over the d coordinates, of which one is sent, with
    `P(+) = ½ + x d/(2 level)` and x the coordinate clipped to [−1, 1].

    Args:
        place: indices of the pairs that submitted `(n,)`.
        gradients: `(n, d)`.
        level: the magnitude of the submitted value.
        sums: result `(P,)`, added to.
    """
    d = gradients.shape[1]
    for k in range(len(place)):
        total = 0.0
        for f in range(d):
            tilt = min(max(float(gradients[k, f]), -1.0), 1.0) * d / level
            for side in (-tilt, tilt):
                if side > -1:
                    total += (1 + side) / 2 * math.log1p(side)
        sums[place[k]] += total / d
